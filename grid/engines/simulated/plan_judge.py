"""A judge of plans with a planted accuracy: it knows what is true of the plan, and says so as often as it is told to.

Its accuracy follows from `judge_auc`: it scores the plan as it would a call, and holds it for right above the middle
of the scale, by lot at it. That is as often right of right plans as of wrong ones. Where it errs, it names one error,
drawn evenly, of a plan that has none, and none of one that has some.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from grid.core.chains import ERRORS, Verdict
from grid.core.engine import SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.types import MAX_SCORE, Json, Usage, to_json
from grid.core.verdicts import VerdictAnswer
from grid.engines.simulated.difficulty import uniforms
from grid.engines.simulated.judge import shares
from grid.engines.tokens import count_tokens, prompt_tokens

UNREADABLE = "The plan looks good to me on the whole."
_FLAWED = 0.6  # the grade of a right plan in which it finds an error


def accuracy(auc: float) -> float:
    """The share of plans of which it says what is true."""
    middle = MAX_SCORE // 2
    right = shares(auc)[1]
    return sum(right[middle + 1 :]) + right[middle] / 2


@dataclass(frozen=True)
class PlantedVerdicts:
    """The engine for one plan of which `truth` holds; it samples verdicts and nothing else."""

    truth: Verdict
    auc: float
    malformed: float
    seed: int
    version: str
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "simulated"
    sampler: ClassVar[None] = None

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` verdicts; at temperature 0 the same prompt has the same one."""
        if not isinstance(prompt.answer, VerdictAnswer):
            raise TypeError("a judge of plans gives verdicts")
        base = seed if temperature > 0 else self._own_seed(prompt)
        texts = tuple(self._text(prompt.answer, base, index) for index in range(n))
        return Sampled(texts, Usage(n, 0, n * prompt_tokens(prompt), 0, sum(map(count_tokens, texts))))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """It has none."""
        raise TypeError("a judge of plans gives verdicts")

    def _own_seed(self, prompt: Prompt) -> int:
        text = "".join(section.digest for section in prompt.sections)
        digest = hashlib.blake2b(text.encode(), digest_size=8, key=self.seed.to_bytes(8, "big"))
        return int.from_bytes(digest.digest(), "big")

    def _text(self, wanted: VerdictAnswer, base: int, index: int) -> str:
        if uniforms(base, index)[0] < self.malformed:
            return UNREADABLE
        said, which, _ = uniforms(base, index, 1)
        right, truth = said < accuracy(self.auc), self.truth
        correct = truth.correct if right else not truth.correct
        found: dict[str, Json] = {"reasoning": f"It is {'right' if correct else 'wrong'}."}
        if wanted.errors:
            errors, grade = truth.errors or frozenset(), truth.grade
            if not right:
                errors = frozenset({ERRORS[int(which * len(ERRORS))]}) if truth.correct else frozenset()
                grade = None
            known = grade if grade is not None else 1.0 if correct else _FLAWED
            found |= {name: name in errors for name in ERRORS} | {"grade": known}
        return to_json(found | {"is_correct": correct})

"""Questions of several objectives, put together from independent ones as the paper's script does (B.1.3)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from grid.core.types import ToolCall
from grid.datasets.hotpotqa.parts import BRIDGE, COMPARISON, Part
from grid.text.references import numbered
from grid.worlds.search.readers import Evidence
from grid.worlds.search.world import QUESTION

OF_DEMONSTRATIONS = 1000
"""What the seed of demonstrations has more than that of cases."""
_TRIES = 20
"""Draws for each sample that is wanted: equal ones count once."""


@dataclass(frozen=True)
class Sample:
    """Some parts as one question; the reference's calls are the parts' own, one part after another."""

    id: str
    parts: tuple[Part, ...]

    @cached_property
    def query(self) -> str:
        """The question, or numbered lines of several."""
        return self._joined([part.question for part in self.parts])

    @property
    def answer(self) -> str:
        """The answer, or numbered lines of several."""
        return self._joined([part.answer for part in self.parts])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the parts, in their order."""
        return tuple(part.kind for part in self.parts)

    @cached_property
    def templates(self) -> frozenset[str]:
        """Of the parts."""
        return frozenset(part.template for part in self.parts)

    def calls(self) -> dict[str, ToolCall]:
        """The reference's calls by their numbers, from 0; what two parts ask alike is asked once."""
        return self._plan[0]

    def resolution(self) -> tuple[str, ...]:
        """The last call of each part."""
        return self._plan[1]

    @cached_property
    def _plan(self) -> tuple[dict[str, ToolCall], tuple[str, ...]]:
        numbers: dict[tuple[str, str], str] = {}
        ends = []
        for part in self.parts:
            own: list[str] = []
            for step in part.steps:
                own.append(numbers.setdefault((step.tool, step.asked(own)), str(len(numbers))))
            ends.append(own[-1])
        calls = {number: ToolCall(tool, {QUESTION: asked}) for (tool, asked), number in numbers.items()}
        return calls, tuple(ends)

    @property
    def is_consistent(self) -> bool:
        """Whether parts that ask alike find the same."""
        found = self.evidence()
        return all(found[question] == known for part in self.parts for question, known in part.evidence().items())

    def evidence(self) -> dict[str, Evidence]:
        """What each of the reference's calls finds, by its question with earlier results filled in."""
        return {question: found for part in self.parts for question, found in part.evidence().items()}

    @staticmethod
    def _joined(texts: Sequence[str]) -> str:
        return texts[0] if len(texts) == 1 else numbered(texts)


def bounds(parts: Sequence[Part], objectives: int) -> tuple[int, int] | None:
    """The fewest and the most bridge questions that a sample can have; None where it can have none."""
    bridges = sum(part.kind == BRIDGE for part in parts)
    low, high = max(0, objectives - (len(parts) - bridges)), min(objectives, bridges)
    return (low, high) if low <= high else None


def draw(parts: Sequence[Part], objectives: int, count: int, seed: int) -> list[tuple[Part, ...]]:
    """At most `count` samples of so many parts, none twice.

    Of one objective half are bridge questions and half comparisons, each question once. Of several each sample has
    i ~ U{0..k} bridge questions (or as near as the parts allow, `bounds`) and else comparisons, shuffled; a question
    may be in many samples, and never twice in one. The draws are those of the paper's script for the same seed, without
    samples that were drawn before or whose parts contradict one another.
    """
    rng = random.Random(seed)
    bridges, comparisons = ([part for part in parts if part.kind == kind] for kind in (BRIDGE, COMPARISON))
    if objectives == 1:
        half = count // 2
        halves = [rng.sample(pool, min(half, len(pool))) for pool in (bridges, comparisons)]
        singles = [*halves[0], *halves[1]]
        rng.shuffle(singles)
        return [(part,) for part in singles]
    limits = bounds(parts, objectives)
    found: dict[tuple[str, ...], tuple[Part, ...]] = {}
    for _ in range(count * _TRIES if limits else 0):
        if len(found) == count:
            break
        low, high = limits or (0, 0)
        number = rng.randint(low, high)
        chosen = rng.sample(bridges, number) if number else []
        chosen += rng.sample(comparisons, objectives - number) if number < objectives else []
        rng.shuffle(chosen)
        if Sample("", tuple(chosen)).is_consistent:
            found.setdefault(tuple(part.id for part in chosen), tuple(chosen))
    return list(found.values())

"""An evaluator judges which of two finished trajectories serves a request better.

Win rates are computed from these verdicts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from grid.core.engine import EVALUATOR, Engine, Prompt, Section, VoteAnswer
from grid.core.errors import ContextError, ModelError
from grid.core.problem import SOLVED_FIRST, Dataset
from grid.core.types import Usage
from grid.core.util import derive_seed
from grid.datasets.grading import query_section
from grid.episode.judging import Judging
from grid.episode.requests import Requests

COMPARING = 2
"""The version of the comparison. Raise it whenever the prompt or a rule changes. It is part of every comparison's
id."""
BETTER = Section(
    "role",
    (
        "Two agents got the same request, and each called tools to carry it out. Decide which of the two served "
        "the request better.",
        "First ask whether the request was fulfilled, fully or in part, and whether the final answer comes from "
        "the results of the tools and is not made up. If the two are equal in this, the one with fewer "
        "unnecessary or failed calls is better. The order in which they are shown and the length of what they "
        "wrote do not matter.",
    ),
)
_SOLVED = 1.0
_DIGITS = 16


@dataclass(frozen=True)
class Rule:
    """A rule for comparing a dataset's trajectories.

    If `solved_first` is set and exactly one of the two trajectories is Solved (`passed` is 1), this trajectory is
    better, and the evaluator is not asked. Otherwise the evaluator gives `judgements` judgements in each order of
    presentation, and the most frequent judgement counts.
    """

    name: str
    solved_first: bool = False
    judgements: int = 1

    @property
    def temperature(self) -> float:
        """The sampling temperature: 0 for a single judgement, so that the likeliest one is given; 1 for several."""
        return 0.0 if self.judgements == 1 else 1.0


JUDGED_RULE = Rule("judged")
SOLVED_FIRST_RULE = Rule("solved_first", solved_first=True, judgements=3)
"""StableToolBench's rule (Guo et al. 2024, 'Evaluation'), as in ToolEval."""


def rule_of(dataset: Dataset) -> Rule:
    """The rule by which a dataset's trajectories are compared."""
    return SOLVED_FIRST_RULE if SOLVED_FIRST in dataset.provides else JUDGED_RULE


class Shown(NamedTuple):
    """A finished trajectory: a line for each step, a line for the answer, and whether it passed, if known."""

    lines: Sequence[str]
    passed: float | None = None


class Verdict(NamedTuple):
    """The result of a comparison: `win` is 1 if the first trajectory is better, 0 if the second is, 0.5 for a tie.

    If the evaluator is asked, `win` is the mean of `first` and `second`: the verdicts, as in `win`, when the first
    trajectory was shown first and when it was shown second. A verdict is None if the evaluator was not asked or gave no
    readable answer; if either is None after asking, so is `win`. `by`: what decided, namely equal texts, the rule
    `solved_first`, or the evaluator.
    """

    win: float | None
    by: Literal["equal", "solved", "judge"]
    first: float | None = None
    second: float | None = None
    usage: Usage = Usage()


def comparison_id(cells: tuple[str, str], evaluator: Mapping[str, Any], rule: Rule) -> str:
    """Sixteen hexadecimal digits that identify everything that a verdict depends on.

    `evaluator` is the evaluator's config, including how it is asked. The batching of the evaluator's requests is left
    out, because it does not change verdicts.
    """
    own = {key: value for key, value in evaluator.items() if key != "serving"}
    text = json.dumps([*cells, own, rule.name, COMPARING], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


async def compare(
    query: str, own: Shown, other: Shown, rule: Rule, engine: Engine, judging: Judging, seed: int
) -> Verdict:
    """The verdict on whether `own` is better than `other`.

    The evaluator is asked in both orders of presentation, and the two results are averaged. It is not asked if the two
    trajectories have the same text, which is a tie, or if the rule's `solved_first` decides.

    Raises:
        EngineError: the evaluator does not answer.
    """
    if own.lines == other.lines:
        return Verdict(0.5, "equal")
    if rule.solved_first and own.passed is not None and other.passed is not None:
        solved = [one.passed == _SOLVED for one in (own, other)]
        if any(solved) and not all(solved):
            return Verdict(float(solved[0]), "solved")
    requests = Requests({EVALUATOR: engine}, derive_seed(seed, "compare"))
    first = await _asked(requests, query, (own, other), rule, judging, "first")
    second = await _asked(requests, query, (other, own), rule, judging, "second")
    turned = None if second is None else 1 - second
    win = None if first is None or turned is None else (first + turned) / 2
    return Verdict(win, "judge", first, turned, requests.spent[EVALUATOR])


async def _asked(
    requests: Requests, query: str, pair: tuple[Shown, Shown], rule: Rule, judging: Judging, order: str
) -> float | None:
    """1 if the evaluator prefers the trajectory shown first, 0 if it prefers the other, 0.5 if the votes are even.

    None if no answer can be read, or if the prompt does not fit the evaluator's context.
    """
    texts = ["\n".join(("One agent's steps:", *shown.lines)) for shown in pair]
    prompt = Prompt((BETTER, query_section(query)), VoteAnswer(len(texts)))
    try:
        shares = await judging.vote(
            requests, EVALUATOR, prompt, texts, "better", order, samples=rule.judgements, temperature=rule.temperature
        )
    except (ModelError, ContextError):
        return None
    return 0.5 if shares[0] == shares[1] else float(shares[0] > shares[1])

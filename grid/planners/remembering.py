"""What a planner did on other cases, shown in its prompts: the group `memory` (egb_slate B.1).

A trace is one case: its request, every step on the path to the result, as a history shows them, and whether the case
was resolved. Whose traces they are, and where they come from, the run layer decides (`grid.settings.remembered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.types import Step
from grid.core.util import STRICT
from grid.episode import prompts

Mode = Literal["none", "traces"]
Kept = Literal["resolved", "all"]
NOT_REMEMBERED: Mode = "none"
MOST_SHOWN = 2_000
"""Characters of what a call returned that a trace keeps."""


@dataclass(frozen=True, config=STRICT)
class Remembering:
    """What planners remember: the group `memory`.

    Args:
        mode: `none`, or `traces`: what the same setting did in an earlier sweep.
        path: the results folder of that sweep.
        kept: traces of the cases that it resolved, or of all.
        count: traces in a prompt, those of the nearest requests.
        apart: leave out traces of cases that share the case's cluster, as those of one template do.
    """

    mode: Mode = NOT_REMEMBERED
    path: str | None = None
    kept: Kept = "resolved"
    count: Annotated[int, Field(ge=1, le=100)] = 3
    apart: bool = False


@plain_dataclass(frozen=True)
class Trace:
    """What was done on a case: `lines` has one line a step."""

    case_id: str
    cluster: str
    question: str
    lines: tuple[str, ...]
    resolved: bool

    @property
    def text(self) -> str:
        """As a prompt shows it."""
        end = f"Carried out: {'yes' if self.resolved else 'no'}"
        return "\n".join((f"Earlier query: {self.question}", *self.lines, end))


def step_lines(steps: Sequence[Step], answer: str | None) -> tuple[str, ...]:
    """The steps of a path as a history shows them; `answer` is the one that the last of them finished with."""
    ends = (answer if place == len(steps) else None for place in range(1, len(steps) + 1))
    return tuple(prompts.step_text(step, most=MOST_SHOWN, answer=end) for step, end in zip(steps, ends, strict=True))


# Solved plans, and what they say of another one's actions (ToolChain*, Zhuang et al. 2024).


SolvedPlans: TypeAlias = Literal["other_half", "none"]
"""Whose plans are remembered where a dataset has no demonstrations: those of cases of its other half, or nobody's."""
OTHER_HALF: SolvedPlans = "other_half"


@plain_dataclass(frozen=True)
class Memory:
    """Plans as sequences of tools."""

    plans: tuple[tuple[str, ...], ...]

    def likeness(self, plan: Sequence[str]) -> float | None:
        """g1: the longest common subsequence with the plan most like it, over the shorter length; None without any."""
        return max((alike(plan, known) for known in self.plans if known and plan), default=None)

    def place(self, tool: str) -> float | None:
        """h1: where a tool stands on average in the plans that use it, the last action at 1; None without plans.

        One that a plan uses several times stands at the mean of its places; one that none uses where that tool does
        whose name is most like its own.
        """
        known = dict.fromkeys(name for plan in self.plans for name in plan)
        if not known:
            return None
        if tool not in known:
            tool = max(known, key=lambda name: alike(tool, name))
        places = [
            _mean([at / len(plan) for at, name in enumerate(plan, start=1) if name == tool])
            for plan in self.plans
            if tool in plan
        ]
        return _mean(places)


def alike(one: Sequence[str], other: Sequence[str]) -> float:
    """The longest common subsequence of two sequences, neither empty, over the length of the shorter."""
    return _common(one, other) / min(len(one), len(other))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    above = [0] * (len(other) + 1)
    for item in one:
        here = [0]
        for place, also in enumerate(other):
            here.append(above[place] + 1 if item == also else max(above[place + 1], here[-1]))
        above = here
    return above[-1]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

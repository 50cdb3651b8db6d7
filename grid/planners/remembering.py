"""A planner's traces of other cases, shown in its prompts: the group `memory` (egb_slate B.1).

A trace shows one case: its request, every step on the path to the result (in the form of a history), and whether the
case was resolved. The run layer decides which traces are shown, and loads them (`grid.settings.remembered`).
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
"""Maximum number of characters that a trace keeps of a call's result."""


@dataclass(frozen=True, config=STRICT)
class Remembering:
    """The memory of planners: the group `memory`.

    Args:
        mode: `none`, or `traces`, which uses the traces of the same setting from an earlier sweep.
        path: the results folder of that sweep.
        kept: `resolved` keeps only traces of resolved cases, `all` keeps traces of all cases.
        count: the number of traces in a prompt; traces whose requests are most similar to the case's request are used.
        apart: whether to leave out traces of cases in the case's own cluster, such as cases from the same template.
    """

    mode: Mode = NOT_REMEMBERED
    path: str | None = None
    kept: Kept = "resolved"
    count: Annotated[int, Field(ge=1, le=100)] = 3
    apart: bool = False


@plain_dataclass(frozen=True)
class Trace:
    """The work done on an earlier case; `lines` has one line for each step."""

    case_id: str
    cluster: str
    question: str
    lines: tuple[str, ...]
    resolved: bool

    @property
    def text(self) -> str:
        """The trace as a prompt shows it."""
        end = f"Carried out: {'yes' if self.resolved else 'no'}"
        return "\n".join((f"Earlier query: {self.question}", *self.lines, end))


def step_lines(steps: Sequence[Step], answer: str | None) -> tuple[str, ...]:
    """The steps of a path, in the form of a history; `answer` is the answer given by the last step."""
    ends = (answer if place == len(steps) else None for place in range(1, len(steps) + 1))
    return tuple(prompts.step_text(step, most=MOST_SHOWN, answer=end) for step, end in zip(steps, ends, strict=True))


# Successful plans, and the scores that they give to the actions of a new plan (ToolChain*, Zhuang et al. 2024).


SolvedPlans: TypeAlias = Literal["other_half", "none"]
"""Successful plans used if a dataset has no demonstrations: from its half without the current case, or none."""
OTHER_HALF: SolvedPlans = "other_half"


@plain_dataclass(frozen=True)
class Memory:
    """Successful plans as sequences of tools."""

    plans: tuple[tuple[str, ...], ...]

    def likeness(self, plan: Sequence[str]) -> float | None:
        """g1: the similarity of a sequence of tools to the successful plan that is most similar to it (`alike`).

        The result is None if there are no successful plans, or if `plan` is empty.
        """
        return max((alike(plan, known) for known in self.plans if known and plan), default=None)

    def place(self, tool: str) -> float | None:
        """h1: a tool's average relative position (1: the end) in the plans that use it; None if there are no plans.

        If a plan uses the tool several times, the mean of the tool's positions in that plan is used. A tool that no
        plan uses gets the position of the tool with the most similar name.
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
    """The length of the longest common subsequence, divided by the shorter sequence's length; neither may be empty."""
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

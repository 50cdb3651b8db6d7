"""Solved plans, and what they say of another one's actions (ToolChain*, Zhuang et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

SolvedPlans: TypeAlias = Literal["other_half", "none"]
"""Whose plans are remembered where a dataset has no demonstrations: those of cases of its other half, or nobody's."""
OTHER_HALF: SolvedPlans = "other_half"


@dataclass(frozen=True)
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

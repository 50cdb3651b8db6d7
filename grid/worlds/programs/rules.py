"""Whether calls keep to a task's constraints: what has to be remembered of them, and what a call breaks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grid.worlds.programs.model import Constraint

BEFORE, AT_MOST, REQUIRE = "before", "at_most", "require_function"
FORBID_FUNCTION, FORBID_TOOL = "forbid_function", "forbid_tool"


@dataclass(frozen=True)
class Kept:
    """What calls up to now mean for the constraints: functions called that a constraint speaks of, and how often.

    `counts` goes with the constraints of the kind at_most; a count stops one above what is allowed.
    """

    called: frozenset[str] = frozenset()
    counts: tuple[int, ...] = ()
    broken: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Rules:
    """A task's constraints.

    Raises:
        ValueError: a constraint is of no known kind, or lacks what its kind speaks of.
    """

    constraints: tuple[Constraint, ...]

    def __post_init__(self) -> None:
        for constraint in self.constraints:
            wanted = 2 if constraint.kind in (BEFORE, AT_MOST) else 1
            if constraint.kind not in (BEFORE, AT_MOST, REQUIRE, FORBID_FUNCTION, FORBID_TOOL):
                raise ValueError(f"no kind of constraint: {constraint.kind!r}")
            if len(constraint.arguments) != wanted:
                raise ValueError(f"{constraint.kind} takes {wanted} arguments, not {constraint.arguments}")
            if constraint.kind == AT_MOST and not constraint.arguments[1].isdecimal():
                raise ValueError(f"at_most takes a number of calls, not {constraint.arguments[1]!r}")

    @cached_property
    def limits(self) -> tuple[tuple[int, str, int], ...]:
        """The constraints of the kind at_most: place, function, most calls."""
        return tuple(
            (place, one.arguments[0], int(one.arguments[1]))
            for place, one in enumerate(self.constraints)
            if one.kind == AT_MOST
        )

    @cached_property
    def watched(self) -> frozenset[str]:
        """The functions of which it matters whether they were called."""
        return frozenset(one.arguments[0] for one in self.constraints if one.kind in (BEFORE, REQUIRE))

    @property
    def start(self) -> Kept:
        """No call was made."""
        return Kept(counts=(0,) * len(self.limits))

    def after(self, kept: Kept, tool: str, functions: Sequence[str]) -> Kept:
        """After a call of a tool that applies the functions in this order."""
        called, broken = set(kept.called), set(kept.broken)
        counts = list(kept.counts)
        for function in functions:
            for place, one in enumerate(self.constraints):
                if (one.kind == FORBID_FUNCTION and one.arguments[0] == function) or (
                    one.kind == BEFORE and one.arguments[1] == function and one.arguments[0] not in called
                ):
                    broken.add(place)
            for number, (place, limited, most) in enumerate(self.limits):
                if limited == function:
                    counts[number] = min(counts[number] + 1, most + 1)
                    if counts[number] > most:
                        broken.add(place)
            if function in self.watched:
                called.add(function)
        broken.update(
            place for place, one in enumerate(self.constraints) if one.kind == FORBID_TOOL and one.arguments[0] == tool
        )
        return Kept(frozenset(called), tuple(counts), frozenset(broken))

    def unmet(self, kept: Kept) -> frozenset[int]:
        """The constraints that ask for a call which has not been made."""
        return frozenset(
            place
            for place, one in enumerate(self.constraints)
            if one.kind == REQUIRE and one.arguments[0] not in kept.called
        )

    def texts(self, places: Collection[int]) -> list[str]:
        """The constraints' sentences."""
        return [self.constraints[place].text or str(self.constraints[place]) for place in sorted(places)]

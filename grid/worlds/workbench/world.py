"""WorkBench's workplace: calls change tables, and what the tables hold at the end is the outcome.

States are tuples of rows, and a call makes a new tuple of pointers in the one table that it changes: all else is shared
(`Table`). Data frames would be copied for every state, or share what a later call changes; a database would need a
transaction for each of a search's branches. The tables have 500 rows at most, so that no index is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from grid.core.types import Json, Observation, ToolCall
from grid.core.world import State, own_state
from grid.worlds.schema import ERROR
from grid.worlds.workbench import analytics, calendar, customers, email, projects
from grid.worlds.workbench.table import EXACT, FullError, RefusedError, Tool, Workplace, alike

TOOLS: Mapping[str, Tool] = {
    tool.spec.name: tool for module in (calendar, email, analytics, projects, customers) for tool in module.TOOLS
}
LONGEST = 10_000
"""Characters of an argument."""


@dataclass(frozen=True)
class WorkBenchWorld:
    """One case: the tables as they stand before it, and the calls of its gold answer.

    Arguments are texts; a number or truth value is taken as its text and null as not given. In what is written, a line
    break may be written as such or as a backslash and an n: the benchmark's scorer reads both as one.
    """

    before: Workplace
    gold: Sequence[ToolCall]
    branches: ClassVar[bool] = True

    def start(self) -> Workplace:
        """The tables before any call."""
        return self.before

    async def apply(self, state: State, call: ToolCall) -> tuple[Workplace, Observation]:
        """What a tool returns; `{"error"}` where it refuses."""
        return respond(own_state(state, Workplace), call)

    def resolved(self, state: State) -> bool:
        """Whether all five tables equal those after the gold calls.

        The case of letters counts in a status, a list and a board alone (the authors' `is_correct`).
        """
        reached = own_state(state, Workplace).changing()
        return all(alike(one, other, EXACT) for one, other in zip(reached, self.wanted.changing(), strict=True))

    def side_effect(self, state: State) -> bool:
        """Whether the tables are wrong and not as they were (`has_side_effects`)."""
        return own_state(state, Workplace).changing() != self.before.changing() and not self.resolved(state)

    def answer(self, state: State) -> str | None:
        """None: what counts is in the tables."""
        return None

    @cached_property
    def wanted(self) -> Workplace:
        """The tables after the gold calls."""
        return played(self.before, self.gold)


def played(place: Workplace, calls: Sequence[ToolCall]) -> Workplace:
    """The tables after calls; those that are refused change nothing."""
    for call in calls:
        place = respond(place, call)[0]
    return place


def respond(place: Workplace, call: ToolCall) -> tuple[Workplace, Observation]:
    """The tables after a call, and what it returned."""
    try:
        known = TOOLS.get(call.tool)
        if known is None:
            raise RefusedError(f"there is no tool {call.tool:.80}")
        after, content = known.run(place, **_texts(known, call.arguments))
    except (RefusedError, FullError) as refused:
        return place, Observation({ERROR: str(refused)}, failed=True)
    return after, Observation(content)


def _texts(known: Tool, arguments: Mapping[str, Json]) -> dict[str, str]:
    """The arguments that are given, as texts."""
    names = {parameter.name for parameter in known.spec.parameters}
    found = dict[str, str]()
    for name, value in arguments.items():
        if name not in names:
            raise RefusedError(f"there is no argument {name:.40}")
        if isinstance(value, list | dict):
            raise RefusedError(f"{name} must be a text")
        if value is not None:
            text = str(value)
            if len(text) > LONGEST:
                raise RefusedError(f"{name} has more than {LONGEST:,} characters")
            found[name] = text.replace("\\n", "\n") if known.writes else text
    return found

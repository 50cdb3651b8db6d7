"""A small world for tests of planners: three calls that build on one another, one substep without a tool."""

from __future__ import annotations

from dataclasses import dataclass, field

from grid.core.engine import Engine
from grid.core.types import Case, Json, Observation, Parameter, Plan, Substep, ToolCall, ToolSpec
from grid.core.world import State
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.worlds.lookup import LookupSimulator, build_entries

CALLS = {
    "1.1": ToolCall("find", {"order": "A-1"}),
    "2.1": ToolCall("quote", {"item": "OUTPUT_FROM_STEP_1.1.item"}),
    "2.2": ToolCall("book", {"quote": "OUTPUT_FROM_STEP_2.1.quote"}),
}
OUTCOMES: dict[str, dict[str, Json]] = {
    "1.1": {"item": "I-7"},
    "2.1": {"quote": "Q-3"},
    "2.2": {"booking": "B-9"},
}
PLAN = Plan(
    (
        Substep("1.1", "see what was bought", "look"),
        Substep("1.2", "think about it", "look"),
        Substep("2.1", "ask what it costs", "buy"),
        Substep("2.2", "settle it", "buy"),
    )
)
RIGHT = {"1.1": "find", "1.2": "no_tool", "2.1": "quote", "2.2": "book"}


def tool(name: str, argument: str) -> ToolSpec:
    """A tool with one string argument."""
    return ToolSpec(name, f"does {name}", (Parameter(argument, "string", ""),), ("result",))


TOOLS = {
    spec.name: spec
    for spec in (
        tool("find", "order"),
        tool("quote", "item"),
        tool("book", "quote"),
        tool("other", "x"),
        tool("more", "x"),
    )
}


def right_arguments(substep: str, name: str) -> dict[str, Json]:
    """The reference arguments where the substep's right tool is called; none otherwise."""
    call = CALLS.get(substep)
    return dict(call.arguments) if call and call.tool == name else {}


@dataclass(frozen=True)
class Counting(LookupSimulator):
    """A simulator that remembers every call made."""

    calls: list[str] = field(default_factory=list)

    async def apply(self, state: State, call: ToolCall) -> tuple[frozenset[str], Observation]:
        self.calls.append(call.tool)
        return await super().apply(state, call)


def small_world() -> Counting:
    """A fresh world; the case is resolved by the booking."""
    return Counting(build_entries(CALLS, OUTCOMES), frozenset({"2.2"}))


def episode(engine: Engine, world: Counting | None = None, seed: int = 1, budget: Budget | None = None) -> Episode:
    """An episode of the small case; all five tools are candidates everywhere."""
    return Episode(
        case=Case("small", "Please book again what I bought in order A-1.", PLAN),
        world=world or small_world(),
        engine=engine,
        candidates=lambda case, substep: tuple(TOOLS.values()),
        budget=budget or Budget(),
        seed=seed,
    )


def certain(**wrong: str) -> dict[str, dict[str, float]]:
    """All probability on the right tool of every substep; `wrong` maps s1_1 and so on to another tool."""
    return {step: {wrong.get("s" + step.replace(".", "_"), name): 1.0} for step, name in RIGHT.items()}

"""Numbers by name and their sums: tools whose calls build on one another's results, and an engine with a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grid.core.engine import SAMPLE, Home, Prompt, Sampled
from grid.core.types import (
    FINISH,
    NO_TOOL,
    RESULT,
    Case,
    Demonstration,
    Json,
    Observation,
    Parameter,
    Plan,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    Usage,
    to_json,
)
from grid.core.world import State, own_state
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.planners.horizon import FullHorizon, SingleStepHorizon
from grid.planners.zero_shot import ZeroShot
from grid.text.references import reference

TOOLS = (
    ToolSpec("number", "a number by its name", (Parameter("name", "string", "its name"),), (RESULT, "value")),
    ToolSpec("sum", "of two numbers", (Parameter("left", RESULT, ""), Parameter("right", RESULT, "")), (RESULT,)),
)
NUMBERS = {"one": 1, "two": 2, "five": 5}


@dataclass(frozen=True)
class Numbers:
    """Handles are `$n` of the n-th result; what is unknown fails. It runs on: it cannot branch."""

    executed: list[ToolCall] = field(default_factory=list)
    branches: ClassVar[bool] = False

    def start(self) -> tuple[int, ...]:
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        results = own_state(state, tuple)
        self.executed.append(call)
        handles = {f"${place}": value for place, value in enumerate(results)}
        known: dict[str, int] = handles if call.tool == "sum" else NUMBERS
        unknown = [value for value in call.arguments.values() if str(value) not in known]
        if unknown or not call.arguments:
            return state, Observation({"error": f"there is no {', '.join(map(str, unknown))}"}, failed=True)
        value = sum(known[str(argument)] for argument in call.arguments.values())
        return (*results, value), Observation({RESULT: f"${len(results)}", "value": str(value)})

    def resolved(self, state: State) -> bool:
        return own_state(state, tuple)[-1:] == (3,)

    def answer(self, state: State) -> str | None:
        results = own_state(state, tuple)
        return str(results[-1]) if results else None


@dataclass
class Script:
    """Answers in their turn; the last for ever."""

    answers: Sequence[str]
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    sampler: ClassVar[None] = None
    name: ClassVar[str] = "test"
    version: str = "script"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        return Sampled((self.answers[min(len(self.prompts), len(self.answers)) - 1],), Usage(n, 0, 10, 0, 3))

    async def choose(self, prompt: Prompt, *, seed: int) -> Any:
        raise AssertionError("no choices here")


def number(name: str) -> dict[str, Json]:
    return {"tool": "number", "arguments": {"name": name}}


def result(step: int) -> str:
    return reference(str(step), RESULT)


def added(left: str, right: str) -> dict[str, Json]:
    return {"tool": "sum", "arguments": {"left": left, "right": right}}


def plan(*calls: dict[str, Json]) -> str:
    return to_json({"plan": list(calls)})


def finish(**arguments: Json) -> dict[str, Json]:
    return {"tool": FINISH, "arguments": arguments}


DONE = to_json(finish())
DECLINED = to_json({"tool": NO_TOOL, "arguments": {}})
SOLVED = Demonstration(
    "What is one and five?",
    {
        "0": ToolCall("number", {"name": "one"}),
        "1": ToolCall("number", {"name": "five"}),
        "2": ToolCall("sum", {"left": result(0), "right": result(1)}),
    },
    "6",
)
OUTLINE = Plan(tuple(Substep(str(i), text, "") for i, text in enumerate(("first", "second", "judge", "add"), start=1)))
Planner = FullHorizon | SingleStepHorizon | ZeroShot


@dataclass(frozen=True)
class Solved:
    """How an episode ended."""

    trajectory: Trajectory
    world: Numbers
    episode: Episode

    @property
    def resolved(self) -> bool:
        return self.world.resolved(self.trajectory.end)


def solved(planner: Planner, engine: Any, question: str = "What is one and two?", outline: Plan = Plan(())) -> Solved:  # noqa: B008 - immutable
    world, case = Numbers(), Case("q", question, outline)
    episode = Episode(
        case,
        world,
        engine,
        lambda case, substep: TOOLS,
        Budget(),
        7,
        demonstrations=lambda count: [SOLVED][:count],
    )
    return Solved(asyncio.run(planner.solve(episode)), world, episode)

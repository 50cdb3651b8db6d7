"""A small case whose plan is diagnosed, for tests of whoever predicts plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grid.core.engine import CRITIC, SAMPLE, Choice, Engine, Home, Prompt, Sampled
from grid.core.problem import Reference
from grid.core.types import Case, Observation, Plan, Step, Substep, ToolCall, Usage
from grid.engines.simulated.engine import Simulated
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.worlds.layers import REJECT_TOOL
from tests.support.world import TOOLS, small_world

CALLS = {
    "0": ToolCall("find", {"order": "A-1"}),
    "1": ToolCall("quote", {"item": "OUTPUT_FROM_STEP_0.item"}),
    "2": ToolCall("book", {"quote": "OUTPUT_FROM_STEP_1.quote"}),
}
SURE: dict[str, Any] = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "overrefusal": 0.0}


@dataclass
class Says:
    """Answers with texts, one after another, the last again and again; keeps the prompts."""

    texts: Sequence[str]
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "says"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        text = self.texts[min(len(self.prompts), len(self.texts)) - 1]
        return Sampled((text,) * n, Usage(llm_calls=n, input_tokens=10 * n, output_tokens=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise AssertionError("plans are sampled")


def simulated(unsolvable: bool = False, seed: int = 1, **keys: Any) -> Engine:
    """The simulated policy, told the case's reference."""
    reference = Reference(dict(CALLS), ("2",), followed=False, unsolvable=unsolvable)
    return Simulated(**SURE | keys).told(reference, TOOLS, seed)


def plan_episode(
    engine: Engine,
    *,
    done: int = 0,
    decisions: int | None = None,
    diagnosed: bool = True,
    may_refuse: bool = True,
    critic: Engine | None = None,
    seed: int = 1,
    budget: Budget | None = None,
) -> Episode:
    """An episode of the case behind so many of its calls."""
    outcomes = ({"item": "I-7"}, {"quote": "Q-3"})
    steps = tuple(
        Step(0, Substep(place, "", ""), call, Observation(outcome), written=call)
        for (place, call), outcome in zip([*CALLS.items()][:done], outcomes, strict=False)
    )
    case = Case(
        "small",
        "Please book again what I bought in order A-1.",
        Plan(()),
        done=steps,
        decisions=decisions,
        diagnosed=diagnosed,
    )
    tools = (*TOOLS.values(), *([REJECT_TOOL] if may_refuse else []))
    return Episode(
        case,
        small_world(),
        engine,
        lambda case, substep: tools,
        budget or Budget(),
        seed,
        roles={CRITIC: critic} if critic else {},
    )

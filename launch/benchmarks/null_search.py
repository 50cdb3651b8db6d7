"""A search that costs nothing but the search: an engine of distinct calls and drawn scores, a world that is a tree."""

from __future__ import annotations

import asyncio
import gc
import time
import zlib
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

from hydra.utils import instantiate

from grid.core.engine import CHOOSE, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Sampled, ScoreAnswer
from grid.core.roles import JUDGE
from grid.core.types import Case, Observation, Parameter, Plan, ToolCall, ToolSpec, Usage
from grid.core.world import State, own_state
from grid.episode.episode import Episode
from grid.episode.judging import Judging
from grid.episode.progress import Budget
from grid.planners.search.planner import TreeSearch
from launch.benchmarks.prompts import group_config

TOOLS = tuple(
    ToolSpec(f"tool{i}", "Looks a key up.", (Parameter("key", "string", "what"),), ("found",)) for i in range(5)
)
_UNLIMITED = 10**9
_MOST = 8  # a score of 10 would be a success and end a search, one of less than 5 is LATS' failure


@dataclass(frozen=True)
class NullGuide:
    """The actor and the judge. Calls are told apart by their keys, scores are 1 to 8 of 10."""

    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "null_guide"
    sampler: ClassVar[None] = None
    version: str = field(default="null", init=False)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` distinct calls of the tools in turn, or `n` times a score."""
        if isinstance(prompt.answer, ScoreAnswer):
            texts = (f'{{"score": {seed % _MOST + 1}, "explanation": "drawn"}}',) * n
        else:
            key = seed & 0xFFFFFF
            texts = tuple(
                f'{{"thought": "a key", "tool": "tool{i % len(TOOLS)}", "arguments": {{"key": "{key}-{i}"}}}}'
                for i in range(n)
            )
        return Sampled(texts, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The same probability for every option."""
        options = len(cast(ChoiceAnswer, prompt.answer).options)
        return Choice((1 / options,) * options, Usage(forward_passes=1))


@dataclass(frozen=True)
class NullTree:
    """A world in which every call leads to a state of its own."""

    branches: ClassVar[bool] = True

    def start(self) -> State:
        """The root."""
        return 0

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """One level down."""
        return zlib.crc32(call.text().encode(), own_state(state, int)), Observation({"found": "a value"})

    def resolved(self, state: State) -> bool:
        """Never: the search goes on."""
        return False

    def answer(self, state: State) -> str | None:
        """None: it has none."""
        return None


class Searched(NamedTuple):
    """What one search did: executed calls, iterations, CPU seconds."""

    nodes: int
    rollouts: int
    seconds: float


def searcher(name: str, values: dict[str, Any]) -> TreeSearch:
    """The planner of `conf/planner/<name>.yaml` with other values of some keys."""
    return cast(TreeSearch, instantiate(group_config("planner", name) | values))


def search(planner: TreeSearch, seed: int = 0, steps: int = _UNLIMITED) -> tuple[Searched, Episode]:
    """One search of one case, in this process and without Ray, of so many executed calls at most."""
    engine, budget = NullGuide(), Budget(llm_calls=_UNLIMITED, steps=steps)
    episode = Episode(
        *(Case("null", "A question.", Plan(())), NullTree(), engine, lambda case, substep: TOOLS, budget, seed),
        roles={JUDGE: engine},
        judging=Judging(),
    )

    async def solve() -> float:
        started = time.process_time()
        await planner.solve(episode)
        return time.process_time() - started

    gc.collect()
    gc.freeze()  # neither side is to pay for looking through what was imported
    spent = asyncio.run(solve())
    gc.unfreeze()
    visited = episode.nodes[0].visits_below
    expanded = sum(1 for node in episode.nodes if node.children)
    return Searched(episode.tool_calls, visited or expanded, spent), episode

"""Single-step horizon (planning_horizon §2.1, eq. 1): one call at a time, on all observations."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.datasets.base import DEMONSTRATIONS
from grid.engines.base import SAMPLE, ToolCallAnswer
from grid.planners.base import Episode
from grid.planners.horizon import Limits, Walk, walk
from grid.strict import STRICT
from grid.text.answers import read_call
from grid.types import NO_TOOL, ToolCall, Trajectory, Usage

ASK = (
    "Give the next call, or no_tool where the value of the last call answers the question. "
    'Answer with one JSON object: {"tool": name or "no_tool", "arguments": {name: value}}.'
)


@dataclass(frozen=True, config=STRICT)
class SingleStepHorizon(Limits):
    """a_t from π(q, a_1, o_1, ..., a_t-1, o_t-1), until it takes no tool or `max_calls` are made."""

    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, DEMONSTRATIONS})

    async def solve(self, episode: Episode) -> Trajectory:
        """Call tools one by one."""
        taken = walk(episode)
        while len(taken.steps) < self.max_calls:
            call, usage = await self._next(taken)
            if call is None:
                break
            taken.take(call, usage)
        return taken.trajectory()

    async def _next(self, taken: Walk) -> tuple[ToolCall | None, Usage]:
        """The next call; None where the model has its answer."""
        answer, spent, tried = ToolCallAnswer(taken.tools, may_decline=True), Usage(), 0
        while True:
            text, usage = await taken.ask(self, ASK, answer, tried)
            spent, tried = spent + usage, tried + 1
            found = read_call(text)
            if found and found[0] == NO_TOOL and taken.steps:
                return None, spent
            usable = taken.usable([found]) if found else None
            if usable:
                return usable[0], spent

"""Full horizon with lazy replanning (planning_horizon §2.2, eqs. 2 and 3): plan, run, plan anew where a call fails."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import DEMONSTRATIONS
from grid.engines.base import SAMPLE, PlanAnswer
from grid.planners.base import Episode
from grid.planners.horizon import Limits, Walk, walk
from grid.strict import STRICT
from grid.text.answers import read_plan
from grid.types import ToolCall, Trajectory, Usage

ASK = (
    'Give the whole plan. Answer with one JSON object: {"plan": [{"tool": name, "arguments": {name: value}}, ...]}. '
    "The first call is step $0."
)
ASK_AGAIN = (
    "The last step failed. The steps that succeeded stay as they are, with their results; give the rest of the plan. "
    'Answer with one JSON object: {{"plan": [{{"tool": name, "arguments": {{name: value}}}}, ...]}}. '
    "The first call is step ${first}."
)


@dataclass(frozen=True, config=STRICT)
class FullHorizon(Limits):
    """a_1 ... a_T from π(q); after a failed call at t, a_t+1 ... from π(q, a_1, o_1, ..., a_t, o_t).

    A new plan is appended to what was executed: no call that succeeded is made again.
    """

    max_replans: Annotated[int, Field(ge=0)] = 8
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, DEMONSTRATIONS})

    async def solve(self, episode: Episode) -> Trajectory:
        """Plan, run without the model, replan on failure."""
        taken, replans = walk(episode), 0
        while not await self._run(taken):
            if replans == self.max_replans or len(taken.steps) >= self.max_calls:
                break
            replans += 1
        return taken.trajectory(replans)

    async def _run(self, taken: Walk) -> bool:
        """Run a new plan up to its end or its first failure; whether it came to its end."""
        plan, usage = await self._plan(taken)
        for call in plan:
            if len(taken.steps) >= self.max_calls or not taken.take(call, usage):
                return False
            usage = Usage()
        return True

    async def _plan(self, taken: Walk) -> tuple[list[ToolCall], Usage]:
        first = len(taken.steps)
        answer = PlanAnswer(taken.tools, first, self.max_calls - first)
        ask, spent, tried = ASK_AGAIN.format(first=first) if first else ASK, Usage(), 0
        while True:
            text, usage = await taken.ask(self, ask, answer, tried)
            spent, tried = spent + usage, tried + 1
            calls = read_plan(text)
            usable = taken.usable(calls) if calls else None
            if usable:
                return usable, spent

"""Holistic planning: the whole chain in one answer, before anything is run (agent_planning_benchmark §3.1, C.3)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.strict import STRICT
from grid.core.types import Trajectory, Usage
from grid.episode.acting import Acting, Action, begin, trajectory
from grid.episode.drafting import Refine
from grid.episode.episode import Episode
from grid.episode.planning import run_plan, whole_view
from grid.episode.view import Path, View
from grid.planners.predicting import Plan, as_predicted
from grid.planners.tool_chain import plan_chain


@dataclass(frozen=True, config=STRICT)
class Holistic(Acting):
    """A plan with its tool chain, or a refusal where the case lets a request be refused.

    Where a case is diagnosed, the chain is scored as it is written: nothing is run, and tools and arguments that there
    are not stay in it. Elsewhere the chain is run without the model, to its end, as that of `zero_shot` is, and a plan
    with a tool that was not offered is asked for again. An answer that refuses and plans all the same counts as both.
    No solved questions are shown by default, as in the paper.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 0
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def plans_ahead(self) -> bool:
        """Always."""
        return True

    @property
    def writes_plans(self) -> bool:
        """Always."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Predict the chain. Raises ModelError where none can be read after the retries."""
        return await self.write(episode, None)

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """The same, the chain refined before it counts."""
        path = begin(episode)
        view = whole_view(episode, path, self.max_calls)
        if view is None:
            return trajectory(episode, path)
        plan, usage, draft = await plan_chain(episode, view, self, refine)
        if episode.case.diagnosed:
            return as_predicted(episode, view, plan, usage, draft)
        return trajectory(episode, await self.carried_out(episode, view, plan, usage))

    async def carried_out(self, episode: Episode, view: View, plan: Plan, usage: Usage) -> Path:
        """The path behind a plan, which is run as it stands, without the model."""
        # A plan without calls says that nothing has to be done; its summary is what is told.
        actions = [*plan.actions] or [Action(None, finished=True, answer=plan.predicted.plan or None)]
        if not view.guided and not actions[-1].finished:
            actions.append(Action(None, finished=True))  # who has no call left ends the work
        return await run_plan(episode, view, actions, usage, self)

"""Full horizon with lazy replanning (planning_horizon §2.2, eqs. 2 and 3): plan, run, plan anew where a call fails."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.engines.base import SAMPLE
from grid.planners.acting import Acting, Path, begin, trajectory
from grid.planners.base import Episode
from grid.planners.planning import plan_ahead, run_plan, whole_view
from grid.strict import STRICT
from grid.types import Trajectory

ASK_AGAIN = "The last step failed. What was done stays as it is, with its results; plan the rest anew."


@dataclass(frozen=True, config=STRICT)
class FullHorizon(Acting):
    """a_1 ... a_T from π(q); after a failed call at t, a_t+1 ... from π(q, a_1, o_1, ..., a_t, o_t) (B.2).

    A new plan is appended to what was executed: no call that succeeded is made again. Given an outline a plan has one
    entry for each substep that is left.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    max_replans: Annotated[int, Field(ge=0)] = 8
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def plans_ahead(self) -> bool:
        """Always."""
        return True

    async def solve(self, episode: Episode) -> Trajectory:
        """Plan, run without the model, replan on failure. Raises ModelError where no plan can be read."""
        path, replans = begin(episode), 0
        while (view := whole_view(episode, path, self.max_calls)) is not None:
            if path.steps and replans == self.max_replans:
                break
            replans += bool(path.steps)
            planned = await plan_ahead(episode, view, self, ASK_AGAIN if path.steps else "", exact=True)
            path = await run_plan(episode, view, *planned, self, _failed)
            if not _failed(path):
                break
        return trajectory(episode, path, replans=replans)


def _failed(path: Path) -> bool:
    """Whether the last call returned nothing valid (§4.1)."""
    observation = path.steps[-1].observation if path.steps else None
    return observation is not None and observation.failed

"""Self-consistency: per decision (egb_slate figure 5) or over whole trajectories (appendix B.3)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import BRANCHING
from grid.engines.base import SAMPLE
from grid.planners.acting import Acting, Decision, Path, View, begin, rollout, trajectory
from grid.planners.asking import sample_actions, single_pass
from grid.planners.base import Episode
from grid.planners.side_by_side import every
from grid.planners.votes import vote
from grid.strict import STRICT
from grid.types import Trajectory


@dataclass(frozen=True, config=STRICT)
class SelfConsistency(Acting):
    """The majority of `samples`.

    `level: step` executes the majority of sampled actions at every decision; `level: plan` runs whole ReAct
    trajectories side by side from the same start and keeps the first of those whose final outcome most of them share.
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    level: Literal["step", "plan"] = "step"
    samples: Annotated[int, Field(ge=1, le=1000)] = 10

    @property
    def needs(self) -> frozenset[str]:
        """Of the engine and the dataset."""
        return frozenset({SAMPLE, BRANCHING} if self.level == "plan" else {SAMPLE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Vote by step or by plan."""
        if self.level == "plan":
            return await self._by_plan(episode)
        done = await rollout(episode, self._majority, self, begin(episode))
        return trajectory(episode, done.path)

    async def _majority(self, episode: Episode, view: View, name: str) -> Decision:
        return vote(*await sample_actions(episode, view, name, self.samples, self))

    async def _by_plan(self, episode: Episode) -> Trajectory:
        policy, start = partial(single_pass, acting=self), begin(episode)
        passes = await every(
            [partial(rollout, episode, policy, self, start, branch=index) for index in range(self.samples)]
        )
        paths = [done.path for done in passes]
        votes = Counter(map(_final_outcome, paths))
        winner = max(range(self.samples), key=lambda index: (votes[_final_outcome(paths[index])], -index))
        everything = tuple(step for path in paths for step in path.steps)
        return trajectory(episode, paths[winner], everything, branches=self.samples - 1)


def _final_outcome(path: Path) -> str:
    """What the last call of a trajectory returned; the empty string where none was made."""
    return next((step.observation.text() for step in reversed(path.steps) if step.observation), "")

"""Self-consistency: per step (egb_slate figure 5) or over whole trajectories (appendix B.3)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import OUTLINE
from grid.engines.base import SAMPLE
from grid.planners.base import Episode
from grid.planners.stepwise import Decision, View, rollout, sample_actions, single_pass
from grid.planners.votes import vote
from grid.strict import STRICT
from grid.types import Step, Trajectory


@dataclass(frozen=True, config=STRICT)
class SelfConsistency:
    """The majority of `samples`.

    `level: step` executes the majority of sampled actions at every substep; `level: plan` runs whole ReAct
    trajectories from the same start and keeps the first of those whose final outcome most of them share.
    """

    level: Literal["step", "plan"] = "step"
    samples: Annotated[int, Field(ge=1, le=1000)] = 10
    temperature: Annotated[float, Field(ge=0)] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, OUTLINE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Vote by step or by plan."""
        if self.level == "plan":
            return await self._by_plan(episode)
        done = await rollout(episode, self._majority)
        return Trajectory(done.path, done.path)

    async def _majority(self, episode: Episode, view: View, name: str) -> Decision:
        return vote(*await sample_actions(episode, view, name, self.samples, self.temperature))

    async def _by_plan(self, episode: Episode) -> Trajectory:
        start = episode.snapshot()
        passes, ends = [], []
        for index in range(self.samples):
            episode.restore(start)
            policy = partial(single_pass, temperature=self.temperature)
            passes.append((await rollout(episode, policy, branch=index)).path)
            ends.append(episode.snapshot())
        votes = Counter(_final_outcome(path) for path in passes)
        winner = max(range(self.samples), key=lambda index: (votes[_final_outcome(passes[index])], -index))
        episode.restore(ends[winner])
        everything = tuple(step for path in passes for step in path)
        return Trajectory(passes[winner], everything, branches=self.samples - 1)


def _final_outcome(path: tuple[Step, ...]) -> str:
    """What the last call of a trajectory returned; the empty string where none was made."""
    return next((step.observation.text() for step in reversed(path) if step.observation), "")

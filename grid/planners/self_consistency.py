"""Self-consistency: for each decision (egb_slate figure 5), or over whole trajectories (appendix B.3)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING
from grid.core.types import RESULT, Trajectory, to_json
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import Acting, Decision, Path, View, begin, rollout, trajectory
from grid.episode.asking import sample_actions, single_pass
from grid.episode.episode import Episode
from grid.planners.side_by_side import every
from grid.planners.votes import vote


@dataclass(frozen=True, config=STRICT)
class SelfConsistency(Acting):
    """Acts by a majority vote over `samples` samples.

    `level: step` executes, at every decision, the first sample with the tool that was sampled most often. With
    `level: plan`, whole ReAct passes are run concurrently from the same start, and the first pass of the largest group
    of passes that agree is kept.

    Appendix B.3 says only 'plan-level majority vote', so `vote` offers two readings. `outcome`: passes agree if their
    last valid results are the same. A pass in which all calls failed has no outcome and no vote, since otherwise all
    failures would count as one outcome. `plan`: passes agree if they made the same calls in the same order, with
    references filled in; a pass without a call has no vote. If finishing answers the question, passes are compared by
    their answers (`outcome`) or by their calls and answers (`plan`), and a pass without an answer has no vote. If no
    pass has a vote, the first pass wins; of equally large groups, the group with the first pass wins.
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    level: Literal["step", "plan"] = "step"
    vote: Literal["outcome", "plan"] = "outcome"
    samples: Annotated[int, Field(ge=1, le=1000)] = 10

    def __post_init__(self) -> None:
        if self.level == "step" and self.vote != "outcome":
            raise ConfigError("planner.vote", self.vote, "outcome, because planner.level is step, which votes on tools")

    @property
    def needs(self) -> frozenset[str]:
        """The abilities that the planner needs from the engine and the dataset."""
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
        ballots = [self._ballot(path, episode.case.answered) for path in paths]
        votes = Counter(ballots)
        votes[None] = 0
        winner = max(range(self.samples), key=lambda index: (votes[ballots[index]], -index))
        everything = tuple(step for path in paths for step in path.steps)
        return trajectory(episode, paths[winner], everything, branches=self.samples - 1)

    def _ballot(self, path: Path, answered: bool) -> Hashable:
        """The vote of a pass; None if it has no vote."""
        if not answered:
            return _outcome(path) if self.vote == "outcome" else _calls(path)
        if path.answer is None or self.vote == "outcome":
            return path.answer
        return path.answer, _calls(path)


def _outcome(path: Path) -> str | None:
    """The result of the last call that did not fail, without the name given by the world; None if no call succeeded."""
    seen = (step.observation for step in reversed(path.steps))
    last = next((observation for observation in seen if observation and not observation.failed), None)
    if last is None:
        return None
    if not prompts.has_handle(last):
        return last.text()
    return to_json({name: value for name, value in last.content.items() if name != RESULT})


def _calls(path: Path) -> tuple[str, ...] | None:
    """The calls as they were run, with arguments sorted by name; None if there is no call."""
    calls = (step.call for step in path.steps if step.call)
    return tuple(json.dumps([call.tool, dict(call.arguments)], sort_keys=True) for call in calls) or None

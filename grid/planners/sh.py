"""Single-step horizon (planning_horizon §2.1, eq. 1): one call at a time, on all observations."""

from __future__ import annotations

from functools import partial

from pydantic.dataclasses import dataclass

from grid.core.errors import ModelError
from grid.core.types import Trajectory
from grid.core.util import STRICT
from grid.episode.acting import Decision, begin, rollout, trajectory
from grid.episode.asking import single_pass
from grid.episode.episode import Episode
from grid.episode.view import View
from grid.planners.horizon import Horizon


@dataclass(frozen=True, config=STRICT)
class SingleStepHorizon(Horizon):
    """a_t from π(q, a_1, o_1, ..., a_t-1, o_t-1), until it finishes or the limits of `Horizon` are reached (B.2).

    Every decision is offered the tools of the whole query, as those of `fh`.
    """

    async def solve(self, episode: Episode) -> Trajectory:
        """Call tools one by one. Raises ModelError where no answer can be read after the retries."""
        over = partial(self.given_up, episode)
        done = await rollout(episode, self._next, self, begin(episode), whole_query=True, over=over)
        return trajectory(episode, done.path)

    async def _next(self, episode: Episode, view: View, name: str) -> Decision:
        decision = await single_pass(episode, view, name, self, several=False, exact=True)
        if decision.action.unreadable:
            raise ModelError(
                f"step {view.substep.id}: {decision.action.unreadable}, after {self.max_retries + 1} tries"
            )
        return decision

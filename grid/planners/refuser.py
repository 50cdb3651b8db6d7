"""The planner that refuses everything: a baseline, which is right where a case cannot be solved and nowhere else."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.core.types import REJECT, Chain, ToolCall, Trajectory, Usage
from grid.core.util import STRICT
from grid.episode.acting import Acting, Action, Decision, View, begin, rollout, trajectory
from grid.episode.episode import Episode

REASON = "Whatever is asked is refused."


@dataclass(frozen=True, config=STRICT)
class Refuser:
    """Rejects every request at once, asks no model and runs nothing but the rejection, where one is on offer.

    So it has no keys. Where a plan that is predicted is what counts, its plan is a refusal.
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    async def solve(self, episode: Episode) -> Trajectory:
        """A refusal, and behind it nothing."""
        done = await rollout(episode, _refuse, Acting(), begin(episode))
        found = trajectory(episode, done.path)
        return Trajectory(found.steps, found.decisions, found.end, chain=Chain((), refusal=REASON))


async def _refuse(episode: Episode, view: View, name: str) -> Decision:
    """To reject at the first point; to call no tool, or to finish, at all others."""
    steps = view.path.steps[len(episode.before.steps) :]
    if not steps and REJECT in view.offer.candidates:
        return Decision(Action(ToolCall(REJECT, {"reason": REASON})), Usage())
    return Decision(Action(None, finished=not view.guided), Usage())

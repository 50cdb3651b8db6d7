"""The planner that refuses everything: a baseline that is right only if a case cannot be solved."""

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
    """Rejects every request at once without asking a model; calls the tool REJECT if that tool is offered.

    The planner has no keys, since it asks no model. If predicted plans are scored, its plan is a refusal.
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    async def solve(self, episode: Episode) -> Trajectory:
        """The trajectory of a refusal; the steps after a call to REJECT call no tool. Its `chain` is a refusal."""
        done = await rollout(episode, _refuse, Acting(), begin(episode))
        found = trajectory(episode, done.path)
        return Trajectory(found.steps, found.decisions, found.end, chain=Chain((), refusal=REASON))


async def _refuse(episode: Episode, view: View, name: str) -> Decision:
    """Reject at the first decision point; at all others, choose no tool (with an outline) or finish (without one)."""
    steps = view.path.steps[len(episode.before.steps) :]
    if not steps and REJECT in view.offer.candidates:
        return Decision(Action(ToolCall(REJECT, {"reason": REASON})), Usage())
    return Decision(Action(None, finished=not view.guided), Usage())

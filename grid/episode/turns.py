"""A case in which the user says several things: the planner solves each turn, behind all that was done before.

A turn ends where the planner's trajectory does, and the user's next message is told only then: whoever searches looks
ahead to the end of a turn, and never beyond it.
"""

from __future__ import annotations

from dataclasses import replace

from grid.core.types import Trajectory
from grid.episode.episode import Episode, Planner


async def all_turns(planner: Planner, episode: Episode) -> Trajectory:
    """The steps of all turns, with the decisions, branches and replans of each."""
    found = await planner.solve(episode)
    for _ in episode.case.messages:
        episode.next_turn(found)
        found = _behind(found, await planner.solve(episode), episode)
    return found


def _behind(before: Trajectory, found: Trajectory, episode: Episode) -> Trajectory:
    known = set(map(id, episode.before.steps))
    fresh = (step for step in found.decisions if id(step) not in known)
    branched = [steps for steps in (before.branched_steps, found.branched_steps) if steps is not None]
    return replace(
        found,
        decisions=(*before.decisions, *fresh),
        branches=before.branches + found.branches,
        branched_steps=sum(branched) if branched else None,
        replans=before.replans + found.replans,
    )

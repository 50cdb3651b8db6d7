"""Two samples at each decision, more only where they differ (adaptive consistency, Aggarwal et al. 2023)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid import (
    SAMPLE,
    STRICT,
    Acting,
    Action,
    Decision,
    Episode,
    Trajectory,
    View,
    begin,
    rollout,
    sample_actions,
    trajectory,
    vote,
)


@dataclass(frozen=True, config=STRICT)
class TwoMinds(Acting):
    """Where the first two calls differ, in tool or arguments, `more` are sampled and all of them vote on the tool."""

    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    more: Annotated[int, Field(ge=1, le=100)] = 3

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass from the beginning to the end."""
        done = await rollout(episode, self._decide, self, begin(episode))
        return trajectory(episode, done.path)

    async def _decide(self, episode: Episode, view: View, name: str) -> Decision:
        actions, usage = await sample_actions(episode, view, name, 2, self)
        if not _agree(*actions):
            further, spent = await sample_actions(episode, view, f"{name}/more", self.more, self)
            actions, usage = actions + further, usage + spent
        return vote(actions, usage)


def _agree(one: Action, other: Action) -> bool:
    return one.unreadable is None and other.unreadable is None and one.call == other.call and one.tool == other.tool

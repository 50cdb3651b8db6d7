"""Where a τ²-bench task stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, NamedTuple

from grid.core.types import ToolCall
from grid.worlds.talking import Said
from grid.worlds.tau2.databases import Version

Ended = Literal["agent_stop", "user_stop", "too_many_errors", "user_error"]
"""Why a run ended; where nobody ended it, but a limit of the planner's or an error, it is `unfinished`."""
PROPERLY: tuple[Ended, ...] = ("agent_stop", "user_stop")


class Databases(NamedTuple):
    """The agent's database, and the user's where they have one."""

    agent: Version
    user: Version | None = None

    def same(self, other: Databases) -> bool:
        """Whether both are equal, as the package's hashes would be."""
        mine, theirs = self.user, other.user
        users = mine is theirs or (mine is not None and theirs is not None and mine.same(theirs))
        return users and self.agent.same(other.agent)


@dataclass(frozen=True)
class Talk:
    """Where a task stands. Two are equal when the same was called and said, in the same order (`past`).

    `errors` counts the calls that failed; `ended` says why the run is over, None where it is not.
    """

    past: str
    databases: Databases = field(compare=False)
    calls: tuple[ToolCall, ...] = field(default=(), compare=False)
    said: tuple[Said, ...] = field(default=(), compare=False)
    errors: int = field(default=0, compare=False)
    ended: Ended | None = field(default=None, compare=False)

    def behind(self, what: str, *said: Said, ended: Ended | None = None) -> Talk:
        """The state behind what was done or said."""
        past = digest(f"{self.past} {what}")
        return replace(self, past=past, said=(*self.said, *said), ended=ended)


def digest(text: str) -> str:
    """What stands for all that led to a state."""
    return sha256(text.encode(errors="replace")).hexdigest()

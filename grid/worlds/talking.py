"""Worlds in which somebody is talked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from grid.core.world import World


class Said(NamedTuple):
    """One message of a conversation, the user's or the agent's."""

    by_user: bool
    text: str


class User(Protocol):
    """Whoever plays the user: the role `user`."""

    async def reply(self, scenario: Sequence[str], said: Sequence[Said]) -> str | None:
        """The user's next message behind what was said; None where no answer can be read, after all retries."""
        ...


class Talking(World, Protocol):
    """The world of a dataset that provides TALKS. The user's first message becomes the case's query."""

    @property
    def scenario(self) -> Sequence[str]:
        """What whoever plays the user is told, in lines: guidelines, persona, instructions."""
        ...

    def opening(self) -> Sequence[Said]:
        """What is said before the user's first message; nothing where the user speaks first."""
        ...

    def talked_to(self, user: User, first: str) -> World:
        """The same world with its user, whose first message is `first`."""
        ...

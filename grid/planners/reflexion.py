"""Reflexion (Shinn et al. 2023, egb_slate §4.2): whole attempts, with a lesson in words after each failure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.strict import STRICT
from grid.episode.episode import Episode
from grid.episode.view import Path
from grid.planners.reflecting import reflect
from grid.planners.retry import Retry


@dataclass(frozen=True, config=STRICT)
class Reflexion(Retry):
    """As `Retry`, but before each further attempt the failed trajectory is reflected on.

    `memory` is how many of the latest lessons a pass sees (Ω of Shinn et al., 1 to 3).
    """

    memory: Annotated[int, Field(ge=1, le=20)] = 3

    async def learn(self, episode: Episode, path: Path, attempt: int, lessons: tuple[str, ...]) -> tuple[str, ...]:
        """The latest lessons, with one from this attempt."""
        return (*lessons, await reflect(episode, path, attempt, self.temperature))[-self.memory :]

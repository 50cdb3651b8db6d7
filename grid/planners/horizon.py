"""What the planners of planning_horizon share: their keys, and when a path ends."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.util import STRICT
from grid.episode.acting import Acting
from grid.episode.episode import Episode
from grid.episode.view import Path


@dataclass(frozen=True, config=STRICT)
class Horizon(Acting):
    """The limits under which horizons are compared (planning_horizon §4.1, B.2), the same for all of them.

    A failed call may be followed by others, `max_failed_calls` times in all: the path ends behind the next failed one.
    A finish that is refused is a failed call. It ends after `max_calls` too, the finish among them.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.0
    max_retries: Annotated[int, Field(ge=0, le=100)] = 8
    max_tokens: Annotated[int, Field(ge=1)] = 2048
    max_failed_calls: Annotated[int, Field(ge=0, le=10_000)] = 8
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    def given_up(self, episode: Episode, path: Path) -> bool:
        """Whether more calls have failed, since the user last spoke, than may fail."""
        steps = path.steps[len(episode.before.steps) :]
        return sum(step.observation is not None and step.observation.failed for step in steps) > self.max_failed_calls


def failed(path: Path) -> bool:
    """Whether the last call returned nothing valid (§4.1)."""
    observation = path.steps[-1].observation if path.steps else None
    return observation is not None and observation.failed

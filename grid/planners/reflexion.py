"""Reflexion (Shinn et al. 2023, egb_slate §4.2): whole attempts, with a lesson in words after each failure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import Section, TextAnswer
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.episode import Episode
from grid.episode.view import Path
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


# The lesson in words that a model draws from an attempt of its own that failed (Shinn et al. 2023).


ASK_REFLECTION = (
    "The attempt above did not resolve the request. In two or three sentences, say which step most likely went "
    "wrong and why, and what to do differently there next time."
)


async def reflect(episode: Episode, path: Path, attempt: int, temperature: float) -> str:
    """One lesson from a failed path, as later prompts show it; `attempt` counts from 0."""
    prompt = prompts.prompt(
        TextAnswer(),
        prompts.ROLE,
        prompts.notes_section(episode),
        prompts.tools_section(episode.options(None, path.steps).tools),
        prompts.task_section(episode),
        prompts.history_section(path.lines),
        Section("instruction", (ASK_REFLECTION,)),
    )
    asked = await episode.sample(prompt, "reflect", attempt, temperature=temperature)
    return f"Attempt {attempt + 1}: {' '.join(asked.texts[0].split())[:1000]}"

"""The lesson in words that a model draws from an attempt of its own that failed (Shinn et al. 2023)."""

from __future__ import annotations

from grid.core.engine import Section, TextAnswer
from grid.episode import prompts
from grid.episode.episode import Episode
from grid.episode.view import Path

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

"""Reflexion (Shinn et al. 2023, egb_slate §4.2): whole attempts, with a lesson in words after each failure."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import OUTLINE
from grid.engines.base import SAMPLE, Prompt, Section, TextAnswer
from grid.planners.base import Episode
from grid.planners.stepwise import ROLE, history_section, rollout, single_pass, task_section
from grid.strict import STRICT
from grid.types import Step, Trajectory

ASK_REFLECTION = (
    "The attempt above did not resolve the request. In two or three sentences, say which substep most likely went "
    "wrong and why, and what to do differently there next time."
)


@dataclass(frozen=True, config=STRICT)
class Reflexion:
    """Up to `attempts` ReAct passes; before each further one the failed trajectory is reflected on.

    `memory` is how many of the latest lessons a pass sees (Ω of Shinn et al., 1 to 3).
    """

    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    memory: Annotated[int, Field(ge=1, le=20)] = 3
    temperature: Annotated[float, Field(ge=0)] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, OUTLINE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Try, ask whether the case is resolved, reflect, try again; the last attempt is returned."""
        start = episode.snapshot()
        policy = partial(single_pass, temperature=self.temperature)
        lessons: tuple[str, ...] = ()
        everything: tuple[Step, ...] = ()
        for attempt in range(self.attempts):
            episode.restore(start)
            path = (await rollout(episode, policy, branch=attempt, lessons=lessons[-self.memory :])).path
            everything += path
            if attempt + 1 == self.attempts or episode.resolved():
                break
            lessons += (await self._reflect(episode, path, attempt),)
        return Trajectory(path, everything, branches=attempt)

    async def _reflect(self, episode: Episode, path: tuple[Step, ...], attempt: int) -> str:
        sections = (
            Section("role", ROLE),
            task_section(episode),
            history_section(path),
            Section("instruction", (ASK_REFLECTION,)),
        )
        texts, _ = await episode.sample(
            Prompt(sections, TextAnswer()), "reflect", attempt, temperature=self.temperature
        )
        return f"Lesson from attempt {attempt + 1}: {' '.join(texts[0].split())[:1000]}"

"""Reflexion (Shinn et al. 2023, egb_slate §4.2): whole attempts, with a lesson in words after each failure."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import BRANCHING
from grid.engines.base import SAMPLE, Section, TextAnswer
from grid.planners import prompts
from grid.planners.acting import Acting, Path, begin, rollout, trajectory
from grid.planners.asking import single_pass
from grid.planners.base import Episode
from grid.strict import STRICT
from grid.types import Step, Trajectory

ASK_REFLECTION = (
    "The attempt above did not resolve the request. In two or three sentences, say which step most likely went "
    "wrong and why, and what to do differently there next time."
)


@dataclass(frozen=True, config=STRICT)
class Reflexion(Acting):
    """Up to `attempts` ReAct passes; before each further one the failed trajectory is reflected on.

    `memory` is how many of the latest lessons a pass sees (Ω of Shinn et al., 1 to 3).
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    memory: Annotated[int, Field(ge=1, le=20)] = 3
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING})

    async def solve(self, episode: Episode) -> Trajectory:
        """Try, ask whether the case is resolved, reflect, try again; the last attempt is returned."""
        policy = partial(single_pass, acting=self)
        lessons: tuple[str, ...] = ()
        everything: tuple[Step, ...] = ()
        for attempt in range(self.attempts):
            seen = lessons[-self.memory :]
            path = (await rollout(episode, policy, self, begin(episode), branch=attempt, lessons=seen)).path
            everything += path.steps
            if attempt + 1 == self.attempts or episode.resolved(path.state):
                break
            lessons += (await self._reflect(episode, path, attempt),)
        return trajectory(episode, path, everything, branches=attempt)

    async def _reflect(self, episode: Episode, path: Path, attempt: int) -> str:
        prompt = prompts.prompt(
            TextAnswer(),
            prompts.ROLE,
            prompts.tools_section(episode.options(None).tools),
            prompts.task_section(episode),
            prompts.history_section(path.lines),
            Section("instruction", (ASK_REFLECTION,)),
        )
        asked = await episode.sample(prompt, "reflect", attempt, temperature=self.temperature)
        return f"Attempt {attempt + 1}: {' '.join(asked.texts[0].split())[:1000]}"

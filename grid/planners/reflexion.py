"""Reflexion (Shinn et al. 2023, egb_slate §4.2): whole attempts with lessons from failures; and its control `Retry`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE, Section, TextAnswer
from grid.core.problem import BRANCHING
from grid.core.types import Step, Trajectory
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import Acting, Path, begin, rollout, trajectory
from grid.episode.asking import single_pass
from grid.episode.episode import Episode

# Repeated ReAct: the control for planners that may ask whether a case is resolved.


@dataclass(frozen=True, config=STRICT)
class Retry(Acting):
    """Up to `attempts` ReAct passes, each from the start and with its own seed, until a pass resolves the case.

    The success rate of `Retry` is ReAct's pass@k (egb_slate §6.1). If another planner has a higher rate with the same
    number of attempts, the gain is due to that planner. Like Reflexion, `Retry` asks before each further attempt
    whether the case is resolved; it does not ask after the last attempt.
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING})

    async def solve(self, episode: Episode) -> Trajectory:
        """Try, ask whether the case is resolved, learn, and try again; returns the last attempt."""
        policy = partial(single_pass, acting=self)
        lessons: tuple[str, ...] = ()
        everything: tuple[Step, ...] = ()
        for attempt in range(self.attempts):
            path = (await rollout(episode, policy, self, begin(episode), branch=attempt, lessons=lessons)).path
            everything += path.steps
            if attempt + 1 == self.attempts or episode.resolved(path.state, path.steps):
                break
            lessons = await self.learn(episode, path, attempt, lessons)
        return trajectory(episode, path, everything, branches=attempt)

    async def learn(self, episode: Episode, path: Path, attempt: int, lessons: tuple[str, ...]) -> tuple[str, ...]:
        """The lessons for the next attempt, given the lessons that the failed attempt saw; `Retry` has no lessons."""
        return ()


# Reflexion (Shinn et al. 2023, egb_slate §4.2): repeated whole attempts, with a verbal lesson after each failure.


@dataclass(frozen=True, config=STRICT)
class Reflexion(Retry):
    """Like `Retry`, but before each further attempt the model reflects on the failed trajectory.

    `memory` is the number of most recent lessons that a pass sees (Ω of Shinn et al., 1 to 3).
    """

    memory: Annotated[int, Field(ge=1, le=20)] = 3

    async def learn(self, episode: Episode, path: Path, attempt: int, lessons: tuple[str, ...]) -> tuple[str, ...]:
        """The latest lessons, including a lesson from this attempt."""
        return (*lessons, await reflect(episode, path, attempt, self.temperature))[-self.memory :]


# The verbal lesson that a model draws from its own failed attempt (Shinn et al. 2023).


ASK_REFLECTION = (
    "The attempt above did not resolve the request. In two or three sentences, say which step most likely went "
    "wrong and why, and what to do differently there next time."
)


async def reflect(episode: Episode, path: Path, attempt: int, temperature: float) -> str:
    """A lesson from a failed path, in the form in which later prompts show it; `attempt` counts from 0."""
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

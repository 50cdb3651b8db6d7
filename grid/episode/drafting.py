"""A plan as an answer: asked for until one can be read, and refined where the setting says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from grid.core.engine import Prompt
from grid.core.errors import ModelError
from grid.core.types import Trajectory, Usage
from grid.episode.acting import Acting
from grid.episode.again import again, rejected
from grid.episode.episode import Episode, Planner
from grid.episode.requests import Answers

T = TypeVar("T")
P = TypeVar("P")
_DIGITS = 12  # of a digest


class Read(NamedTuple, Generic[P]):
    """A plan that was read; None, with the reason, where no answer could be used. What was spent on it."""

    plan: P | None
    usage: Usage
    why: str = ""


@dataclass(frozen=True)
class Asking(Generic[T]):
    """How a plan is asked for and read.

    `key` names the request, `where` the point in an error. `read` makes a plan of an answer, or None with the reason in
    the message; `written` writes a plan as such an answer. `asked` are the lines that say what is to be planned, not in
    what form. `drafted` is told of a plan before it is refined.
    """

    prompt: Prompt
    key: tuple[object, ...]
    where: str
    acting: Acting
    read: Callable[[Answers], T | None]
    written: Callable[[T], str]
    asked: tuple[str, ...] = ()
    drafted: Callable[[T], None] = lambda plan: None

    async def ask(self, episode: Episode, prompt: Prompt, *key: object) -> Read[T]:
        """The plan in an answer to a prompt; asked for again, up to the retries, where none can be read."""
        spent, why, last, tries = Usage(), "", None, self.acting.max_retries + 1
        for tried in range(tries):
            asked = await episode.sample(
                again(prompt, last),
                *(*key, tried),
                temperature=self.acting.temperature,
                max_tokens=self.acting.max_tokens,
            )
            spent += asked.usage
            plan = self.read(asked)
            if plan is not None:
                return Read(plan, spent)
            why, last = asked.message.unreadable[0], rejected(asked, tried + 1, tries)
        return Read(None, spent, why)


class Refine(Protocol):
    """What is made of a draft before it counts."""

    async def __call__(self, episode: Episode, asking: Asking[T], draft: T) -> Read[T]:
        """The plan that takes the draft's place, the draft itself maybe, and what the acting model spent on it."""
        ...


class Drafted(NamedTuple, Generic[P]):
    """The plan that counts, what it cost, and the draft before a critique; None where nothing was refined."""

    plan: P
    usage: Usage
    draft: P | None


class WritesPlans(Planner, Protocol):
    """A planner that writes plans of several calls, or of the next one, before it runs anything."""

    async def write(self, episode: Episode, refine: Refine | None) -> Trajectory:
        """Solve the case with plans that are refined; None: they stay as they are drafted."""
        ...


async def drafted(episode: Episode, asking: Asking[T], refine: Refine | None) -> Drafted[T]:
    """A plan, refined where the setting says so; of an episode's first draft the digest is kept.

    Raises:
        ModelError: no plan after all retries.
    """
    found = await asking.ask(episode, asking.prompt, *asking.key)
    if found.plan is None:
        tries = asking.acting.max_retries + 1
        raise ModelError(f"step {asking.where}: no plan that can be used, after {tries} tries: {found.why}")
    if episode.plans.draft is None:
        text = asking.written(found.plan).encode("utf-8", "replace")
        episode.plans.draft = hashlib.sha256(text).hexdigest()[:_DIGITS]
    if refine is None:
        return Drafted(found.plan, found.usage, None)
    asking.drafted(found.plan)
    better = await refine(episode, asking, found.plan)
    plan = found.plan if better.plan is None else better.plan
    return Drafted(plan, found.usage + better.usage, found.plan)

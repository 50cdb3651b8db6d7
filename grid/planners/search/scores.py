"""The judge's scores of one episode: one answer for one question, however often it is asked."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from grid.core.engine import Prompt, Section
from grid.core.errors import VerdictError
from grid.episode.episode import Episode

T = TypeVar("T")


class Scores:
    """Whatever a search asks its judge."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._known: dict[str, asyncio.Future[Any]] = {}
        self._unscored: VerdictError | None = None

    async def ask(self, prompt: Prompt, kind: str, samples: int = 1, temperature: float = 0.0) -> float:
        """The score in [0, 1], or the mean of several; an answer without a score counts as the lowest."""
        digest = question(prompt)
        work = partial(self._episode.judge, prompt, kind, digest, samples=samples, temperature=temperature)
        try:
            score: float = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return 0.0
        return score

    async def votes(self, prompt: Prompt, candidates: Sequence[str], samples: int, temperature: float) -> list[float]:
        """The share of the votes that each candidate gets; none where no vote can be read."""
        digest = question(prompt, *candidates)
        work = partial(self._episode.vote, prompt, candidates, "vote", digest, samples=samples, temperature=temperature)
        try:
            shares: list[float] = await once(self._known, digest, work)
        except VerdictError as error:
            self._unscored = error
            return [0.0] * len(candidates)
        return shares

    def check(self) -> None:
        """Raise VerdictError where the judge was asked and none of its answers has a score."""
        if self._unscored and all(
            asked.done() and not asked.cancelled() and asked.exception() for asked in self._known.values()
        ):
            raise self._unscored


def question(prompt: Prompt, *candidates: str) -> str:
    """The name of what is asked: equal for equal prompts."""
    text = "".join([*(section.digest for section in prompt.sections), Section("candidates", candidates).digest])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def once(known: dict[Any, asyncio.Future[T]], key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The work's result, also for those who ask for the same while it is being done by who asked first."""
    if (found := known.get(key)) is not None:
        return found.result() if found.done() else await found
    done = known[key] = asyncio.get_running_loop().create_future()
    try:
        result = await work()
    except Exception as error:
        done.set_exception(error)
        done.exception()  # nobody else may ask
        raise
    except BaseException:
        del known[key]
        done.cancel()
        raise
    done.set_result(result)
    return result

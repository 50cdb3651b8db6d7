"""The judge's scores of one episode: one answer for one question, however often it is asked."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, TypeVar

from grid.engines.base import Prompt
from grid.errors import ModelError
from grid.planners.base import Episode

T = TypeVar("T")


class Scores:
    """Whatever a search asks its judge."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._known: dict[str, asyncio.Future[float]] = {}
        self._unscored: ModelError | None = None

    async def ask(self, prompt: Prompt, kind: str, samples: int = 1, temperature: float = 0.0) -> float:
        """The score in [0, 1], or the mean of several; an answer without a score counts as the lowest."""
        text = "".join(section.digest for section in prompt.sections)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        work = partial(self._episode.judge, prompt, kind, digest, samples=samples, temperature=temperature)
        try:
            return await once(self._known, digest, work)
        except ModelError as error:
            self._unscored = error
            return 0.0

    def check(self) -> None:
        """Raise ModelError where the judge was asked and none of its answers has a score."""
        if self._unscored and all(
            asked.done() and not asked.cancelled() and asked.exception() for asked in self._known.values()
        ):
            raise self._unscored


async def once(known: dict[Any, asyncio.Future[T]], key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The work's result, also for those who ask for the same while it is being done."""
    if key not in known:
        known[key] = task = asyncio.ensure_future(work())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever asked may be gone
    return await known[key]

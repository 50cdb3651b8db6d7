"""A thread that answers requests in micro-batches: what waits when a batch is done makes up the next one."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grid.core.errors import EngineDiedError, EngineError, GridError
from grid.engines.hosted import Occupancy
from grid.engines.progress import Progress


class Answered(NamedTuple):
    """A request's answer, and the seconds for which its batch was computed."""

    value: Any
    seconds: float


@dataclass
class _Request:
    kind: str
    item: Any
    size: int
    future: Future[Answered] = field(default_factory=Future)
    abandoned: bool = False  # nobody waits for it any more


class AbandonedError(Exception):
    """Nobody waits for any request of a batch any more."""


class Ongoing:
    """A batch in computation, as those who compute it see it."""

    def __init__(self, requests: Sequence[_Request] = (), progress: Progress | None = None) -> None:
        self._requests, self._progress = requests, progress

    def step(self) -> None:
        """To be called between two steps; raises AbandonedError where a further one would be for nobody."""
        if self._progress:
            self._progress.step()
        if self._requests and all(request.abandoned for request in self._requests):
            raise AbandonedError

    def wanted(self, index: int) -> bool:
        """Whether somebody waits for the answer to the batch's item of this index."""
        return not (self._requests and self._requests[index].abandoned)


Answer = Callable[[str, Sequence[Any], Ongoing], Sequence[Any]]


class Batches:
    """Requests of one kind share a batch of at most `max_batch`, in the order in which they came.

    Args:
        answer: (kind, items, batch) to an answer for each item; a GridError among the answers is that item's failure.
            It calls the batch's `step` between steps, and may leave out items that are not wanted any more.
        max_batch: requests in a batch.
        max_tokens: the largest `size` of a batch's requests times their number; one request alone may exceed it.
        progress: told of requests and steps.
    """

    def __init__(self, answer: Answer, max_batch: int, max_tokens: int, progress: Progress) -> None:
        self._answer, self._max_batch, self._max_tokens = answer, max_batch, max_tokens
        self._progress = progress
        self._arrived: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._waiting: list[_Request] = []
        self._running = 0
        self._died: EngineDiedError | None = None
        threading.Thread(target=self._serve, daemon=True, name="batches").start()

    async def ask(self, kind: str, item: Any, size: int) -> Answered:
        """The item's answer; `size` is the tokens that it may come to hold in memory.

        Cancelled while it is computed, it is left out from the next step on.

        Raises:
            EngineError: what failed with others failed alone too.
            EngineDiedError: `answer` raised it, now or before.
        """
        request = _Request(kind, item, size)
        with self._progress.request():
            self._arrived.put(request)
            try:
                return await asyncio.wrap_future(request.future)
            except asyncio.CancelledError:
                request.abandoned = True
                raise

    def check(self) -> None:
        """Raise EngineDiedError where `answer` has raised it, or makes no step any more."""
        if self._died:
            raise self._died
        self._progress.check()

    def occupancy(self) -> Occupancy:
        """The present batch, and what waits for the next."""
        return Occupancy(self._running, len(self._waiting) + self._arrived.qsize())

    def _serve(self) -> None:
        while True:
            if not self._waiting:
                self._waiting.append(self._arrived.get())
            while not self._arrived.empty():
                self._waiting.append(self._arrived.get())
            batch = [request for request in self._next() if request.future.set_running_or_notify_cancel()]
            self._running = len(batch)
            self._run(batch)
            self._running = 0

    def _next(self) -> list[_Request]:
        """Take a batch from what waits."""
        batch: list[_Request] = []
        size = 0
        for request in self._waiting:
            if request.kind != self._waiting[0].kind:
                continue
            size = max(size, request.size)
            if len(batch) == self._max_batch or (batch and size * (len(batch) + 1) > self._max_tokens):
                break
            batch.append(request)
        taken = set(map(id, batch))
        self._waiting = [request for request in self._waiting if id(request) not in taken]
        return batch

    def _run(self, batch: list[_Request]) -> None:
        """Answer a batch, or its requests one by one where they fail together."""
        if not batch:
            return
        failure = self._try(batch)
        if failure is not None and len(batch) > 1 and self._died is None:
            for request in batch:
                self._run([request])
        elif failure is not None:
            for request in batch:
                request.future.set_exception(failure)

    def _try(self, batch: list[_Request]) -> GridError | None:
        """Answer a batch, or say why it failed; its memory is free again on return."""
        if self._died:
            return self._died
        began = time.monotonic()
        try:
            answers = self._answer(batch[0].kind, [request.item for request in batch], Ongoing(batch, self._progress))
        except AbandonedError:
            return None
        except EngineDiedError as error:
            self._died = EngineDiedError(str(error))
            return self._died
        except Exception as error:  # noqa: BLE001 - out of memory, or whatever a model's code may raise
            return EngineError(f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - began
        for request, answer in zip(batch, answers, strict=True):
            if isinstance(answer, GridError):
                request.future.set_exception(answer)
            else:
                request.future.set_result(Answered(answer, seconds))
        return None

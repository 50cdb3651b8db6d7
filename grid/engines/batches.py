"""A thread that answers requests in micro-batches: what waits when a batch is done makes up the next one."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from grid.engines.base import Occupancy
from grid.errors import EngineDiedError, EngineError, GridError

Answer = Callable[[str, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class _Request:
    kind: str
    item: Any
    size: int
    future: Future[Any]


class Batches:
    """Requests of one kind share a batch of at most `max_batch`, in the order in which they came.

    Args:
        answer: (kind, items) to an answer for each item; a GridError among the answers is that item's failure.
        max_batch: requests in a batch.
        max_tokens: the largest `size` of a batch's requests times their number; one request alone may exceed it.
    """

    def __init__(self, answer: Answer, max_batch: int, max_tokens: int) -> None:
        self._answer, self._max_batch, self._max_tokens = answer, max_batch, max_tokens
        self._arrived: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._waiting: list[_Request] = []
        self._running = 0
        self._died: EngineDiedError | None = None
        threading.Thread(target=self._serve, daemon=True, name="batches").start()

    async def ask(self, kind: str, item: Any, size: int) -> Any:
        """The item's answer; `size` is the tokens that it may come to hold in memory.

        Raises:
            EngineError: what failed with others failed alone too.
            EngineDiedError: `answer` raised it, now or before.
        """
        request = _Request(kind, item, size, Future())
        self._arrived.put(request)
        return await asyncio.wrap_future(request.future)

    def check(self) -> None:
        """Raise EngineDiedError where `answer` has raised it."""
        if self._died:
            raise self._died

    def occupancy(self) -> Occupancy:
        """The present batch, and what waits for the next."""
        return Occupancy(self._running, len(self._waiting) + self._arrived.qsize())

    def _serve(self) -> None:
        while True:
            if not self._waiting:
                self._waiting.append(self._arrived.get())
            while not self._arrived.empty():
                self._waiting.append(self._arrived.get())
            # A cancelled request is dropped; one that runs can't be cancelled any more.
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
        try:
            answers = self._answer(batch[0].kind, [request.item for request in batch])
        except EngineDiedError as error:
            self._died = EngineDiedError(str(error))
            return self._died
        except Exception as error:  # noqa: BLE001 - out of memory, or whatever a model's code may raise
            return EngineError(f"{type(error).__name__}: {error}")
        for request, answer in zip(batch, answers, strict=True):
            if isinstance(answer, GridError):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)
        return None

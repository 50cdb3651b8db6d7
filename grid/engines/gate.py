"""A gate for work that must not be mixed: one kind inside at a time, in fair turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KindGate:
    """Holders of equal kinds are inside together; other kinds wait for their turn.

    A turn begins with everybody who waits for the kind at the head of the queue, so that batches stay large. Others
    of the kind join it until somebody of another kind waits; from then on they queue, so that every turn ends: nobody
    waits longer than for the turn that he found and one of each kind ahead of him in the queue.
    """

    def __init__(self) -> None:
        self._kind: Hashable = None
        self._inside = 0
        self._queue: deque[tuple[Hashable, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    @asynccontextmanager
    async def hold(self, kind: Hashable) -> AsyncIterator[None]:
        """Be inside as one of `kind`; what ends the block, an error or a cancellation too, lets the next ones in."""
        await self._enter(kind)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, kind: Hashable) -> None:
        if not self._queue and (not self._inside or kind == self._kind):
            self._kind, self._inside = kind, self._inside + 1
            return
        place = (kind, asyncio.get_running_loop().create_future())
        self._queue.append(place)
        try:
            await place[1]
        except asyncio.CancelledError:
            if place in self._queue:
                self._queue.remove(place)
                self._admit()  # those behind may be of the kind that is inside
            else:
                self._leave()  # cancelled in the moment of its turn
            raise

    def _leave(self) -> None:
        self._inside -= 1
        self._admit()

    def _admit(self) -> None:
        """Let in everybody of the kind at the head of the queue, if nobody else is inside."""
        if not self._queue or (self._inside and self._queue[0][0] != self._kind):
            return
        self._kind = self._queue[0][0]
        admitted = [place for place in self._queue if place[0] == self._kind]
        self._queue = deque(place for place in self._queue if place[0] != self._kind)
        for _, turn in admitted:
            self._inside += 1
            if not turn.done():  # else its waiter was cancelled and leaves by itself
                turn.set_result(None)

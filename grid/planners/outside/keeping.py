"""Agent processes that outlive an episode: each works on one episode at a time, then waits for the next.

This module stands apart from `agent`, because the event loop in which planners run ends with a chunk of cells. The kept
processes have their own event loop, in a thread that lasts as long as this process, because the kernel ends a process
together with the thread that started it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import secrets
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from grid.planners.outside.process import Process

MARK = "AGENT_GRID_PROCESS"
"""The environment variable that marks all processes started by a kept process; its value gives access to nothing."""
IDLE_SECONDS = 60.0
"""Number of seconds after which a process is ended if it gets no episode."""
_CLOSING_SECONDS = 10.0


class Program(NamedTuple):
    """The program that a process runs; processes with equal programs can replace each other."""

    command: str
    environment: tuple[str, ...]
    version: str | None


class Turn:
    """One turn of an episode in a kept process, with the same methods as a `Process` that runs a single turn.

    Args:
        program: the program to run; a process is started unless a process with this program is already waiting.
        told: the episode's variables, which the process receives as a line of JSON on its standard input.
        token: the episode's token; the process prints it as a line when its work is done.
        reached: whether the agent has sent a request. If a waiting process ends before the agent has sent a request,
            the process died after its last episode, and another process replaces it.
    """

    def __init__(self, program: Program, told: Mapping[str, str], token: str, reached: Callable[[], bool]) -> None:
        self._program, self._line, self._token, self._reached = program, json.dumps(told), token, reached
        self._keeper, self._stop, self._printed = _keeper(), asyncio.Event(), ""
        self._ended: Future[int] = self._keeper.begin(self._work())

    async def ended(self) -> int:
        """Wait for the turn's end; returns 0 if the process has done its work and is waiting, else its exit status.

        Raises EngineError or ConfigError if no process can be started.
        """
        return await asyncio.shield(asyncio.wrap_future(self._ended))

    def kill(self) -> None:
        """End the process, unless it has done its work."""
        self._keeper.call(self._stop.set)

    async def gone(self) -> None:
        """Return once the process waits for another episode, or has ended with all its children."""
        with suppress(Exception):
            await self.ended()

    def printed(self) -> str:
        """The output of the process in this turn."""
        return self._printed

    async def _work(self) -> int:
        while True:
            process, anew = await self._keeper.taken(self._program)
            turn = asyncio.create_task(process.turn(self._line, self._token))
            stop = asyncio.create_task(self._stop.wait())
            await asyncio.wait({turn, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if turn.done() and turn.result() is None:
                self._printed = process.printed()
                self._keeper.keep(self._program, process)
                return 0
            turn.cancel()
            code = await self._keeper.ended(process)
            self._printed = process.printed()
            if anew or self._stop.is_set() or self._reached():
                return code


class _Keeper:
    """The event loop of all kept processes, and the waiting processes.

    `_all` contains the processes that are not gone yet, each with the task that ends it, if it is being ended.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._all = dict[Process, asyncio.Task[None] | None]()
        self._waiting = dict[Program, list[tuple[Process, asyncio.TimerHandle]]]()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="agents").start()
        atexit.register(self.close)

    def begin(self, work: Coroutine[Any, Any, int]) -> Future[int]:
        """Start a coroutine in the keeper's event loop; nothing cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, what: Callable[[], object]) -> None:
        """Call a function in the keeper's event loop."""
        self._loop.call_soon_threadsafe(what)

    async def taken(self, program: Program) -> tuple[Process, bool]:
        """A process that runs the program for one episode, and whether this process was newly started.

        Raises EngineError or ConfigError if no process can be started.
        """
        while waiting := self._waiting.get(program):
            process, expiring = waiting.pop()
            expiring.cancel()
            if process.status is None:
                return process, False
            await self.ended(process)
        mark = secrets.token_urlsafe(32)
        process = await Process.start(program.command, program.environment, {MARK: mark}, mark, asked=True)
        self._all[process] = None
        return process, True

    def keep(self, program: Program, process: Process) -> None:
        """Let a process wait for the next episode, for at most IDLE_SECONDS."""
        waiting = self._waiting.setdefault(program, [])

        def expire() -> None:
            waiting[:] = [one for one in waiting if one[0] is not process]
            self.begin(self.ended(process))

        waiting.append((process, self._loop.call_later(IDLE_SECONDS, expire)))

    async def ended(self, process: Process) -> int:
        """End a process, which is done only once; returns its exit status."""
        if process in self._all:
            ending = self._all[process] = self._all[process] or asyncio.create_task(process.gone())
            await ending
            self._all.pop(process, None)
        return -signal.SIGKILL if process.status is None else process.status

    async def _end_all(self) -> None:
        for waiting in self._waiting.values():
            for _, expiring in waiting:
                expiring.cancel()
        self._waiting.clear()
        await asyncio.gather(*map(self.ended, self._all))

    def close(self) -> None:
        """End all kept processes, whether they are waiting or working."""
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(_CLOSING_SECONDS)


_ONE = threading.Lock()


def _keeper() -> _Keeper:
    """The one keeper of this process."""
    with _ONE:
        return _made()


_made = cache(_Keeper)


def end_waiting() -> None:
    """End all processes that are kept, whether they are waiting or working."""
    _keeper().close()

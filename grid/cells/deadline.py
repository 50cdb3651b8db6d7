"""Measures the time that counts as a case's own, and applies a case's deadline to this time.

A case's own time is the time of its computations, of computations done for it (for example at replicas), and of its own
waiting. Time does not count while other cases use the event loop, while a request waits at a replica, or while the
machine gives the thread no CPU. So deadlines do not depend on how busy a machine is, or on how many cases share it.
"""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_LEAST_SECONDS = 0.05  # between two checks of a case's time
_READINGS = 5
_LATE_SECONDS = 2.0  # between two pulses; during any longer time, the process was stopped


class LoopClock:
    """A clock for an event loop's thread; it stops while the thread waits for a CPU and while the process is stopped.

    Any thread may read the clock. `idle` is the number of seconds in which the loop had nothing to do. `running` holds
    the case whose step is running, and the time when the step began.
    """

    def __init__(self) -> None:
        self.idle = 0.0
        self.running: tuple[CaseTime, float] | None = None
        self._lost, self._last, self._delayed = 0.0, -math.inf, -math.inf
        self._pulse: tuple[float, float] | None = None
        try:  # Linux reports how long a thread has waited for a CPU
            self._delays: int | None = os.open(
                f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC
            )
        except OSError:
            self._delays = None

    def now(self) -> float:
        """The clock's time, from an arbitrary zero; it never goes back.

        The delay (the time spent waiting for a CPU) is subtracted from the time. If the thread waited between reading
        the time and reading the delay, the delay would include a wait that the time does not. So both are read again
        until the delay stays the same. One reading is enough if the thread has not waited since the last call.
        """
        delay = self._delayed
        for _ in range(_READINGS):
            before, now, delay = delay, time.monotonic(), self._delay()
            if delay == before:
                break
        self._delayed = delay
        self._last = max(self._last, now - delay - self._lost - self._late())
        return self._last

    def pulse(self) -> None:
        """Report that the process is running; another thread calls this about every second."""
        self._lost += self._late()
        self._pulse = time.monotonic(), time.process_time()

    def close(self) -> None:
        """Close the file with the thread's delays."""
        if self._delays is not None:
            os.close(self._delays)
            self._delays = None

    def _delay(self) -> float:
        return int(os.pread(self._delays, 64, 0).split()[1]) / 1e9 if self._delays is not None else 0.0

    def _late(self) -> float:
        """The seconds since the last pulse, beyond `_LATE_SECONDS`, in which the process used no CPU.

        The result is 0 before the first pulse, and if the next pulse is not late.
        """
        if self._pulse is None:
            return 0.0
        when, computed = self._pulse
        late = time.monotonic() - when - _LATE_SECONDS
        return max(late - (time.process_time() - computed), 0.0) if late > 0 else 0.0


class CaseLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock. If a case starts tasks, their time counts as the case's time."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        super().__init__(_Selector(self.clock))
        self.set_task_factory(_task)

    async def subprocess_exec(self, *arguments: Any, **options: Any) -> Any:
        """Start a process as Python's own event loops do, even if a library has set a different policy."""
        with _own_policy():
            return await super().subprocess_exec(*arguments, **options)

    async def subprocess_shell(self, *arguments: Any, **options: Any) -> Any:
        """Like `subprocess_exec`."""
        with _own_policy():
            return await super().subprocess_shell(*arguments, **options)

    def close(self) -> None:
        """Close the loop and its clock."""
        super().close()
        self.clock.close()


@contextmanager
def _own_policy() -> Iterator[None]:
    """Use Python's own policy, because uvloop's policy watches only processes that uvloop started.

    Ray sets uvloop's policy if vLLM is installed.
    """
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(None)
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(before)


class CaseTime:
    """The time that one case has used in a CaseLoop.

    Args:
        cell_id: the case's cell.
        seconds: the case's own time, in seconds, after which `limited` ends the work.

    Raises:
        TypeError: the running event loop is not a CaseLoop.
    """

    def __init__(self, cell_id: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, CaseLoop):
            raise TypeError("the time of a case can only be measured in a CaseLoop")
        self.cell_id, self.seconds, self.used = cell_id, seconds, 0.0
        self._loop, self._clock = loop, loop.clock
        self._now, self._idle = 0.0, self._clock.idle  # time counts from the first step on
        self._running, self._asking, self._asked, self._limiting = False, 0, 0.0, False
        self._scope: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def expired(self) -> bool:
        """Whether the case was ended because it used up its time."""
        return self._scope is not None and self._scope.expired()

    def now(self) -> float:
        """The seconds that the case has used so far, including the running step."""
        return self.used + (self._clock.now() - self._now if self._running else 0.0)

    async def counted(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; its steps count as the case's time, and tasks that it leaves running are cancelled."""
        token = _CASE.set(self)
        try:
            return await _steps(self, work)
        finally:
            for task in self.tasks:
                task.cancel()
            _CASE.reset(token)

    async def limited(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises TimeoutError when the case has used up its seconds; the case is then `expired`.

        The time is first checked when `work` waits for the first time; before that, nothing can end the work.
        """
        async with asyncio.timeout(None) as self._scope:
            self._limiting = True
            try:
                return await work
            finally:
                self._limiting = False
                self._rest()

    @contextmanager
    def asking(self) -> Iterator[Callable[[float], None]]:
        """A context in which the case waits for work that is done elsewhere.

        Pass the seconds of computing for this case to the yielded function.
        """
        self._advance()
        self._asking += 1
        try:
            yield self._computed
        finally:
            self._advance()
            self._asking -= 1
            if not self._asking:
                self._asked = 0.0
            if self._timer:
                self._look()

    def enter(self) -> None:
        """Begin a step of the case."""
        self._advance()
        self._running, self._clock.running = True, (self, self._now)

    def leave(self) -> None:
        """End a step of the case."""
        self._advance()
        self._running, self._clock.running = False, None
        if self._limiting and self._timer is None:
            self._look()

    def _computed(self, seconds: float) -> None:
        """Count a request's seconds, but at most the time since the last answer; so parallel requests count once."""
        self._advance()
        counted = min(seconds, self._asked)
        self.used += counted
        self._asked -= counted

    def _advance(self) -> None:
        now, idle = self._clock.now(), self._clock.idle
        if self._running:
            self.used += now - self._now
        elif self._asking:
            self._asked += now - self._now
        else:
            self.used += idle - self._idle
        self._now, self._idle = now, idle

    def _look(self) -> None:
        """End the work if the case's time is used up; otherwise check again as soon as it could be used up."""
        self._advance()
        self._rest()
        left = self.seconds - self.used
        if left > 0:
            self._timer = self._loop.call_later(max(left, _LEAST_SECONDS), self._look)
        elif self._scope is not None:
            self._limiting = False
            self._scope.reschedule(self._loop.time())

    def _rest(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


_CASE: ContextVar[CaseTime | None] = ContextVar("case", default=None)


@contextmanager
def asking() -> Iterator[Callable[[float], None]]:
    """`CaseTime.asking` for the current case, if the case's time is counted."""
    case = _CASE.get()
    if case is None:
        yield lambda seconds: None
    else:
        with case.asking() as computed:
            yield computed


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, but in a CaseLoop."""
    found: list[T] = []

    async def kept() -> None:
        # At the end, asyncio formats the task with its result twice, which for a chunk takes a millisecond per cell.
        found.append(await work)

    with asyncio.Runner(loop_factory=CaseLoop) as runner:
        runner.run(kept())
    return found[0]


class _Selector(selectors.DefaultSelector):
    """Tells the clock for how long the loop had nothing to do."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:  # there is something to do
            return super().select(0)
        began = self._clock.now()
        try:
            return super().select(timeout)
        finally:
            self._clock.idle += self._clock.now() - began


@types.coroutine
def _steps(case: CaseTime, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Like `await work`, but calls `enter` before and `leave` after each step of the work."""
    go_on: Callable[[], Any] = partial(work.send, None)
    while True:
        case.enter()
        try:
            awaited = go_on()
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            case.leave()
        try:
            go_on = partial(work.send, (yield awaited))
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it is the work's
            go_on = partial(work.throw, error)


def _task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Create a task; if a case creates it, the task's time counts as the case's time."""
    case = _CASE.get()
    if case is None:
        return asyncio.Task(work, loop=loop, **options)
    task: asyncio.Task[Any] = asyncio.Task(_counted(case, work), loop=loop, **options)
    case.tasks.append(task)
    return task


async def _counted(case: CaseTime, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await _steps(case, work)
    except (KeyboardInterrupt, SystemExit) as error:  # other people's code may raise these, which would end the loop
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


# The limits of a worker: seconds for a case, memory for its process.


_LOOK_SECONDS = 0.5
_TOO_LARGE = 71  # the process's exit status
_watching = threading.Lock()


@dataclass(frozen=True)
class Limits:
    """The seconds of its own time after which a case times out, and the memory, in GiB, at which a worker is ended.

    The process also ends if a case blocks the event loop for `grace_seconds` beyond its time.
    """

    case_seconds: float
    memory_gib: float
    grace_seconds: float = 10.0


def end_when_too_large(gib: float) -> None:
    """End this process as soon as it uses more than `gib` gibibytes of memory; a second call has no effect."""
    if _watching.acquire(blocking=False):
        threading.Thread(target=_watch, args=(gib,), daemon=True, name="memory").start()


def _watch(gib: float) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
        if resident > gib * 2**30:
            print(
                f"this worker ends: it uses {resident / 2**30:.1f} GiB, but cluster.worker_memory_gib is {gib:g}",
                file=sys.stderr,
                flush=True,
            )
            os._exit(_TOO_LARGE)
        time.sleep(_LOOK_SECONDS)

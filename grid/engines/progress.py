"""Whether an engine that has work gets on with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grid.core.errors import EngineDiedError

STALLED_SECONDS = 120.0
_A_STEP = 5.0  # seconds of processor time: on a CPU one step may take minutes


class Progress:
    """When an engine last made a step; one without a step for `stalled_seconds` while it has requests hangs.

    Read and written by several threads: every value is replaced whole. `requests` are those in hand now.

    Args:
        processor: the seconds of processor time that the engine's process has used, which count as steps; None where
            it computes elsewhere, on a GPU.
        now: a clock in seconds.
    """

    def __init__(self, processor: Callable[[], float] | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.stalled_seconds = STALLED_SECONDS
        self.processor, self._now = processor, now
        self.requests = 0
        self._last, self._used = now(), 0.0

    @contextmanager
    def request(self) -> Iterator[None]:
        """The engine has a request for as long as the block lasts."""
        if not self.requests:
            self.step()  # the time without work does not count
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def step(self) -> None:
        """A step was made."""
        self._last = self._now()

    def check(self) -> None:
        """Raise EngineDiedError where there is work and no step was made for too long."""
        if self.processor and (used := self.processor()) >= self._used + _A_STEP:
            self._used = used
            self.step()
        still = self._now() - self._last
        if self.requests and still > self.stalled_seconds:
            raise EngineDiedError(f"the engine has made no step for {still:.0f} s while it had requests")

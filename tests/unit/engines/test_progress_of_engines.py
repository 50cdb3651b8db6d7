"""When an engine counts as hung, and how long its requests were computed."""

from __future__ import annotations

import pytest

from grid.core.errors import EngineDiedError
from grid.engines.hosted import STALLED_SECONDS, Progress, covered


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def progress(self) -> Progress:
        return Progress(lambda: self.used, lambda: self.now)


def test_an_engine_hangs_that_makes_no_step_while_it_has_requests() -> None:
    clock = Clock()
    progress = clock.progress()
    with progress.request():
        clock.now += STALLED_SECONDS
        progress.check()
        clock.now += 1
        with pytest.raises(EngineDiedError, match="no step for 121 s"):
            progress.check()
        progress.step()
        progress.check()


def test_an_engine_without_requests_does_not_hang() -> None:
    clock = Clock()
    progress = clock.progress()
    clock.now += 10 * STALLED_SECONDS
    progress.check()
    with progress.request():
        progress.check()
        clock.now += STALLED_SECONDS / 2
        with progress.request():
            clock.now += STALLED_SECONDS / 2
            progress.check()
            clock.now += 1
            with pytest.raises(EngineDiedError):
                progress.check()
    progress.check()


def test_one_long_step_that_computes_is_no_hang() -> None:
    clock = Clock()
    progress = clock.progress()
    with progress.request():
        for _ in range(100):
            clock.now, clock.used = clock.now + STALLED_SECONDS / 10, clock.used + 6.0
            progress.check()
        clock.now, clock.used = clock.now + STALLED_SECONDS + 1, clock.used + 1.0  # its other threads do a little
        with pytest.raises(EngineDiedError):
            progress.check()


def test_time_that_two_requests_share_counts_once() -> None:
    assert covered([]) == 0
    assert covered([(5, 7), (1, 3), (2, 4), (2, 2.5), (6, 6.5)]) == 5

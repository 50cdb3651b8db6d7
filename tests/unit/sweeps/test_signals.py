"""Signals while cells run: what has begun is finished, also where the terminal is gone."""

from __future__ import annotations

import os
import pty
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from grid.sweeps import session
from grid.sweeps.session import leave_terminal, stopped_by_interrupt

INTERRUPTED = "interrupted: no further cells are started, and running cells finish; interrupt again to stop at once"


class Run:
    """What hears of the signals: a run, and its progress."""

    def __init__(self) -> None:
        self.stopping, self.state, self.said = False, "", list[str]()
        self.say = self.said.append

    def stop(self) -> None:
        assert not self.stopping
        self.stopping = True


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Whoever starts the tests with nohup has them ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def run() -> Any:
    return Run()


def test_a_terminal_that_closes_ends_the_run_when_what_is_in_flight_has_ended(run: Any) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with stopped_by_interrupt(run, run):
        for _ in range(3):  # one from the system, one from the shell
            os.kill(os.getpid(), signal.SIGHUP)
    assert (run.stopping, run.said) == (True, [INTERRUPTED])
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_once_more_stops_at_once(first: signal.Signals, second: signal.Signals, run: Any) -> None:
    with stopped_by_interrupt(run, run):
        os.kill(os.getpid(), first)
        assert run.stopping
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), second)


def test_nohup_has_the_terminal_close_unheard(run: Any) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_interrupt(run, run):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not run.stopping
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def outputs(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Lets a test put others in the place of this process's outputs."""
    with capfd.disabled():
        kept = [os.dup(1), os.dup(2)]
        try:
            yield
        finally:
            for number, one in enumerate(kept, 1):
                os.dup2(one, number)
                os.close(one)


def test_what_is_printed_goes_nowhere_where_the_terminal_is_gone(outputs: None) -> None:
    ours, its = pty.openpty()
    os.dup2(its, 1)
    os.close(its)
    os.close(ours)
    with pytest.raises(OSError, match="Input/output error"):
        os.write(1, b"lost")
    leave_terminal()
    assert os.write(1, b"lost") == 4


def test_an_output_that_is_there_is_kept(outputs: None) -> None:
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)
    leave_terminal()
    os.write(1, b"kept")
    assert os.read(reading, 10) == b"kept"
    os.close(reading)


def test_the_terminal_is_left_before_anything_is_said(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(session, "leave_terminal", lambda: said.append("left"))
    progress: Any = SimpleNamespace(say=said.append)
    with stopped_by_interrupt(run, progress):
        os.kill(os.getpid(), signal.SIGHUP)
    assert said == ["left", INTERRUPTED]

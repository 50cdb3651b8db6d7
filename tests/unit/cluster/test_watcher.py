"""What a driver that was killed leaves is ended, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grid.cluster.watcher import watched, writers

ROOT = Path(__file__).parents[3]
DRIVER = """
import signal, sys
from pathlib import Path
from grid.cluster.watcher import watched

with watched(Path(sys.argv[1])):
    print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session" / "logs").mkdir(parents=True)
    return tmp_path / "session"


@contextmanager
def holding(file: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a file open until it is killed, after which this one knows."""
    with file.open(mode) as opened:
        process = subprocess.Popen(["sleep", "1000"], stdout=opened)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def driver(session: Path) -> subprocess.Popen[bytes]:
    """A process that is watched, begun."""
    command = [sys.executable, "-c", DRIVER, str(session)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert found.stdout
    assert found.stdout.readline() == b"begun\n"
    return found


def test_writers_are_those_that_write_into_this_session(session: Path, tmp_path: Path) -> None:
    (session / "logs" / "read").touch()
    (tmp_path / "session_2").mkdir()
    with (
        holding(session / "logs" / "raylet.out", "a") as raylet,
        holding(session / "logs" / "read", "r"),  # as `tail -f` does
        holding(tmp_path / "session_2" / "raylet.out", "a"),
    ):
        assert writers(session) == [raylet.pid]


def test_what_a_killed_driver_leaves_is_ended(session: Path) -> None:
    with holding(session / "logs" / "agent.log", "a") as agent:
        killed = driver(session)
        killed.kill()
        killed.wait()
        assert agent.wait(timeout=600) == -signal.SIGKILL


def test_nothing_is_ended_where_the_driver_has_ended_ray_itself(session: Path) -> None:
    with holding(session / "logs" / "driver.log", "a") as other:
        with watched(session):
            pass  # which returns when the watcher has ended
        assert other.poll() is None

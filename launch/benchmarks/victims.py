"""What can be killed: processes, found by the session that they belong to, and what each of them is."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType

DRIVER, WORKER, REPLICA, RAYLET, NODE = "driver", "worker", "replica", "raylet", "node"
KINDS = (DRIVER, RAYLET, *[NODE] * 2, *[REPLICA] * 4, *[WORKER] * 6)  # fewer of those whose death costs a start
_NAMES = {WORKER: r"^ray::.* · \d+-\d+", REPLICA: "^ray::Replica", RAYLET: "/raylet/raylet"}
"""How the processes of a kind are called; a worker's is its chunk's name."""
_SESSION = 3  # place in /proc/PID/stat, counted behind the name in brackets


class Session:
    """A command in a session of its own, all of whose processes are gone afterwards. A context manager.

    Args:
        command: and its arguments.
        environment: its variables.
        log: what it prints is put there, behind what the file holds.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("a") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=dict(environment), start_new_session=True
            )
        self.id = self.process.pid

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while found := members(self.id):  # those who die may have just started others
            for pid in found:
                kill(pid)
            self.process.poll()
        self.process.wait()


class Deck:
    """Kinds of victims in a random order in which each comes up as often as it is among `kinds`."""

    def __init__(self, kinds: Sequence[str], rng: random.Random) -> None:
        self._all, self._rng, self._kinds = kinds, rng, list[str]()

    def draw(self, there: Collection[str]) -> str | None:
        """The next kind of those that are there, None where none is."""
        if any(kind in there for kind in self._all) and not any(kind in there for kind in self._kinds):
            self._kinds += self._rng.sample(self._all, len(self._all))  # those that were not there stay due
        kind = next((kind for kind in self._kinds if kind in there), None)
        if kind:
            self._kinds.remove(kind)
        return kind


def victims_of(session: int, kind: str) -> list[int]:
    """The processes of a kind in a session; the driver is whoever began it."""
    if kind == DRIVER:
        return [session]
    return [pid for pid in members(session) if re.search(_NAMES[kind], _command(pid))]


def members(session: int) -> list[int]:
    """The living processes of a session."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _lives_in(path, session)]


def kill(pid: int) -> bool:
    """SIGKILL; False where the process had ended by itself."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _lives_in(process: Path, session: int) -> bool:
    try:
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[_SESSION]) == session


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""

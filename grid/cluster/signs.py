"""Files in the results folder by which a driver and its workers, on whatever machines, hear of each other.

Each file has one writer, is written in place, and is opened anew to be read: so network file systems show what is new.
In an object store they are objects, and each request costs something: workers say less there, and ask less.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from grid.core.errors import StoreError
from grid.core.places import Address

FOLDER = ".run"
_GO, _STOP = "go", "stop"
_OBJECT_SECONDS = 4.0  # between two times that an object is written or asked for: a driver listens every five


@dataclass(frozen=True)
class Sign:
    """What a worker says of itself every second.

    `pid`, `started` (of the process, in the kernel's ticks) and `node` name the process; `beats` grows; `ended` are the
    cells of its chunk that have, `ok` those of them that ended well, `unknown` those of which nobody can tell whether
    they succeeded, `tokens` (of prompts and answers) and `money` (US dollars; under budget.money also those of cells
    that have not ended) what these took; `blocked` is the cell whose step holds the event loop beyond its time, if one
    does.
    """

    pid: int
    started: int
    node: str
    beats: int = 0
    ended: int = 0
    ok: int = 0
    unknown: int = 0
    tokens: int = 0
    money: float = 0.0
    blocked: str | None = None


class Signs:
    """The driver's side, for one run. A context manager: what other runs left is removed, and in the end its own."""

    def __init__(self, root: Path) -> None:
        self.run_id = uuid.uuid4().hex
        self._folder = root / FOLDER
        self._order = self._folder / self.run_id

    def __enter__(self) -> Signs:
        self._clear()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._order.write_text(_GO)
        except OSError as error:
            raise StoreError(f"{self._folder}: cannot be written to ({error}); choose another store.root=") from None
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def stop(self) -> None:
        """Have the workers begin no further cell."""
        with suppress(OSError):
            self._order.write_text(_STOP)

    def read(self, attempt_id: str) -> Sign | None:
        """What the worker of a try said last; None where it cannot be read now."""
        try:
            return Sign(**json.loads((self._folder / f"{self.run_id}-{attempt_id}").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def forget(self, attempt_id: str) -> None:
        """The try has ended."""
        with suppress(OSError):
            (self._folder / f"{self.run_id}-{attempt_id}").unlink()

    def _clear(self) -> None:
        with suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)
            self._folder.rmdir()


class Speaker:
    """The worker's side, for one try of a chunk."""

    def __init__(self, root: Path, run_id: str, attempt_id: str) -> None:
        self._order = root / FOLDER / run_id
        self._file = root / FOLDER / f"{run_id}-{attempt_id}"
        self._every = _OBJECT_SECONDS if isinstance(root, Address) else 0.0
        self._said = self._asked = -math.inf

    def say(self, sign: Sign) -> None:
        """Replace what was said."""
        if not sign.blocked and time.monotonic() - self._said < self._every:
            return
        self._said = time.monotonic()
        with suppress(OSError):  # a driver that has gone, or a disk that takes no more: its rows will say so
            self._file.write_text(json.dumps(asdict(sign)))

    def told_to_stop(self) -> bool:
        """Whether the driver said so, or has ended."""
        if time.monotonic() - self._asked < self._every:
            return False
        self._asked = time.monotonic()
        try:
            return self._order.read_text() == _STOP
        except FileNotFoundError:
            return True
        except OSError:
            return False


def started_at(pid: int) -> int | None:
    """When a process of this machine started, in the kernel's ticks; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def end_process(pid: int, started: int) -> None:
    """SIGKILL to the process of this machine, unless another has its number now."""
    if started_at(pid) == started:
        with suppress(OSError):
            os.kill(pid, 9)

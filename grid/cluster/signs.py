"""Files in the results folder through which a driver and its workers, on any machines, exchange messages.

Each file has one writer, which overwrites it in place; readers open it anew each time, so that network file systems
show the new content. In an object store the files are objects, and each request costs money, so workers write and read
these files less often.
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
_OBJECT_SECONDS = 4.0  # between two writes or reads of an object; a driver reads every five seconds


@dataclass(frozen=True)
class Sign:
    """The message that a worker writes about itself every second (less often in an object store).

    `pid`, `started` (the start of the process, in kernel clock ticks) and `node` identify the process; `beats`
    increases with each message. `ended` is the number of the chunk's cells that have ended; `ok` counts the cells that
    ended well, `unknown` the cells whose success cannot be determined. `tokens` (of prompts and answers) and `money`
    (US dollars) are the cost of ended cells; under budget.money, `money` includes cells that have not ended. `blocked`
    is the cell whose step keeps the event loop busy for longer than allowed, if there is one.
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
    """The driver's side of the exchange of messages, for one run.

    As a context manager, it removes all runs' files at its beginning and at its end.

    Raises:
        StoreError: (on entering) the folder cannot be written to.
    """

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
            raise StoreError(
                f"{self._folder}: cannot be written to ({error}); choose another store.root=FOLDER"
            ) from None
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def stop(self) -> None:
        """Tell the workers to begin no more cells."""
        with suppress(OSError):
            self._order.write_text(_STOP)

    def read(self, attempt_id: str) -> Sign | None:
        """The last sign of an attempt's worker; None if it cannot be read now."""
        try:
            return Sign(**json.loads((self._folder / f"{self.run_id}-{attempt_id}").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def forget(self, attempt_id: str) -> None:
        """Remove the sign of an attempt that has ended."""
        with suppress(OSError):
            (self._folder / f"{self.run_id}-{attempt_id}").unlink()

    def _clear(self) -> None:
        with suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)
            self._folder.rmdir()


class Speaker:
    """The worker's side of the exchange of messages, for one attempt at a chunk."""

    def __init__(self, root: Path, run_id: str, attempt_id: str) -> None:
        self._order = root / FOLDER / run_id
        self._file = root / FOLDER / f"{run_id}-{attempt_id}"
        self._every = _OBJECT_SECONDS if isinstance(root, Address) else 0.0
        self._said = self._asked = -math.inf

    def say(self, sign: Sign) -> None:
        """Replace the last sign with this one; in an object store, skip signs that come too soon, unless `blocked`."""
        if not sign.blocked and time.monotonic() - self._said < self._every:
            return
        self._said = time.monotonic()
        with suppress(OSError):  # the driver is gone, or the disk is full; writing rows will show that
            self._file.write_text(json.dumps(asdict(sign)))

    def told_to_stop(self) -> bool:
        """Whether the driver ordered a stop, or has ended; False if an object store was asked only just before."""
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
    """The start time of a process on this machine, in kernel clock ticks; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


def end_process(pid: int, started: int) -> None:
    """Send SIGKILL to a process on this machine, unless a different process has its id now."""
    if started_at(pid) == started:
        with suppress(OSError):
            os.kill(pid, 9)

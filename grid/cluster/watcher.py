"""A program that ends the remaining processes of a local Ray whose driver was killed: `python watcher.py SESSION`.

It stands apart because it runs in a separate process that needs nothing but Python, and so starts immediately. Its
standard input closes when the driver ends, for whatever reason. A driver that has already ended Ray writes the text
`OVER` to this input before it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OVER = b"over"
_TRIES, _BETWEEN_SECONDS = 20, 0.25  # a process may start another one while it is being killed


@contextmanager
def watched(session: Path) -> Iterator[None]:
    """Inside the context, if this process is killed, processes that write to the session's folder are killed too."""
    command = [sys.executable, "-I", "-S", __file__, str(session)]
    nothing = subprocess.DEVNULL
    watcher = subprocess.Popen(  # noqa: S603 - our own
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
    )
    try:
        yield
    finally:
        watcher.communicate(OVER)


def writers(session: Path) -> list[int]:
    """The processes that have a file of the session open for writing: all of Ray's processes, and their children."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if any(_writes(one, f"{session.resolve()}/") for one in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def _writes(descriptor: Path, below: str) -> bool:
    if not os.readlink(descriptor).startswith(below):
        return False
    told = descriptor.parents[1].joinpath("fdinfo", descriptor.name).read_text()
    flags = next(line.split()[1] for line in told.splitlines() if line.startswith("flags:"))
    return bool(int(flags, 8) & (os.O_WRONLY | os.O_RDWR))


def main() -> None:
    """Wait until the driver ends, and kill the processes that it has left behind."""
    if sys.stdin.buffer.read() == OVER:
        return
    for _ in range(_TRIES):
        for process in writers(Path(sys.argv[1])):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_BETWEEN_SECONDS)


if __name__ == "__main__":
    main()

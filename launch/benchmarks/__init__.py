"""The measurements of `agent-grid bench`, one module for each, and the code that several of them share."""

from __future__ import annotations

from pathlib import Path


def peak_bytes(process: int | str = "self") -> int:
    """The peak memory of a process, in bytes; 0 if the process has ended and nobody has waited for it yet.

    `resource.getrusage` is not used, because its peak includes the memory of the process from which this one was
    started.

    Raises:
        OSError: there is no such process.
    """
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0  # the process has ended, and nobody has waited for it yet

"""What this process and its children have written, where their output goes to files, as Ray's workers' does."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Mapping

_STREAMS = (1, 2)
_MOST_BYTES = 20_000


def sizes() -> dict[int, int]:
    """How much was written so far, by stream."""
    found = {stream: os.fstat(stream) for stream in _STREAMS}
    return {stream: what.st_size for stream, what in found.items() if stat.S_ISREG(what.st_mode)}


def tail(lines: int, since: Mapping[int, int] | None = None) -> list[str]:
    """The last lines written, if asked `since` there was so much; empty where output goes to no file."""
    found: deque[str] = deque(maxlen=lines)
    for stream, size in sizes().items():
        begin = (since or {}).get(stream, 0)
        with open(f"/proc/self/fd/{stream}", "rb") as file:  # its name may be gone
            file.seek(max(size - _MOST_BYTES, begin))
            found.extend(line for line in file.read().decode(errors="replace").splitlines() if line.strip())
    return list(found)

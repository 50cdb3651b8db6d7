"""What a worker may take: seconds for a case, memory for its process."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_LOOK_SECONDS = 0.5
_TOO_LARGE = 71  # the process's exit status
_watching = threading.Lock()


@dataclass(frozen=True)
class Limits:
    """Seconds of its own after which a case ends as a timeout; gibibytes at which its worker's process is ended.

    A case that holds the event loop for `grace_seconds` beyond its time ends the process too.
    """

    case_seconds: float
    memory_gib: float
    grace_seconds: float = 10.0


def end_when_too_large(gib: float) -> None:
    """From now on end this process once it holds more memory; a second call changes nothing."""
    if _watching.acquire(blocking=False):
        threading.Thread(target=_watch, args=(gib,), daemon=True, name="memory").start()


def _watch(gib: float) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
        if resident > gib * 2**30:
            print(
                f"ended: {resident / 2**30:.1f} GiB, cluster.worker_memory_gib is {gib:g}", file=sys.stderr, flush=True
            )
            os._exit(_TOO_LARGE)
        time.sleep(_LOOK_SECONDS)

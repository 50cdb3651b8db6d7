"""Each failed cell's class, worked out in a process of its own, so that no page waits for that."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from grid.core.errors import StoreError

_NICE = 10
_LOOK_SECONDS = 2.0


def classes(root: Path) -> pa.Table:
    """The table of `analysis.failures.read.classes`.

    Raises:
        StoreError: the folder cannot be read, or the process was ended.
    """
    from analysis.failures import read

    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)) as pool:
        try:
            return pool.submit(read.classes, root).result()
        except BrokenProcessPool:
            raise StoreError(f"{root}: nobody could put its failures into classes, the process was ended") from None


def _begin(parent: int) -> None:
    """Give way to all else, and end with the viewer, however that is ended."""
    os.nice(_NICE)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()

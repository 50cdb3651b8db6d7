"""Each failed cell's class, worked out in a process of its own, so that no page waits for that."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from grid.errors import StoreError

_NICE = 10


def classes(root: Path) -> pa.Table:
    """The table of `analysis.failures.read.classes`.

    Raises:
        StoreError: the folder cannot be read, or the process was ended.
    """
    from analysis.failures import read

    with ProcessPoolExecutor(1, get_context("spawn"), initializer=os.nice, initargs=(_NICE,)) as pool:
        try:
            return pool.submit(read.classes, root).result()
        except BrokenProcessPool:
            raise StoreError(f"{root}: nobody could put its failures into classes, the process was ended") from None

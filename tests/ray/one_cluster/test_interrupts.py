"""Ctrl-C once: what has begun ends; twice: the sweep stops at once. What is written stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from grid import store
from tests.support import commands

GRID = ("-m", "robustness=none", "model=lexical", "planner=react", "dataset.limit=50", "trials=60", "name=x")
CELLS = 50 * 60


@pytest.mark.parametrize("times", [1, 2])
def test_interrupts(joined: Sequence[str], tmp_path: Path, times: int) -> None:
    folder = tmp_path / "results" / "x"
    with commands.started("sweep", tmp_path, *GRID, *joined, prepare=heard) as (sweep, said):
        while not list((folder / "episodes").glob("*.parquet")):
            assert sweep.is_alive(), said("err")
            time.sleep(0.05)
        for _ in range(times):
            os.kill(sweep.pid or 0, signal.SIGINT)
            while sweep.is_alive() and "interrupted" not in said("out") + said("err"):
                time.sleep(0.05)
        sweep.join(commands.HANGS_SECONDS)
        ended, told = sweep.exitcode, said("out") + said("err")
    assert ended == 1, told
    assert "interrupted: no further cells are started" in told
    assert ("stopped: all rows written so far are kept" in told) == (times == 2)
    if times == 1:
        assert "cells are missing: run again with the same name" in told
        assert 0 < store.read(folder, "episodes").num_rows < CELLS
    store.check(folder)
    with store.locked(folder):
        pass


def heard() -> None:
    """A forked process may ignore what a shell had the tests ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""Chunks with a case that ends or blocks the worker that runs it, or that wait; imported by the workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from grid import batch
from grid.cell import Cell, Setting

DEADLY = "slate-0003"
GO = "go"  # a file: what waiting chunks wait for
chunk = batch._chunk


def deadly(setting: Setting, cells: list[Cell], *rest: Any) -> batch.Report:
    if any(cell.case_id == DEADLY for cell in cells):
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk(setting, cells, *rest)


def hanging(setting: Setting, cells: list[Cell], *rest: Any) -> batch.Report:
    if any(cell.case_id == DEADLY for cell in cells):
        time.sleep(600)
    return chunk(setting, cells, *rest)


def waiting(setting: Setting, cells: list[Cell], budget: Any, limits: Any, root: str, *rest: Any) -> batch.Report:
    while not (Path(root) / GO).exists():
        time.sleep(0.05)
    return chunk(setting, cells, budget, limits, root, *rest)

"""Chunks with a case that ends or blocks the worker that runs it; imported by the workers."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from grid import batch
from grid.cell import Cell, Setting

DEADLY = "slate-0003"
chunk = batch._chunk


def deadly(setting: Setting, cells: list[Cell], *rest: Any) -> batch.Report:
    if any(cell.case_id == DEADLY for cell in cells):
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk(setting, cells, *rest)


def hanging(setting: Setting, cells: list[Cell], *rest: Any) -> batch.Report:
    if any(cell.case_id == DEADLY for cell in cells):
        time.sleep(600)
    return chunk(setting, cells, *rest)

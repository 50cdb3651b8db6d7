"""Agents that are programs: the one of this folder, and cases that it works on."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from grid import store
from grid.cells import deadline
from grid.cells.run import CONCURRENT_CELLS, Stamp, run_chunk
from grid.planners.outside.agent import Command
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Keep, cells
from grid.store.schema import TABLES
from tests.support.configs import setting_of

AGENT = Path(__file__).with_name("agent.py")
HIDDEN = {"outline": "hidden"}
GENEROUS = BudgetConfig()
PERFECT = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "recovery": 1.0, "case_spread": 0.0}


def program(*words: object, **more: Any) -> Command:
    """The agent of tests/support that does what the words say."""
    return Command(command=" ".join(map(str, (sys.executable, "-I", "-S", AGENT, *words))), **more)


def run(
    solving: Any,
    cases: int = 1,
    budget: BudgetConfig = GENEROUS,
    seconds: float = 100.0,
    at_once: int = CONCURRENT_CELLS,
    root: Path | None = None,
    **labels: Any,
) -> Any:
    """The rows of some cases by table, those of SLATE with the simulated policy where nothing else is said.

    `root` is a folder into which they are written, too.
    """
    values = {"limit": cases, **labels.pop("values", {})}
    setting = setting_of(
        values, model_values=labels.pop("model_values", {}), **{"model": "simulated", "dataset": "slate"} | labels
    )
    built = replace(build(setting, budget), planner=solving)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    work = run_chunk(built, setting, chunk, Stamp("test", None), case_seconds=seconds, keep=Keep(), at_once=at_once)
    rows = deadline.run(work).take_all()
    if root:
        store.write(root, rows)
    return {
        table: [dict(zip(TABLES[table].names, map(_plain, row), strict=True)) for row in found]
        for table, found in rows.items()
    }


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def printed(rows: Any) -> str:
    """What the only episode's agent printed, as the transcript has it."""
    return next(str(row["answers"][0]) for row in rows["messages"] if row["decision"] == "printed")


def left_over(token: str) -> list[str]:
    """Processes with a token in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (entry / "environ").read_bytes() and entry.name != str(os.getpid()):
                found.append(entry.name)
        except OSError:
            continue
    return found

"""What a cell costs in calls of functions, which is the same on every machine, as seconds are not."""

import asyncio
import cProfile
import pstats
from typing import Any

import pytest

from grid.runner.build import build
from grid.runner.cell import Setting, cells
from grid.runner.run import Stamp, run_cell
from launch.benchmarks.overhead import BUDGET, null_setting

NULL = {"_target_": "grid.datasets.null.Null", "cases": 1}
SLATE = {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 1}


@pytest.mark.parametrize(("dataset", "was"), [(NULL, 1431), (SLATE, 4917)], ids=["null", "slate"])
def test_a_cell_takes_no_more_calls_than_a_tenth_over_what_it_took(dataset: dict[str, Any], was: int) -> None:
    """ReAct with the null engine; `was` when this was written last, Python's own functions included."""
    first, second = _calls(dataset)
    assert first == second, "a cell whose caches are warm takes as many calls every time"
    assert first <= 1.1 * was, f"{first:,} calls a cell, and it was {was:,}"


def _calls(dataset: dict[str, Any]) -> tuple[int, int]:
    """Calls of two runs of one cell, behind others that fill the caches."""
    setting = null_setting()
    setting = Setting({**setting.config, "dataset": dataset}, setting.labels, seed=0)
    built = build(setting, BUDGET)
    (cell,) = cells(setting, built.dataset.version, built.dataset.case_ids(), 1)
    stamp = Stamp("calls", None)

    async def counted() -> int:
        profile = cProfile.Profile()
        profile.enable()
        outcome = await run_cell(built, setting, cell, stamp, "calls")
        profile.disable()
        assert outcome.episode["status"] == "ok"
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    _, _, first, second = (asyncio.run(counted()) for _ in range(4))
    return first, second

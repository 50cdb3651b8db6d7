"""What a cell costs in calls of functions, which is the same on every machine, as seconds are not."""

import asyncio
import cProfile
import pstats
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cells.run import Stamp, run_cell, run_chunk
from grid.settings.build import Built, build
from grid.settings.setting import Cell, Keep, Setting, cells
from launch.benchmarks.overhead import BUDGET, null_setting

NULL = {"_target_": "grid.datasets.null.Null", "cases": 1}
IN_STORE = 63.8
SLATE = {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 1}


@pytest.mark.parametrize(("dataset", "was"), [(NULL, 739), (SLATE, 3697)], ids=["null", "slate"])
def test_a_cell_takes_no_more_calls_than_a_tenth_over_what_it_took(dataset: dict[str, Any], was: int) -> None:
    """ReAct with the null engine; `was` when this was written last, Python's own functions included."""
    first, second = _calls(dataset)
    assert first == second, "a cell whose caches are warm takes as many calls every time"
    assert first <= 1.1 * was, f"{first:,} calls a cell, and it was {was:,}"


@pytest.mark.long
@pytest.mark.parametrize(("dataset", "was"), [(NULL, IN_STORE), (SLATE, IN_STORE)], ids=["null", "slate"])
def test_its_way_through_the_store_too(tmp_path: Path, dataset: dict[str, Any], was: float) -> None:
    """Of a cell's rows among those of fifty, transcripts included, from the end of its work to the files."""
    setting, built, made = _built({**dataset, **{key: 50 for key in ("cases", "limit") if key in dataset}})
    ran = asyncio.run(run_chunk(built, setting, made, Stamp("calls", None), keep=Keep("all")))
    rows: store.Rows = ran.take_all()
    store.write(tmp_path / "before", rows)
    profile = cProfile.Profile()
    profile.runcall(store.write, tmp_path / "after", rows)
    calls = pstats.Stats(profile).total_calls / len(made)  # type: ignore[attr-defined]
    assert len(made) == 50
    assert calls <= 1.1 * was, f"{calls:,.1f} calls a cell, and it was {was:,.1f}"


def _built(dataset: dict[str, Any]) -> tuple[Setting, Built, list[Cell]]:
    setting = null_setting()
    setting = Setting({**setting.config, "dataset": dataset}, setting.labels, seed=0)
    built = build(setting, BUDGET)
    return setting, built, list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))


def _calls(dataset: dict[str, Any]) -> tuple[int, int]:
    """Calls of two runs of one cell, behind others that fill the caches."""
    setting, built, (cell,) = _built(dataset)
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

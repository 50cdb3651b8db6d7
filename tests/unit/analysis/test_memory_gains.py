"""What the report says that memory gains: paired by case, each planner against itself, a planted gain recovered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import load
from analysis.tables import remembered
from grid import store
from grid.core.types import to_json
from tests.support import searched

CASES = 40


def row(planner: str, memory: str, case: int, success: bool | None, **further: Any) -> dict[str, Any]:
    config = {"memory": {"held": {"traces": 7, "cases": 50}}} if memory != "none" else {}
    found = searched.episode(planner, case, success, memory=memory, config=to_json(config), **further)
    setting = f"{planner} {memory} {further.get('model')}"
    cell = f"{setting}/{case}/{found['trial']}"
    return found | {"setting_id": setting, "cell_id": cell, "cell_key": cell}


def test_a_planted_gain_is_recovered_by_each_planner_against_itself_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rates = {("react", "none"): 0.2, ("react", "traces"): 0.9, ("lats", "none"): 0.6, ("lats", "traces"): 0.6}
    won = {key: rng.random((CASES, 2)) < rate for key, rate in rates.items()}
    rows = [
        row(
            planner, "traces[apart=true]" if memory == "traces" else memory, case, bool(found[case, trial]), trial=trial
        )
        for (planner, memory), found in won.items()
        for case in range(CASES)
        for trial in range(2)
    ]
    store.write(tmp_path, {"episodes": rows})
    told = remembered.gains(load.episodes(tmp_path, ["config"])).rows
    gains = {one["planner"]: one for one in told.to_dict("records")}
    assert list(gains) == ["lats", "react"]
    for planner, one in gains.items():
        own, without = won[planner, "traces"], won[planner, "none"]
        assert one["success"] == pytest.approx(own.mean() - without.mean())
        assert (one["success_with"], one["success_without"]) == pytest.approx((own.mean(), without.mean()))
        assert (one["cases"], one["clusters"], one["traces"], one["of_cases"]) == (CASES, CASES // 2, 7, 50)
    assert gains["react"]["success_low"] > 0.5
    assert gains["react"]["success_holm"] < 0.001
    assert gains["lats"]["success_low"] < 0 < gains["lats"]["success_high"]
    (table,) = remembered.tables(tmp_path)
    assert [line[:2] for line in table.rows] == [["none", "lats"], ["none", "react"]]
    assert "*†" in dict(zip(table.figures, table.rows[1][3:], strict=True))["gain"]


def test_only_cases_that_ran_both_ways_count_and_only_known_ones(tmp_path: Path) -> None:
    rows = [row("react", "none", case, case % 2 == 0) for case in range(10)]
    rows += [row("react", "traces", case, True if case != 5 else None) for case in range(4, 14)]
    rows += [row("cot", "traces", case, True) for case in range(10)]
    store.write(tmp_path, {"episodes": rows})
    (one,) = remembered.gains(load.episodes(tmp_path, ["config"])).rows.to_dict("records")
    assert (one["planner"], one["cases"]) == ("react", 5)
    assert one["success"] == pytest.approx(1 - 3 / 5), "cases 4, 6, 7, 8 and 9"


def test_without_memory_there_is_no_table(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [row("react", "none", case, True) for case in range(4)]})
    assert remembered.tables(tmp_path) == []

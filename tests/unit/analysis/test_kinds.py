"""F1 of tool choice by kind of tool: summed over cells, shown, and found by the table's query."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from rich.console import Console

from analysis.page.table import Table
from analysis.report import print_report
from analysis.tables.trajectories import f1
from grid import store

COUNTS: list[dict[str, list[int]]] = [
    {"perception": [1, 2, 1], "logic": [1, 1, 2], "creativity": [0, 3, 0]},
    {"perception": [1, 1, 3], "logic": [0, 0, 0], "creativity": [0, 0, 0]},
]


def tables(folder: Path, counts: list[dict[str, list[int]] | None]) -> list[Table]:
    cells: list[dict[str, Any]] = [
        {
            "model": "lexical", "dataset": "gta", "robustness": "none", "pool": "all", "planner": planner, "trial": 0,
            "cell_id": f"{planner}{place}", "cell_key": f"{planner}{place}", "attempt_id": "a",
            "case_id": f"c{place}", "cluster": f"c{place}", "status": "ok", "success": False,
            "tool_counts": None if one is None else json.dumps(one), "config": "{}",
            "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        }
        for planner in ("react", "zero_shot")
        for place, one in enumerate(counts[: 1 if planner == "zero_shot" else None])
    ]  # fmt: skip
    store.write(folder, {"episodes": cells})
    found = print_report(folder, Console(file=io.StringIO()))
    return [table for table in found if table.name.startswith("tool F1")]


@pytest.mark.long
def test_counts_are_summed_over_cells_before_they_are_divided(tmp_path: Path) -> None:
    (table,) = tables(tmp_path, [*COUNTS])
    assert table.name == "tool F1 by category lexical gta"
    assert list(table.figures) == ["gold calls", "macro", "perception", "logic", "creativity"]
    assert table.rows == [
        ["none", "react", "6", "61.9", "57.1", "66.7", "none"],  # 2·2/(3+4), 2·1/(1+2)
        ["none", "zero_shot", "3", "66.7", "66.7", "66.7", "none"],
    ]
    queried = duckdb.connect().execute(table.query).df()
    columns = ["planner", "kind", "cells", "hits", "predicted", "gold"]
    told = table.values.astype({"planner": str})
    one, other = (frame[columns].sort_values(columns[:2], ignore_index=True) for frame in (queried, told))
    pd.testing.assert_frame_equal(one, other, check_dtype=False)


@pytest.mark.long
def test_many_kinds_are_shown_by_their_mean(tmp_path: Path) -> None:
    kinds = {f'kind "{place}" of $.tools': [place % 2, 1, 1] for place in range(33)}
    (table,) = tables(tmp_path, [kinds])
    assert list(table.figures) == ["gold calls", "macro"]
    assert table.rows[0] == ["none", "react", "33", "48.5"]
    assert "33 kinds" in table.notes[0]


@pytest.mark.long
def test_without_counts_there_is_no_table(tmp_path: Path) -> None:
    assert tables(tmp_path, [None]) == []


def test_the_small_summand_changes_nothing_that_is_shown() -> None:
    counts = pd.DataFrame({"hits": [0, 1, 1, 7], "predicted": [0, 1, 500, 9], "gold": [3, 1, 2, 11]})
    exact = 2 * counts["hits"] / (counts["predicted"] + counts["gold"])
    assert f1(counts).tolist() == pytest.approx(exact.tolist(), abs=2e-5)

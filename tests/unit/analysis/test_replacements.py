"""What forgiving tools replaced, as the report tells it: shares with intervals, and the query that gives them."""

from __future__ import annotations

import datetime as dt
import io
import math
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from rich.console import Console

from analysis.report import print_report
from analysis.stats.intervals import ratio
from analysis.tables.disturbances import REPLACED, WRONG, wrong_share
from grid import store


def frame(*counts: tuple[str, int, int]) -> pd.DataFrame:
    """One cell a case: its cluster, what was replaced, and what of it wrongly."""
    rows = [(cluster, f"c{place}", *found) for place, (cluster, *found) in enumerate(counts)]
    return pd.DataFrame(rows, columns=["cluster", "case_id", REPLACED, WRONG])


def test_the_share_is_of_all_replaced_with_an_interval_over_clusters() -> None:
    cells = frame(("a", 4, 1), ("b", 0, 0), ("c", 2, 1), ("d", 6, 0), ("e", 3, 1), ("f", 5, 2))
    share, low, high = wrong_share(cells)
    assert share == pytest.approx(5 / 20)
    cases = cells.set_index(["cluster", "case_id"])
    # The delta method on the logarithm has the same error: half a length in both is the quantile times it.
    _, below, above = ratio(cases[WRONG].astype(float), cases[REPLACED].astype(float))
    half = math.log(above / below) / 2 * share
    assert (low, high) == pytest.approx((max(share - half, 0), share + half))


@pytest.mark.parametrize(("wrong", "share"), [(0, 0.0), (3, 1.0)])
def test_none_and_all_have_bounds_too(wrong: int, share: float) -> None:
    found = wrong_share(frame(*((str(place), 3, wrong) for place in range(20)), ("none", 0, 0)))
    assert found.mean == share
    width = 1.96**2 / (20 + 1.96**2)  # Wilson's, of 20 clusters
    assert found.high - found.low == pytest.approx(width, abs=1e-3)
    assert 0 <= found.low <= share <= found.high <= 1


def test_nothing_replaced_has_no_share() -> None:
    assert all(map(math.isnan, wrong_share(frame(("a", 0, 0), ("b", 0, 0)))))


@pytest.mark.long
def test_the_report_has_a_row_a_setting_and_its_query_finds_the_same(tmp_path: Path) -> None:
    made = {"tools_forgiving": ((2, 1), (1, 0), (0, 0)), "tools_strict": (None,) * 3}
    cells: list[dict[str, Any]] = [
        {
            "model": "lexical", "dataset": "kqa", "robustness": robustness, "pool": "all", "planner": planner,
            "cell_id": f"{planner}{robustness}{place}", "cell_key": f"{planner}{robustness}{place}", "attempt_id": "a",
            "case_id": f"c{place}", "cluster": f"c{place}", "status": "ok", "success": False, "config": "{}",
            "trial": 0, "tool_calls": 5, REPLACED: found and found[0], WRONG: found and found[1],
            "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        }
        for planner in ("fh", "sh")
        for robustness, counts in made.items()
        for place, found in enumerate(counts)
    ]  # fmt: skip
    store.write(tmp_path, {"episodes": cells})
    tables = print_report(tmp_path, Console(file=io.StringIO()))
    (table,) = [table for table in tables if table.name.startswith("replacements")]
    assert [row[:6] for row in table.rows] == [
        ["tools_forgiving", planner, "3", "15", "3", "1"] for planner in ("fh", "sh")
    ]
    assert all(row[6].startswith("33.3% [") for row in table.rows)
    sums = {"cells": "cells"} | {name: f"all_{name}" for name in ("tool_calls", REPLACED, WRONG)}
    queried = duckdb.connect().execute(table.query).df().groupby("planner")[[*sums.values()]].sum()
    for row in table.values.to_dict("records"):
        assert queried.loc[row["planner"]].tolist() == [row[name] for name in sums]

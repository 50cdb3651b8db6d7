"""Anytime curves are those made by hand and what smaller budgets return; quartiles of trees are those made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.stats.intervals import CLUSTER
from analysis.tables import search_cells
from grid.settings.config import BudgetConfig
from tests.support import planted
from tests.support.searched import BUDGET, by_planner, episode, improvements, nodes, only, tables, write


def test_the_curve_by_hand(tmp_path: Path) -> None:
    """Four cells of one planner; limits 4, 8, 16, 32.

    a: improvements at 2 calls (0.2 s, no) and 6 (0.6 s, yes), ended at 10 (1.0 s, yes): 0 1 1 1; 0.4 0.8 1.0 1.0 s
    b: an improvement at 20 (2.0 s, yes), ended at 20 (2.0 s, yes): 0 0 0 1; 0.4 0.8 1.6 2.0 s
    c: its time ended at 12 calls (1.2 s, no), an improvement at 6 (0.6 s, yes): 0 1 0 0; 0.4 0.8 1.2 1.2 s
    d: the infrastructure failed: not known anywhere
    """
    a = episode("mcts", 0, True, tool_calls=10, case_seconds=1.0, n_nodes=3)
    b = episode("mcts", 2, True, tool_calls=20, case_seconds=2.0, n_nodes=3)
    c = episode("mcts", 4, False, tool_calls=12, case_seconds=1.2, n_nodes=3, status="failed", error_kind="timeout")
    d = episode("mcts", 6, None, tool_calls=0, case_seconds=0.0, status="failed", error_kind="infrastructure")
    improved = [*improvements(a, (2, 0.2, False), (6, 0.6, True)), *improvements(b, (20, 2.0, True))]
    write(tmp_path, [a, b, c, d], [*improved, *improvements(c, (6, 0.6, True))])
    limits = (4, 8, 16, 32)
    reached = search_cells.at_limits(only(tmp_path), search_cells.improvements(tmp_path), limits).rows
    at = reached.astype({"case_id": str}).set_index(["case_id", "most"])
    expected = {
        "a": (a, [0, 1, 1, 1], [0.4, 0.8, 1.0, 1.0]),
        "b": (b, [0, 0, 0, 1], [0.4, 0.8, 1.6, 2.0]),
        "c": (c, [0, 1, 0, 0], [0.4, 0.8, 1.2, 1.2]),
    }
    for cell, successes, seconds in expected.values():
        assert at.loc[cell["case_id"], "success"].tolist() == successes
        assert at.loc[cell["case_id"], "seconds"].tolist() == pytest.approx(seconds)
    assert d["case_id"] not in at.index
    curve = search_cells.curve(reached)
    assert curve["cases"].tolist() == [3] * 4
    assert curve["success"].tolist() == pytest.approx([0, 2 / 3, 1 / 3, 2 / 3])
    assert curve["seconds"].tolist() == pytest.approx([0.4, 0.8, 3.8 / 3, 4.2 / 3])
    assert curve["gain_per_second"].tolist() == pytest.approx([0, 2 / 1.2, -1 / 1.4, 1 / 0.4])
    assert curve["success_low"].notna().all(), "where nothing varies too"


def test_the_gain_per_second_is_that_between_neighbouring_limits(tmp_path: Path) -> None:
    """40 cases: by 4 calls (0.5 s) half of them resolved, by 8 (1 s) three quarters, by 16 (5 s) no more, all ended.

    Mean success over mean seconds would be 1, 0.75 and 0.15.
    """
    rows, improved = [], []
    for case in range(40):
        cell = episode("mcts", case, case % 4 != 3, tool_calls=16, case_seconds=5.0, n_nodes=3)
        rows.append(cell)
        improved += improvements(cell, (4, 0.5, case % 4 < 2), (8, 1.0, case % 4 != 3))
    write(tmp_path, rows, improved)
    curve = search_cells.curve(
        search_cells.at_limits(only(tmp_path), search_cells.improvements(tmp_path), (4, 8, 16, 32)).rows
    )
    assert curve["gain_per_second"].tolist()[:3] == pytest.approx([0.5 / 0.5, 0.25 / 0.5, 0.0])
    assert np.isnan(curve["gain_per_second"].iloc[3]), "no time passes behind the end"
    low, high = (curve[f"gain_per_second_{bound}"] for bound in ("low", "high"))
    assert ((low < curve["gain_per_second"]) & (curve["gain_per_second"] < high)).tolist() == [True, True, False, False]
    shown = tables(tmp_path)["anytime"]
    assert [row[4:] for row in shown.rows if row[3] == "gain per second"] == [["1", "0.5", "0", "none", "none"]]
    assert "since the previous limit" in shown.caption


@pytest.mark.long
def test_intervals_of_gains_hold_the_planted_one() -> None:
    """500 studies of 60 cases whose gain and whose seconds are drawn together: 0.2 in 4 s."""
    rng, held = np.random.default_rng(7), 0
    index = pd.MultiIndex.from_arrays([np.arange(60).astype(str), np.arange(60)], names=[CLUSTER, "case_id"])
    for _ in range(500):
        hard = rng.random(60)
        before = pd.DataFrame({"success": (hard < 0.3).astype(float), "seconds": 1.0 + hard}, index=index)
        lost = (rng.random(60) < 0.1) & (hard < 0.3)
        gained = ((hard >= 0.3) & (hard < 0.53)).astype(float)
        after = before + pd.DataFrame({"success": gained - lost, "seconds": 3.0 + 2 * hard}, index=index)
        found = search_cells.marginal(after, before)
        held += found.low <= (0.23 - 0.03) / 4 <= found.high
    assert 0.91 <= held / 500 <= 0.99


def test_no_limit_beyond_the_budget_has_a_point(tmp_path: Path) -> None:
    cell = episode("mcts", 0, False, budget=dict(BUDGET) | {"steps": 20}, tool_calls=20, n_nodes=3)
    write(tmp_path, [cell])
    reached = search_cells.at_limits(only(tmp_path), search_cells.improvements(tmp_path)).rows
    assert reached["most"].tolist() == [4, 8, 16]


@pytest.mark.long
@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_an_anytime_row_is_what_a_run_with_that_limit_returns(outline: str, tmp_path: Path) -> None:
    found = {}
    for steps in (4, 8, 16, 40):
        rows = planted.grid("best_first", cases=12, budget=BudgetConfig(steps=steps), judge_auc=0.95,
                            dataset_values={"outline": outline})  # fmt: skip
        found[steps] = rows
    whole = pd.DataFrame(found[40]["episodes"]).assign(asked=False, limit=40)
    improved = pa.Table.from_pylist(found[40]["improvements"])
    at = search_cells.at_limits(whole, improved, (4, 8, 16)).rows.set_index(["most", "case_id"])["success"]
    assert at.nunique() == 2
    for steps in (4, 8, 16):
        returned = {row["case_id"]: float(row["success"]) for row in found[steps]["episodes"]}
        assert at.loc[steps].to_dict() == returned


def test_quartiles_of_trees_by_hand(tmp_path: Path) -> None:
    searched = [episode("mcts", case, True, n_nodes=case + 3) for case in range(5)]
    trees = [row for case, cell in enumerate(searched) for row in nodes(cell, [case + 1] * (case + 2), case + 1, 1)]
    frontier = episode("best_first", 0, True, n_nodes=3)
    write(tmp_path, [*searched, frontier, episode("react", 0, True)], [], [*trees, *nodes(frontier, [0, 0], 2)])
    found = by_planner(search_cells.sizes(only(tmp_path), search_cells.trees(tmp_path)).rows)
    assert list(found) == ["best_first", "mcts"], "react has no tree"
    mcts = found["mcts"]
    assert [mcts[f"nodes_{part}"] for part in search_cells.QUARTILES] == [3, 4, 5], "2 to 6 of them"
    assert [mcts[f"executed_nodes_{part}"] for part in search_cells.QUARTILES] == [2, 3, 4]
    assert [mcts[f"rollouts_{part}"] for part in search_cells.QUARTILES] == [6, 12, 20], "2, 6, 12, 20, 30"
    assert mcts["pruned_median"] == 1
    assert np.isnan(found["best_first"]["rollouts_median"]), "it backs nothing up"
    assert {row[2]: row[6] for row in tables(tmp_path)["trees"].rows} == {"best_first": "none", "mcts": "12 [6, 20]"}

"""What the report says of searches: planted effects are recovered, dominated planners are not named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.figures import search
from analysis.report import print_report
from analysis.tables import search as of_searches
from analysis.tables import search_cells
from grid.core.types import to_json
from launch.report import write_page
from tests.support.searched import BUDGET, by_planner, episode, improvements, nodes, only, tables, write

KINDS = ("budgets", "frontier", "ablation", "anytime", "passes", "trees")


def rows_of(query: str) -> pd.DataFrame:
    return duckdb.connect().execute(query).df()


# --- equal budgets


def test_costs_are_those_of_every_role_and_success_has_its_interval(tmp_path: Path) -> None:
    judge: dict[str, Any] = {"judge_input_tokens": 500, "judge_output_tokens": 40, "judge_calls": 3, "judge_passes": 1}
    critic = {name.replace("judge", "critic"): count for name, count in judge.items()}
    write(
        tmp_path,
        [episode("react", case, case < 2, trial) for case in range(8) for trial in range(2)]
        + [episode("plan_first", case, False, **critic, evaluator_calls=9) for case in range(8)]
        + [
            episode("mcts", case, case != 7, trial, n_nodes=9, **judge, budget_reached="steps" if case < 2 else None)
            for case in range(8)
            for trial in range(2)
        ],
    )
    found = by_planner(search_cells.compared(search_cells.cases(only(tmp_path)).rows))
    assert [found["react"][cost] for cost in search_cells.COSTS] == [1010.0, 4.0, 8.0, 2.0]
    assert [found["mcts"][cost] for cost in search_cells.COSTS] == [1550.0, 8.0, 8.0, 2.0]
    refined = found.pop("plan_first")
    assert [refined[cost] for cost in search_cells.COSTS] == [1550.0, 8.0, 8.0, 2.0]
    told = {planner: (row["success"], row["stopped_steps"], row["clusters"]) for planner, row in found.items()}
    assert told == {"mcts": (7 / 8, 0.25, 4), "react": (2 / 8, 0.0, 4)}
    assert found["react"]["success_low"] < 0.25 < found["react"]["success_high"]
    table = tables(tmp_path)["budgets"]
    assert "64 executed calls, 5,000 model calls" in table.caption
    assert "stopped by steps" in table.figures
    assert "stopped by tokens" not in table.figures, "it stopped nobody"


def test_who_asked_whether_cases_were_resolved_stands_apart_and_it_is_said(tmp_path: Path) -> None:
    checks = {"a_lats": 2, "mcts": 0, "react": 0, "retry": 1}
    write(tmp_path, [episode(planner, case, case < 3, n_nodes=2, resolved_checks=count if case else 0)
                     for planner, count in checks.items() for case in range(6)])  # fmt: skip
    for kind in ("budgets", "frontier"):
        table = tables(tmp_path)[kind]
        order = [(row[1], row[2]) for row in table.rows]
        assert order == [("no", "mcts"), ("no", "react"), ("yes", "a_lats"), ("yes", "retry")]
        assert table.sections == {2}, "a line between the two"
        assert "block of their own" in table.caption


def test_a_judge_set_right_from_the_reference_stands_with_those_who_asked(tmp_path: Path) -> None:
    config = to_json({"dataset": {"outline": "given"}, "budget": dict(BUDGET), "judge": {"restored": "both"}})
    rows = [episode("tooltree", case, case < 3, n_nodes=2, judge="own") for case in range(4)]
    rows += [episode("tooltree", case, True, n_nodes=2, judge="own[restored=both]") | {"config": config}
             for case in range(4)]  # fmt: skip
    write(tmp_path, rows)
    order = [(row[1], row[2]) for row in tables(tmp_path)["budgets"].rows]
    assert order == [("no", "tooltree / judge own"), ("yes", "tooltree / judge own[restored=both]")]


@pytest.mark.long
def test_undisturbed_cases_come_first(tmp_path: Path) -> None:
    settings = [(planner, robustness) for planner in ("mcts", "react") for robustness in ("extraneous", "none")]
    write(tmp_path, [episode(planner, case, True, robustness=robustness, n_nodes=2)
                     for planner, robustness in settings for case in range(2)])  # fmt: skip
    for kind in ("budgets", "frontier", "anytime"):
        assert list(dict.fromkeys(row[0] for row in tables(tmp_path)[kind].rows)) == ["none", "extraneous"]


def test_budgets_that_differ_are_never_compared(tmp_path: Path) -> None:
    small = dict(BUDGET) | {"steps": 8}
    write(tmp_path, [episode("react", case, False, budget=budget, n_nodes=2)
                     for budget in (BUDGET, small) for case in range(4)]
          + [episode("mcts", case, True, budget=small, n_nodes=2) for case in range(4)])  # fmt: skip
    found = [table for table in of_searches.tables(tmp_path) if table.name.startswith("budgets")]
    told = {table.caption.partition(";")[0].partition(": ")[2]: len(table.rows) for table in found}
    assert told == {"64 executed calls, 5,000 model calls": 1, "8 executed calls, 5,000 model calls": 2}
    assert len({table.name for table in found}) == 2


# --- who is undominated


@pytest.mark.long
def test_a_dominated_planner_is_on_no_frontier(tmp_path: Path) -> None:
    """`costly` is as good as `good` at twice the tokens and seconds; `cheap` is worse and cheaper than both."""
    planted_ = {"cheap": (2, 1000, 1.0), "good": (6, 4000, 4.0), "costly": (6, 8000, 8.0)}
    write(tmp_path, [episode(planner, case, case < wins, input_tokens=tokens, case_seconds=seconds, n_nodes=1)
                     for planner, (wins, tokens, seconds) in planted_.items() for case in range(8)])  # fmt: skip
    found = search_cells.compared(search_cells.cases(only(tmp_path)).rows).set_index("planner")
    for cost in search_cells.FRONTIERS:
        assert found[f"undominated_{cost}"].to_dict() == {"cheap": True, "good": True, "costly": False}
    (figure,) = [one for one in search.drawings(tmp_path) if one.name.startswith("frontier")]
    assert all(figure.svg.count(f">{name}<") == 2 for name in planted_), "by tokens and by seconds"
    rows = {row[2]: (row[5], row[7]) for row in tables(tmp_path)["frontier"].rows}
    assert rows == {"cheap": ("yes", "yes"), "good": ("yes", "yes"), "costly": ("no", "no")}


def test_who_asked_dominates_only_who_asked(tmp_path: Path) -> None:
    write(tmp_path, [episode("egb", case, True, input_tokens=10, resolved_checks=1, n_nodes=1) for case in range(4)]
          + [episode("react", case, case < 1, n_nodes=1) for case in range(4)])  # fmt: skip
    found = search_cells.compared(search_cells.cases(only(tmp_path)).rows).set_index("planner")
    assert found["undominated_tokens"].to_dict() == {"react": True, "egb": True}


POINTS = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan]), st.sampled_from([1.0, 2.0, 3.0, np.nan])))


@given(POINTS)
def test_undominated_is_what_its_definition_says(points: list[tuple[float, float]]) -> None:
    values = np.array(points, dtype=np.float64).reshape(-1, 2)
    found = search_cells.undominated(values[:, 0], values[:, 1])
    for (success, cost), best in zip(points, found, strict=True):
        better = any(s >= success and c <= cost and (s > success or c < cost) for s, c in points)
        assert best == (not better and not np.isnan(success) and not np.isnan(cost))


# --- the ablation


def test_the_ablation_recovers_what_was_planted(tmp_path: Path) -> None:
    """Without evaluation 3 of 10 cases are lost and each takes 500 tokens more; without pruning only tokens change."""
    without = "tooltree[post_evaluation=false]", "tooltree[pre_pruning=false]"
    rows = []
    for case in range(60):
        noise = 10 * (case % 7)
        rows += [
            episode("tooltree", case, case % 10 < 8, input_tokens=4000 + noise, n_nodes=20),
            episode(without[0], case, case % 10 < 5, input_tokens=4500 + noise + case % 3, n_nodes=20),
            episode(without[1], case, case % 10 < 8, input_tokens=4700 + 2 * noise, n_nodes=31 + case % 2),
            episode("react", case, False),
        ]
    write(tmp_path, rows)
    found = by_planner(search_cells.ablation(search_cells.cases(only(tmp_path)).rows))
    assert list(found) == ["tooltree", *without], "react is none of its variants"
    plain, evaluation, pruning = found.values()
    assert evaluation["success_difference"] == pytest.approx(-0.3)
    assert evaluation["success_high"] < 0
    assert evaluation["tokens_low"] <= 501 <= evaluation["tokens_high"]
    assert pruning["success_difference"] == 0.0
    assert -0.2 < pruning["success_low"] < 0 < pruning["success_high"] < 0.2, "no case differs"
    assert pruning["n_nodes_difference"] == pytest.approx(11.5)
    assert np.isnan(plain["tokens_difference"])
    table = tables(tmp_path)["ablation"]
    assert table.rows[1][5].startswith("-30.0* [")
    assert table.rows[0][5] == ""


@pytest.mark.parametrize(
    ("label", "labels", "plain"),
    [
        ("tooltree", ["tooltree"], None),
        ("tooltree[a=false]", ["tooltree", "tooltree[a=false]"], "tooltree"),
        ("tooltree[a=false] / bm25", ["tooltree / bm25", "tooltree / dense"], "tooltree / bm25"),
        ("tooltree[a=[1,2]] #1", ["tooltree #2"], "tooltree #2"),
        ("tooltree[a=false] / dense", ["tooltree / bm25", "tooltree / both"], None),
        (
            "tooltree[a=true,b=false]",
            ["tooltree[a=true,b=true]", "tooltree[a=false,b=true]"],
            "tooltree[a=true,b=true]",
        ),
        ("tooltree[a=False]", ["tooltree[a=True]"], "tooltree[a=True]"),
        ("tooltree[a=false]", [], None),
    ],
)
def test_what_a_variant_is_compared_with(label: str, labels: list[str], plain: str | None) -> None:
    assert search_cells.plain_of(label, [*labels, label]) == plain


# --- queries, pages, bad input


@pytest.mark.long
def test_every_query_gives_the_tables_numbers(tmp_path: Path) -> None:
    root = tmp_path / "it's searched"
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    improved: list[dict[str, Any]] = []
    trees: list[dict[str, Any]] = []
    for planner in ("tooltree", "tooltree[pre_pruning=false]", "react"):
        for case in range(6):
            for trial in range(2):
                calls = int(rng.integers(1, 60))
                cell = episode(planner, case, bool(rng.integers(2)), trial, tool_calls=calls,
                               case_seconds=calls / 7, n_nodes=4, judge_input_tokens=int(rng.integers(99)))  # fmt: skip
                half = (calls // 2, calls / 20, bool(rng.integers(2)))
                rows.append(cell)
                improved += improvements(cell, half, (calls, calls / 8, bool(cell["success"])))
                trees += nodes(cell, rng.integers(0, 5, 3).tolist(), 2, 1) if planner != "react" else []
    earlier = {"attempt_id": "earlier", "created_at": rows[0]["created_at"].replace(year=2025)}
    old = rows[0] | earlier | {"input_tokens": 10**9, "success": None}
    write(root, [old], improvements(old, (1, 99.0, True)), nodes(old, [99] * 99, 99))
    write(root, rows, improved, trees)
    shown = tables(root)
    assert set(shown) == set(KINDS)
    queried = {kind: rows_of(table.query) for kind, table in shown.items()}
    means = queried["budgets"].groupby("planner")[["success", *search_cells.COSTS]].mean()
    for row in shown["budgets"].values.to_dict("records"):
        for name in means.columns:
            assert means.loc[row["planner"], name] == pytest.approx(row[name])
    curve = queried["anytime"].groupby(["planner", "most"])[["success", "seconds"]].mean()
    for row in shown["anytime"].values.to_dict("records"):
        assert curve.loc[(row["planner"], row["limit"])].tolist() == pytest.approx([row["success"], row["seconds"]])
    at_calls = queried["passes"].groupby(["planner", "most"])["success"].mean()
    for row in shown["passes"].values.to_dict("records"):
        assert at_calls.loc[(row["planner"], row["limit"])] == pytest.approx(row["success"])
    medians = queried["trees"].set_index("planner")[[f"{name}_median" for name in search_cells.SIZES]]
    for row in shown["trees"].values.to_dict("records"):
        assert medians.loc[row["planner"]].tolist() == [row[name] for name in medians]
    for drawing in search.drawings(root):
        assert len(rows_of(drawing.query))
    page = write_page(root, print_report(root, Console(file=io.StringIO()))).read_text(encoding="utf-8")
    assert page.count("<svg") == 6, "those of success, of searches, of failures, and of cost"
    assert "simulated policy" not in page


def test_sweeps_without_trees_or_a_reached_budget_have_none_of_it(tmp_path: Path) -> None:
    write(tmp_path, [episode(planner, case, True, n_nodes=0) for planner in ("react", "fh") for case in range(3)])
    assert tables(tmp_path) == {}
    assert search.drawings(tmp_path) == []
    write(tmp_path / "stopped", [episode("react", 0, True, budget_reached="steps")])
    assert "budgets" in tables(tmp_path / "stopped")


@pytest.mark.long
@pytest.mark.parametrize(("success", "cases"), [(True, 1), (False, 1), (None, 1), (True, 4), (None, 4)])
def test_one_planner_one_case_all_equal_and_all_failed(tmp_path: Path, success: bool | None, cases: int) -> None:
    status = "ok" if success is not None else "failed"
    rows = [episode("mcts", case, success, n_nodes=2, status=status, case_seconds=0.0) for case in range(cases)]
    write(tmp_path, rows)
    found = tables(tmp_path)
    assert "frontier" not in found, "one planner has nobody to be compared with"
    (row,) = found["budgets"].rows
    shown = {True: "100.0", False: "0.0", None: "none"}[success] + " [1.2, 100.0]" * (success is True and cases > 1)
    assert row[3:7] == [str(cases), str(-(-cases // 2)), "0" if status == "ok" else str(cases), shown]
    assert bool(found["budgets"].notes) == (success is None)
    search.drawings(tmp_path)


@pytest.mark.long
def test_simulated_rows_are_said_to_be_in_figures_too(tmp_path: Path) -> None:
    write(tmp_path, [episode(planner, case, case < 2, engine="simulated", n_nodes=2)
                     for planner in ("mcts", "react") for case in range(4)])  # fmt: skip
    found = search.drawings(tmp_path)
    assert [one.name.split()[0] for one in found] == ["anytime", "frontier"]
    assert all(one.caption.startswith("simulated policy") for one in found)
    assert found == search.drawings(tmp_path), "the same rows, the same bytes"

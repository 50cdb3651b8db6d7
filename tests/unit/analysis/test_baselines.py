"""Rows that need no model: the retriever's first, chance, solvable cases; by hand, whatever planners ran."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from rich.console import Console

from analysis import load
from analysis.load.baselines import BY_FUNCTION, CEILING, CHANCE, CONSTANT, FIRST, SOLVABLE, baselines
from analysis.page.render import FORMATS
from analysis.page.table import Table
from analysis.report import print_report
from grid import store
from tests.unit.analysis.test_tables import NOON, row

Decision = tuple[int, int | None]
"""How many options, and the place of the reference's tool; None: not among them. A step without a tool has -1."""
CASES: dict[int, Sequence[Decision]] = {
    0: [(5, 0), (4, 2), (5, -1)],
    1: [(10, None), (2, 0), (5, -1), (5, -1)],
}


def write(root: Path, planner: str, cases: Mapping[int, Sequence[Decision | None]], **changes: Any) -> None:
    """One cell a case and trial; a substep whose decision is None was not met. `changes` are columns of `episodes`."""
    episodes: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for case, met in cases.items():
        for trial in range(2):
            found = row(planner, case, trial, 0.5) | {"success": bool(trial), "created_at": NOON, "attempt_id": "a"}
            found |= {
                "retriever": "bm25",
                "pool": "all",
                "setting_id": planner,
                "solvable": case == 0,
                "money": 0.0,
            } | changes
            cell = "/".join(str(found[name]) for name in ("cell_id", "robustness", "retriever"))
            episodes.append(found | {"cell_id": cell, "cell_key": cell})
            steps += [
                {
                    "cell_id": cell, "attempt_id": "a", "branch": branch, "step": step, "substep_id": str(step),
                    "tool_required": decision[1] != -1, "n_options": decision[0] + 90 * branch,
                    "reference_rank": None if decision[1] == -1 else decision[1],
                }
                for step, decision in enumerate(met) if decision is not None
                for branch in (0, 1)  # whoever branches decides again, which is no first pass
            ]  # fmt: skip
    store.write(root, {"episodes": episodes, "steps": steps})


def found(root: Path) -> pd.DataFrame:
    return baselines(root, load.episodes(root)).set_index("planner")


def test_by_hand(tmp_path: Path) -> None:
    write(tmp_path, "react", CASES)
    rates = found(tmp_path)
    assert list(rates.index) == [FIRST, CHANCE, CEILING, SOLVABLE]
    assert rates["cases"].to_list() == [2, 2, 2, 2]
    assert rates["tool_match_rate_mean"][FIRST] == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert rates["tool_match_rate_mean"][CHANCE] == pytest.approx(((1 / 5 + 1 / 4) / 2 + (0 + 1 / 2) / 2) / 2)
    assert rates["action_accuracy_mean"][FIRST] == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert rates["action_accuracy_mean"][CHANCE] == pytest.approx(
        ((4 / 5 + 3 / 4 + 1 / 5) / 3 + (9 / 10 + 1 / 2 + 1 / 5 + 1 / 5) / 4) / 2
    )
    assert rates["tool_match_rate_mean"][CEILING] == pytest.approx((1 + 1 / 2) / 2)
    assert rates["action_accuracy_mean"][CEILING] == 1
    assert rates["success_mean"].dropna().to_dict() == {CEILING: 0.5, SOLVABLE: 0.5}


@pytest.mark.long
def test_constant_answers_have_rows_of_their_own(tmp_path: Path) -> None:
    for case, overall in enumerate((False, False, False, True)):
        known = {"constant_success": overall, "constant_by_function_success": case > 1}
        write(tmp_path, "react", {case: []}, solvable=None, **known)
    assert found(tmp_path)["success_mean"].to_dict() == {CONSTANT: 0.25, BY_FUNCTION: 0.5}
    table = results(tmp_path)
    assert [line[1] for line in table.rows] == ["react", CONSTANT, BY_FUNCTION]
    assert "neither reads the question" in table.caption
    asked = duckdb.connect().execute(table.query).df().set_index("planner")["success"]
    assert asked[[CONSTANT, BY_FUNCTION]].to_list() == [0.25, 0.5]


def test_clusters_stand_beside_cases_if_they_are_fewer(tmp_path: Path) -> None:
    write(tmp_path / "one", "react", CASES, cluster="one")
    table = results(tmp_path / "one")
    shown = [dict(zip(table.figures, line[2:], strict=True))["clusters"] for line in table.rows]
    assert shown == ["1", *["–"] * 4]
    write(tmp_path / "two", "react", CASES)
    assert "clusters" not in results(tmp_path / "two").figures


def test_no_planner_matters(tmp_path: Path) -> None:
    """Neither how many there are, nor that one sees the tools of the whole query, nor that one ends early."""
    write(tmp_path / "one", "react", CASES)
    for planner in ("react", "egb", "reflexion"):
        write(tmp_path / "more", planner, CASES)
    write(tmp_path / "more", "baseline_llm", {case: [(50, 7)] * len(met) for case, met in CASES.items()})
    write(tmp_path / "more", "hasty", {case: [met[0], *[None] * (len(met) - 1)] for case, met in CASES.items()})
    pd.testing.assert_frame_equal(found(tmp_path / "one"), found(tmp_path / "more"))


def test_retrievers_and_robustness_settings_have_rows_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "react", {0: [(5, 0)]})
    write(tmp_path, "react", {0: [(5, 1)]}, retriever="dense", setting_id="d")
    write(tmp_path, "react", {0: [(9, 0)]}, robustness="extraneous", setting_id="e")
    rates = baselines(tmp_path, load.episodes(tmp_path)).set_index(["robustness", "planner"])["tool_match_rate_mean"]
    assert rates["none", f"{FIRST} / bm25"] == 1
    assert rates["none", f"{FIRST} / dense"] == 0
    assert rates["extraneous", f"{CHANCE} / bm25"] == pytest.approx(1 / 9)


def test_without_a_followed_outline_there_are_none(tmp_path: Path) -> None:
    write(tmp_path, "react", {0: []}, solvable=None)
    assert found(tmp_path).empty


def results(root: Path) -> Table:
    return next(table for table in print_report(root, Console(file=io.StringIO())) if table.name.startswith("results"))


@pytest.mark.long
def test_the_table_shows_them_under_each_robustness_setting_and_says_what_is_not_defined(tmp_path: Path) -> None:
    write(tmp_path, "react", CASES)
    write(tmp_path, "react", CASES, robustness="extraneous", setting_id="e")
    table = results(tmp_path)
    assert [line[:2] for line in table.rows] == [
        [robustness, label]
        for robustness in ("none", "extraneous")
        for label in ("react", FIRST, CHANCE, CEILING, SOLVABLE)
    ]
    first, solvable = (dict(zip(table.figures, table.rows[place][2:], strict=True)) for place in (1, 4))
    known = {"cases": "2", "tool match": "50.0", "action acc.": "58.3"}
    assert first == {name: known.get(name, "–") for name in table.figures}
    assert solvable == {name: {"cases": "2", "success": "50.0"}.get(name, "–") for name in table.figures}
    assert "solvable" in table.figures
    assert FIRST in table.caption
    frame = FORMATS["csv"](table).splitlines()
    assert any("retriever's first" in line for line in frame)
    assert "2.0" not in [line.split(",")[4] for line in frame], "counts stay whole numbers"
    assert FIRST in FORMATS["tex"](table)


@pytest.mark.long
def test_the_tables_query_gives_them(tmp_path: Path) -> None:
    write(tmp_path, "react", CASES)
    write(tmp_path, "egb", CASES)
    write(tmp_path, "baseline_llm", {case: [(50, 7)] * len(met) for case, met in CASES.items()})
    table = results(tmp_path)
    rows = duckdb.connect().execute(table.query).df()
    means = rows.groupby("planner")[["success", "success_solvable", "tool_match_rate", "action_accuracy"]].mean()
    for label in (FIRST, CHANCE, CEILING):
        for rate in ("tool_match_rate", "action_accuracy"):
            wanted = table.values.set_index("planner")[f"{rate}_mean"][label]
            assert means[rate][label] == pytest.approx(wanted), (label, rate)
    assert means["success"][SOLVABLE] == means["success"][CEILING] == 0.5
    assert means["success_solvable"]["react"] == 0.5

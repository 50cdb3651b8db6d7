"""Cells of which nobody can tell whether they succeeded: left out with bounds beside, or counted as failures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from analysis import load
from analysis.compare.tables import compare
from analysis.load import unknowns
from analysis.report import print_report
from analysis.tables import rates
from grid import store
from grid.core.errors import ConfigError
from launch import power_table
from launch.report import write_page
from tests.unit.store.test_store import episode

CASES, CELLS = 12, 24
OUTAGE = {"status": "failed", "error_kind": "infrastructure"}


def row(planner: str, case: int, trial: int, success: bool | None, **more: Any) -> dict[str, Any]:
    labels: dict[str, Any] = dict.fromkeys(("model", "dataset", "retriever", "dataset_version", "code"), "x")
    labels |= {"pool": "all", "robustness": "none", "config": "{}", "input_tokens": 7, "output_tokens": 7}
    name = f"{planner}-{case}-{trial}"
    known: dict[str, Any] = {"status": "ok"} if success is not None or "status" in more else OUTAGE
    own: dict[str, Any] = {
        "planner": planner,
        "setting_id": planner,
        "case_id": f"c{case}",
        "cluster": f"c{case}",
        "trial": trial,
    }
    counts = {"llm_calls": 100, "cut_answers": 0, "evaluator_failures": 0}
    return episode(name, success=success, **(labels | own | counts | known | more))


def planted(root: Path, **more: Any) -> Path:
    """`lats`: 10 of 24 cells are known and succeeded, an outage had the rest, in truth failures; `react` has 50%."""
    rows = [
        row("lats", case, trial, True if case < 5 else None, **(more if case >= 5 else {}))
        for case in range(CASES)
        for trial in range(2)
    ]
    rows += [row("react", case, trial, case % 2 == 0) for case in range(CASES) for trial in range(2)]
    store.write(root, {"episodes": rows})
    return root


def printed(root: Path, **how: Any) -> tuple[str, Any]:
    text = io.StringIO()
    tables = print_report(root, Console(file=text, width=100), **how)
    return text.getvalue(), {table.name.partition(" ")[0]: table for table in tables}


def of(root: Path, planner: str = "lats", **how: Any) -> dict[Any, Any]:
    found = rates.results(load.episodes(root, **how))
    row: dict[Any, Any] = found[found["planner"] == planner].iloc[0].to_dict()
    return row


def test_left_out_success_has_its_bounds(tmp_path: Path) -> None:
    found = of(planted(tmp_path))
    assert (found["cases"], found["cells"], found["unknown"]) == (CASES, CELLS, 14)
    assert found["success_mean"] == 1.0
    assert (found["success_least"], found["success_most"]) == (pytest.approx(10 / 24), 1.0)


@pytest.mark.long
def test_every_table_of_success_has_bounds(tmp_path: Path) -> None:
    """In its rows, or among its notes with the settings that it shows; where all is known there are none."""
    _, tables = printed(planted(tmp_path))
    of_success = {
        name: table
        for name, table in tables.items()
        if any(str(column).startswith("success") for column in table.values) and "success_least" not in table.values
    }
    assert {"differences", "frontier"} <= set(of_success)
    for table in of_success.values():
        (note,) = (note for note in table.notes if "with unknown success failed, if they all succeeded" in note)
        assert "lats on x [41.7, 100.0] (14 of 24)" in note
        assert "react on" not in note
    known = tmp_path / "known"
    store.write(known, {"episodes": [row("react", case, 0, case % 2 == 0) for case in range(CASES)]})
    assert not any(
        "with unknown success failed, if they all succeeded" in note
        for table in printed(known)[1].values()
        for note in table.notes
    )


def test_as_failures_success_is_the_truth(tmp_path: Path) -> None:
    found = of(planted(tmp_path), unknown="failure")
    assert (found["cells"], found["unknown"]) == (CELLS, 14)
    assert found["success_mean"] == pytest.approx(0.4167, abs=1e-4)
    assert of(tmp_path, "react", unknown="failure")["success_mean"] == of(tmp_path, "react")["success_mean"] == 0.5
    with pytest.raises(ConfigError, match="unknown='half': left_out or failure"):
        load.episodes(tmp_path, unknown="half")  # type: ignore[arg-type]
    assert of(tmp_path)["success_mean"] == 1.0, "the setting ends with the call"


@pytest.mark.long
def test_the_report_has_bounds_and_a_warning_and_its_query_says_the_same(tmp_path: Path) -> None:
    told: tuple[tuple[Any, str, str], ...] = (("left_out", "100.0", "+40.0"), ("failure", "41.7", "-8.3"))
    for how, success, difference in told:
        text, tables = printed(planted(tmp_path), unknown=how)
        (line,) = [line for line in text.splitlines() if line.startswith("warning")]
        assert "x, lats on x: the success of 14 of 24 cells is not known (infrastructure 14)" in line
        assert (
            "Success is 100.0% without these cells, 41.7% if they all failed and 100.0% if they all succeeded" in line
        )
        table = tables["results"]
        cells = {cells[1]: dict(zip(table.figures, cells[2:], strict=True)) for cells in table.rows}
        assert cells["lats"]["success"].startswith(success)
        assert (cells["lats"]["bounds"], cells["lats"]["unknown"]) == ("[41.7, 100.0]", "14")
        assert cells["react"]["bounds"] == "–"
        asked = duckdb.connect().execute(table.query).df().groupby("planner")[["success", "unknown"]].mean()
        assert asked["success"]["lats"] == pytest.approx(float(success) / 100, abs=1e-3)
        assert asked["unknown"]["lats"] == 14
        (compared,) = tables["differences"].rows
        assert compared[4].startswith(difference), "without the unknown cells the worse planner is ahead"
        assert "bounds" in text
        with unknowns.counted(how):
            page = write_page(tmp_path, list(tables.values()), ()).read_text()
        assert "the success of 14 of 24 cells is not known" in page


def test_few_unknown_cells_have_no_bounds_and_no_warning(tmp_path: Path) -> None:
    rows = [row("react", case, 0, None if case == 0 else True) for case in range(50)]
    store.write(tmp_path, {"episodes": rows})
    text, tables = printed(tmp_path)
    assert "bounds" not in tables["results"].figures
    assert "unknown" in tables["results"].figures
    assert "warning" not in text


def test_power_takes_the_setting_and_warns(tmp_path: Path) -> None:
    left_out = power_table.of_folder(planted(tmp_path), {}, ("react", "lats"))
    failure = power_table.of_folder(tmp_path, {}, ("react", "lats"), "failure")
    assert len(left_out.counts.cluster) == 5
    assert len(failure.counts.cluster) == CASES
    assert list(failure.counts.rates) == [0.5, pytest.approx(5 / 12)]
    assert all("of 14 of 24 cells" in line for pilot in (left_out, failure) for line in pilot.warnings)
    assert len(left_out.warnings) == 1


def test_two_runs_are_compared_by_the_setting(tmp_path: Path) -> None:
    planted(tmp_path / "a")
    store.write(
        tmp_path / "b", {"episodes": [row("lats", case, trial, True) for case in range(12) for trial in range(2)]}
    )
    told: tuple[tuple[Any, Any], ...] = (("left_out", 0.0), ("failure", pytest.approx(1 - 10 / 24)))
    for how, difference in told:
        found = compare(tmp_path / "a", tmp_path / "b", how)
        table = found.tables[0].values
        assert table[table["planner"] == "lats"]["difference"].tolist() == [difference]
        assert sum("A: warning: x, lats on x: the success of 14 of 24" in line for line in found.lines) == 1


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"status": "ok", "evaluator_failures": 1}, "verdict that could not be read 14"),
        ({"status": "ok", "judge_failures": 2}, "verdict that could not be read 14"),
        ({"status": "ok"}, "not judged 14"),
        ({"status": "failed", "error_kind": "tool"}, "tool 14"),
    ],
)
def test_a_warning_says_why(tmp_path: Path, more: dict[str, Any], kind: str) -> None:
    (line,) = unknowns.warnings(load.episodes(planted(tmp_path, **more)))
    assert f"({kind})" in line
    assert of(tmp_path, unknown="failure")["success_mean"] == pytest.approx(10 / 24)


@pytest.mark.long
def test_a_setting_without_a_success_has_none_to_fail(tmp_path: Path) -> None:
    """No scorer says which plans are right: an outage of one cell makes no 0% of that."""
    rows = [row("react", case, 0, None, **({"status": "ok"} if case else OUTAGE)) for case in range(CASES)]
    store.write(tmp_path, {"episodes": rows})
    assert unknowns.warnings(load.episodes(tmp_path)) == []
    assert str(of(tmp_path, "react", unknown="failure")["success_mean"]) == "nan"
    with unknowns.counted("failure"):
        _, tables = printed(tmp_path)
        asked = duckdb.connect().execute(tables["results"].query).df()
    assert asked["success"].isna().all()


def test_where_all_is_lost_all_is_open(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [row("react", case, 0, None) for case in range(CASES)]})
    (line,) = unknowns.warnings(load.episodes(tmp_path))
    assert "Success is none without these cells, 0.0% if they all failed and 100.0% if they all succeeded" in line
    assert of(tmp_path, "react", unknown="failure")["success_mean"] == 0.0


@pytest.mark.long
@pytest.mark.parametrize(("cut", "shown"), [(2, True), (1, False), (0, False)])
def test_a_share_of_cut_answers_above_one_percent_is_a_column(tmp_path: Path, cut: int, shown: bool) -> None:
    rows = [row("react", case, 0, True, cut_answers=cut) for case in range(CASES)]
    store.write(tmp_path, {"episodes": rows})
    text, tables = printed(tmp_path)
    table = tables["results"]
    assert ("cut" in table.figures) == shown == (" cut " in text)
    if shown:
        assert dict(zip(table.figures, table.rows[0][2:], strict=True))["cut"] == "2.0"
    asked = duckdb.connect().execute(table.query).df()
    assert asked["cut"].tolist() == [pytest.approx(cut / 100)]


@pytest.mark.long
def test_a_share_of_unreadable_answers_above_one_percent_is_a_column(tmp_path: Path) -> None:
    """Where any row has it, it is a column of all rows; below half there is no warning."""
    steps = [
        {"cell_id": f"{planner}-0-0", "attempt_id": "first", "branch": 0, "step": place, "substep_id": str(place)}
        | {"chosen_tool": None if planner == "react" and place < 3 else "t"}
        for planner in ("react", "tot")
        for place in range(100)
    ]
    rows = [row(planner, 0, 0, True, n_steps=100) for planner in ("react", "tot")]
    store.write(tmp_path, {"episodes": rows, "steps": steps})
    text, tables = printed(tmp_path)
    table = tables["results"]
    found = {cells[1]: dict(zip(table.figures, cells[2:], strict=True)) for cells in table.rows}
    assert (found["react"]["unreadable"], found["tot"]["unreadable"]) == ("3.0", "0.0")
    assert "warning" not in text
    assert "unreadable: share of the acting model's answers that could not be read" in " ".join(text.split())
    assert "unreadable" in write_page(tmp_path, list(tables.values()), ()).read_text()


@pytest.mark.long
def test_a_terminal_of_100_columns_shows_all_of_it(tmp_path: Path) -> None:
    """The results are there also where every column that warns is."""
    more = {"cut_answers": 50, "money": 0.123456}
    rows = [row("egb_logits", case, 0, True if case else None, **(more if case else {})) for case in range(CASES)]
    steps = [
        {"cell_id": f"egb_logits-{case}-0", "attempt_id": "first", "branch": 0, "step": 0, "substep_id": "0"}
        for case in range(1, CASES)
    ]
    store.write(
        tmp_path, {"episodes": [one | {"n_steps": int(one["success"] is True)} for one in rows], "steps": steps}
    )
    text, _ = printed(tmp_path)
    header = next(line for line in text.splitlines() if "planner" in line and "success" in line)
    assert all(name in header for name in ("unreadable", "cut", "unknown", "success", "bounds", "95% interval"))
    assert "too wide to be printed" not in text

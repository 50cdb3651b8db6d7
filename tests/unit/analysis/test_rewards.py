"""Rewards, how runs ended, parts met, and a success that nobody can tell, as a report shows them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from analysis.errors import AnalysisError
from analysis.load.baselines import NOTHING, TRANSFER
from analysis.page.table import Table
from analysis.report import print_report
from analysis.tables import rewards
from grid import store
from launch.report import write_page
from tests.support import searched

CELLS: list[dict[str, Any]] = [
    {"success": True, "reward": 1.0, "reward_parts": '{"DB": 1.0, "NL_ASSERTION": 1.0}', "success_db": True},
    {"success": False, "reward": 0.0, "reward_parts": '{"DB": 0.0}', "success_db": False, "termination": "unfinished"},
    {"success": None, "reward": None, "reward_parts": '{"DB": 1.0, "NL_ASSERTION": null}', "success_db": True},
    {"success": False, "reward": 0.0, "reward_parts": '{"DB": 1.0}', "success_db": True, "termination": None},
]


def written(root: Path, cells: list[dict[str, Any]]) -> dict[str, Table]:
    store.write(root, {"episodes": [rewarded(case, **cell) for case, cell in enumerate(cells)]})
    return {table.name.partition(" tiny")[0]: table for table in print_report(root, Console(file=io.StringIO()))}


def rewarded(case: int, success: bool | None, **columns: Any) -> dict[str, Any]:
    return searched.episode("react", case, success, **{"cluster": f"c{case}", "termination": "agent_stop"} | columns)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """The tables of CELLS."""
    return written(tmp_path_factory.mktemp("rewards"), CELLS)


@pytest.mark.long
def test_means_leave_out_what_nobody_can_tell_and_say_so(tables: dict[str, Table]) -> None:
    row = tables["rewards"].values.iloc[0]
    assert (row["reward"], row["reward_cases"], row["unknown"]) == (pytest.approx(1 / 3), 3, 1)
    assert row["success_db"] == 0.75
    assert (row["end_agent_stop"], row["end_unfinished"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert list(tables["rewards"].figures[:3]) == ["cases", "cells", "no reward"]
    assert list(tables["rewards"].rows[0][2:5]) == ["4", "4", "1"]
    asked = duckdb.connect().execute(tables["rewards"].query).df()
    assert asked[["reward", "success_db", "end_unfinished"]].mean().to_list() == pytest.approx([1 / 3, 0.75, 1 / 3])


def test_parts_have_the_cases_whose_basis_they_are_in(tables: dict[str, Table]) -> None:
    table = tables["reward parts"]
    assert [[*row[2:5], row[5].split()[0]] for row in table.rows] == [["DB", "4", "4", "75.0"],
                                                                     ["NL_ASSERTION", "2", "1", "100.0"]]  # fmt: skip
    asked = duckdb.connect().execute(table.query).df().groupby("part")["met"].mean()
    assert asked.to_dict() == {"DB": 0.75, "NL_ASSERTION": 1.0}


@pytest.mark.parametrize("text", ["{", "[1]", '{"DB": 2}', '{"DB": true}', '{"DB": "1"}', "[" * 99_999])
def test_parts_that_cannot_be_read_are_refused_by_cell(tmp_path: Path, text: str) -> None:
    store.write(tmp_path, {"episodes": [rewarded(0, **CELLS[0] | {"reward_parts": text})]})
    with pytest.raises(AnalysisError, match=r"reward_parts of cell react/"):
        rewards.tables(tmp_path)


def test_parts_that_cannot_be_read_end_the_report(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"reward_parts of cell react/"):
        written(tmp_path, [CELLS[0] | {"reward_parts": "{"}])


@pytest.mark.long
@pytest.mark.parametrize("known", [0, 4])
def test_a_report_bears_a_success_that_nobody_can_tell(tmp_path: Path, known: int) -> None:
    """Two planners and two trials, all or half of the cases unknown: every table is made, and the page."""
    cells = [
        rewarded(case, case % 2 == 0 if case < known else None, trial=trial, behaviour="retry")
        | {"planner": planner, "robustness": robustness}
        for planner in ("react", "sh", "fh")
        for robustness in ("none", "broken_tool")
        for case in range(8)
        for trial in range(2)
    ]
    for cell in cells:
        cell["cell_id"] = cell["cell_key"] = f"{cell['planner']}/{cell['robustness']}/{cell['case_id']}/{cell['trial']}"
        cell["setting_id"] = f"{cell['planner']}/{cell['robustness']}"
    store.write(tmp_path, {"episodes": cells})
    tables = {table.name: table for table in print_report(tmp_path, Console(file=io.StringIO()))}
    results = tables["results tiny slate"]
    place = results.figures.index("unknown") + 2
    assert {row[place] for row in results.rows} == {str(2 * (8 - known))}
    assert {row[place + 1] for row in results.rows} == {"50.0" if known else "none"}
    assert "unknown: cells whose success is not known" in results.caption
    asked = duckdb.connect().execute(results.query).df()
    assert set(asked["unknown"]) == {2 * (8 - known)}
    assert ("pass^k tiny slate" in tables) == bool(known)
    disturbed = tables["disturbances tiny slate"]
    assert {(row[2], row[4]) for row in disturbed.rows} == {(str(known), "50.0" if known else "–")}
    assert "cells whose success is not known" in write_page(tmp_path, list(tables.values())).read_text(encoding="utf-8")


@pytest.mark.long
def test_doing_nothing_and_transferring_stand_beside_as_rates_of_cases(tmp_path: Path) -> None:
    cells = [cell | {"nothing_success": case == 0, "transfer_success": case < 2} for case, cell in enumerate(CELLS)]
    cells[3] |= {"nothing_success": None, "transfer_success": None}
    table = written(tmp_path, cells)["results"]
    rates = {row[1]: (row[2], row[6]) for row in table.rows if row[1] != "react"}
    assert rates == {NOTHING: ("3", "33.3"), TRANSFER: ("3", "66.7")}
    assert "neither asks a model" in table.caption
    asked = duckdb.connect().execute(table.query).df().set_index("planner")["success"]
    assert asked[[NOTHING, TRANSFER]].to_list() == pytest.approx([1 / 3, 2 / 3])

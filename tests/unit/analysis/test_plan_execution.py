"""The table of executed plans finds what was planted in rows that no planner made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.tables import plan_cells, plans
from tests.support.plan_rows import episode, flips, write

COUNT = 60
TAXONOMY = "self[taxonomy=true]"


def ran(dataset: str, won: dict[str, list[bool]], drafts: list[str], **keys: Any) -> list[dict[str, Any]]:
    """Cells of the three modes; every draft of plan-first is `d`."""
    rows = []
    for case in range(COUNT):
        own: dict[str, Any] = {"dataset": dataset, **keys}
        rows.append(episode("direct", None, case, success=won["direct"][case], **own))
        rows.append(episode("plan_first", None, case, success=won["plan"][case], draft="d", **own))
        judged = {"unrefined_correct": case % 2 == 0, "plan_correct": True, "unrefined_grade": 0.6, "plan_grade": 1.0}
        own |= {"refine": TAXONOMY, "draft": drafts[case], **judged}
        rows.append(episode("plan_first", None, case, success=won["refine"][case], **own))
    return rows


def won() -> dict[str, list[bool]]:
    base = flips(1, COUNT, 0.5)
    return {"direct": base, "plan": [False] * COUNT, "refine": base}


def test_rewards_paired_differences_and_drafts_are_those_planted(tmp_path: Path) -> None:
    drafts = ["d"] * 45 + ["e"] * 15
    write(tmp_path, ran("slate", won(), drafts))
    (table,) = plan_cells.execution_tables(tmp_path)
    (row,) = table.values.to_dict("records")
    assert (row["direct"], row["plan_first"], row["refined"]) == (0.5, 0.0, 0.5)
    assert (row["plan_gain"], row["refine_gain"]) == (-0.5, 0.5)
    assert row["refine_gain_low"] > 0 > row["plan_gain_high"]
    assert row["same_draft"] == 0.75
    assert (row["unrefined_correct"], row["plan_correct"]) == (0.5, 1.0)
    assert (row["unrefined_grade"], row["plan_grade"]) == (pytest.approx(0.6), 1.0)
    assert (row["cases"], row["clusters"], row["method"]) == (COUNT, COUNT, "Self_R+")
    assert "planning first lowers the reward" in table.reading
    assert "refining the plan raises the reward" in table.reading


def test_data_sets_stand_apart_and_together(tmp_path: Path) -> None:
    lost = dict.fromkeys(("direct", "plan", "refine"), [False] * COUNT)
    write(tmp_path, [*ran("slate", won(), ["d"] * COUNT), *ran("workbench", lost, ["d"] * COUNT)])
    (table,) = plan_cells.execution_tables(tmp_path)
    found = {row["dataset"]: row for row in table.values.to_dict("records")}
    assert {name: row["direct"] for name, row in found.items()} == {
        "slate": 0.5, "workbench": 0.0, plan_cells.ALL_DATA: 0.25
    }  # fmt: skip
    assert found[plan_cells.ALL_DATA]["cases"] == found[plan_cells.ALL_DATA]["clusters"] == 2 * COUNT


def test_a_difference_is_over_the_cases_that_both_modes_have(tmp_path: Path) -> None:
    rows = [episode("direct", None, case, success=case < 10, dataset="slate") for case in range(20)]
    rows += [episode("plan_first", None, case, success=True, dataset="slate") for case in range(10)]
    write(tmp_path, rows)
    (table,) = plan_cells.execution_tables(tmp_path)
    (row,) = table.values.to_dict("records")
    assert (row["direct"], row["plan_first"], row["plan_gain"], row["plan_gain_cases"]) == (0.5, 1.0, 0.0, 10)
    assert "refine" not in table.figures


def test_changed_keys_are_held_against_the_same(tmp_path: Path) -> None:
    rows = []
    for keys, share in (("[temperature=1.0]", 1), ("", 0)):
        for case in range(12):
            rows.append(episode(f"direct{keys}", None, case, success=False, dataset="slate"))
            rows.append(episode(f"plan_first{keys}", None, case, success=bool(share), dataset="slate"))
    write(tmp_path, rows)
    (table,) = plan_cells.execution_tables(tmp_path)
    assert {row["base"]: row["plan_gain"] for row in table.values.to_dict("records")} == {"[temperature=1.0]": 1, "": 0}


def test_what_is_not_executed_has_no_such_table(tmp_path: Path) -> None:
    write(tmp_path, [episode(name, "holistic", 1, success=True) for name in ("direct", "plan_first")])
    assert plan_cells.execution_tables(tmp_path) == []


def test_one_mode_alone_has_no_table(tmp_path: Path) -> None:
    write(tmp_path, [episode("direct", None, case, success=True, dataset="slate") for case in range(3)])
    assert plan_cells.execution_tables(tmp_path) == []


def test_the_query_gives_the_means_of_the_cases(tmp_path: Path) -> None:
    write(tmp_path, ran("slate", won(), ["d"] * COUNT))
    (table,) = plans.tables(tmp_path)
    found = duckdb.execute(table.query).df()
    assert found[["direct", "plan_first", "refined"]].mean().to_list() == [0.5, 0.0, 0.5]

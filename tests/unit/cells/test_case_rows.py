"""Rows of cases: what was asked for and is held against, once, whoever ran it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from grid import store
from grid.cells.rows import ChunkResult
from grid.cells.run import Stamp, run_chunk
from grid.core.types import to_json
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of


def taken(known: set[str], trials: int = 2, **groups: Any) -> dict[str, list[dict[str, Any]]]:
    setting = setting_of({"limit": 3}, dataset="slate", **groups)
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), trials))
    result = ChunkResult(sections=known)
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None), result=result)).take()


def test_a_case_is_one_row_that_all_of_its_cells_name(tmp_path: Path) -> None:
    known: set[str] = set()
    found = [taken(known, planner=planner) for planner in ("react", "zero_shot")]
    assert [len(rows["cases"]) for rows in found] == [3, 0]
    for rows in found:
        store.write(tmp_path, rows)
    cases = {row["digest"]: row for row in store.read(tmp_path, "cases").to_pylist()}
    episodes = store.read(tmp_path, "episodes", ["case_id", "case_digest"]).to_pylist()
    assert len(episodes) == 12
    assert all(cases[row["case_digest"]]["case_id"] == row["case_id"] for row in episodes)


def test_it_has_the_references_calls_beside_the_outline() -> None:
    setting = setting_of({"limit": 2}, dataset="slate")
    built = build(setting, BudgetConfig())
    rows = {row["case_id"]: row for row in taken(set())["cases"]}
    for case_id in built.dataset.case_ids()[:2]:
        problem, row = built.problem(case_id, 0), rows[case_id]
        assert row["query"] == problem.case.query
        assert [part["text"] for part in row["outline"]] == [part.text for part in problem.case.plan.substeps]
        assert [call["tool"] for call in row["calls"]] == [
            call.tool if call else None for call in problem.reference.calls.values()
        ]
        assert [call["arguments"] for call in row["calls"] if call["tool"]] == [
            to_json(dict(call.arguments)) for call in problem.reference.calls.values() if call
        ]


def test_a_disturbed_case_is_another() -> None:
    plain, disturbed = (taken(set(), robustness=one)["cases"] for one in ("none", "inaccurate_plan"))
    assert {row["query"] for row in plain} == {row["query"] for row in disturbed}
    changed = [one["outline"] != other["outline"] for one, other in zip(plain, disturbed, strict=True)]
    assert any(changed)
    assert [one["digest"] != other["digest"] for one, other in zip(plain, disturbed, strict=True)] == changed
    assert [row["calls"] for row in plain] == [row["calls"] for row in disturbed]

"""Cases that end, block or outgrow their worker, and folders and clusters that change: each cell still has its row."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cells.deadline import Limits
from grid.cluster import batch
from grid.cluster.fleet import Fleet
from grid.core.errors import UnfinishedError
from grid.settings.check import check_sweep
from grid.settings.plan import Plan
from tests.support.configs import job
from tests.support.deadly import DEADLY, GO, blocking, deadly, waiting


def plan_of(root: Path, cases: int = 8, **limits: Any) -> Plan:
    (root / "test").mkdir(exist_ok=True)
    return check_sweep([job(root, dataset__limit=cases, cluster={"kind": "local"} | limits)]).plan


def run(plan: Plan) -> list[batch.Report]:
    reports: list[batch.Report] = []
    with Fleet(plan.settings, 1, 600, print) as fleet:
        batch.Run(plan, plan.finished(), reports.append, fleet).go()
    assert [one.error for one in reports if one.error] == []
    return reports


def rows(plan: Plan) -> dict[str, dict[str, Any]]:
    found = store.read(plan.root, "episodes", wide=True).to_pylist()
    assert len({row["cell_id"] for row in found}) == len(found)
    return {row["case_id"]: row for row in found}


def test_a_case_that_kills_its_worker_is_a_row_and_its_mates_survive(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", deadly)
    plan = plan_of(tmp_path, cases=4)
    reports = run(plan)
    found = rows(plan)
    assert len(found) == 4
    assert DEADLY in found
    assert {case for case, row in found.items() if row["status"] == "failed"} == {DEADLY}
    assert found[DEADLY]["error_kind"] == "infrastructure"
    assert "ended 3 times while it ran only this case" in found[DEADLY]["error_message"]
    assert (sum(one.cells for one in reports), sum(one.failed for one in reports)) == (4, 1)
    attempts = store.read(plan.root, "attempts").to_pylist()
    died = [row for row in attempts if row["status"] == "died"]
    assert sorted((row["cells"] for row in died), reverse=True) == [4, 2, 1, 1, 1]
    assert sorted(one.seconds for one in reports if not one.cells) == sorted(row["seconds"] for row in died)
    assert len(plan_of(tmp_path, cases=4).finished()) == 4
    monkeypatch.undo()
    again = check_sweep([job(tmp_path, dataset__limit=4, retry_failed=True)]).plan
    run(again)
    assert {row["status"] for row in rows(again).values()} == {"ok"}


def test_a_row_made_by_a_clock_that_was_ahead_is_replaced_all_the_same(cluster: None, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, cases=2)
    run(plan)
    ahead = store.read(plan.root, "episodes", wide=True).to_pylist()[0]
    ahead |= {"status": "failed", "error_kind": "infrastructure", "attempt_id": "ahead"}
    ahead["created_at"] += dt.timedelta(days=400)
    store.write(plan.root, {"episodes": [ahead]})
    assert rows(plan)[ahead["case_id"]]["status"] == "failed"
    run(check_sweep([job(tmp_path, dataset__limit=2, retry_failed=True)]).plan)
    assert {row["status"] for row in rows(plan).values()} == {"ok"}


def test_a_case_that_hangs_is_ended_as_a_timeout(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", blocking)
    monkeypatch.setattr(batch, "Limits", partial(Limits, grace_seconds=0.0))
    plan = plan_of(tmp_path, cases=4, case_seconds=2.0)
    run(plan)
    found = rows(plan)
    assert len(found) == 4
    assert {case: row["error_kind"] for case, row in found.items() if row["error_kind"]} == {DEADLY: "timeout"}


def test_a_worker_that_grows_too_large_is_ended(cluster: None, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, cases=1, worker_memory_gib=0.01)
    run(plan)
    (row,) = rows(plan).values()
    assert row["error_kind"] == "infrastructure"


def test_a_folder_that_takes_no_more_ends_the_run_with_a_message(cluster: None, tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    (plan.root / "steps").write_text("no folder")
    with pytest.raises(UnfinishedError, match="cannot be written to"):
        run(plan)
    (plan.root / "steps").unlink()
    run(plan)
    assert len(rows(plan)) == 8


def test_chunks_in_flight_follow_the_cpus_of_the_cluster(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus, seen = [1], list[int]()

    def tick() -> None:
        if not (plan.root / GO).exists():
            seen.append(one.cells_in_flight.total())
        cpus[0] = 3
        if seen[-1] == 6 or len(seen) == 50:
            (plan.root / GO).touch()

    monkeypatch.setattr(batch, "cpus", lambda: cpus[0])
    monkeypatch.setattr(batch, "solve_chunk", waiting)
    monkeypatch.setattr(batch, "_TICK_SECONDS", 0.2)
    plan = plan_of(tmp_path, chunk_cells=1)
    with Fleet(plan.settings, 1, 600, print) as fleet:
        one = batch.Run(plan, plan.finished(), lambda report: None, fleet, tick)
        one.go()
    assert (seen[0], seen[-1]) == (2, 6)
    assert len(rows(plan)) == 8

"""Whatever is killed, and whenever: no row is lost, doubled or otherwise than an undisturbed sweep's."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.errors import UnfinishedError
from grid.replicas.fleet import Fleet
from grid.sweep import batch
from grid.sweep.check import check_sweep
from grid.sweep.cluster import connect, disconnect
from grid.sweep.config import ClusterConfig
from grid.sweep.limits import Limits
from grid.sweep.plan import Plan
from launch.benchmarks.chaos import UNDISTURBED, chaos
from launch.benchmarks.victims import DRIVER, KINDS, NODE, RAYLET, REPLICA, WORKER
from tests.configs import job
from tests.deadly import DEADLY, GO, blocking, deadly, waiting

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kills", "kinds"), [(3, (DRIVER, RAYLET, WORKER)), pytest.param(30, KINDS, marks=pytest.mark.slow)]
)
def test_a_sweep_survives_kills_at_random_moments(tmp_path: Path, kills: int, kinds: Sequence[str]) -> None:
    log = chaos(tmp_path, kills, 0, ["planner=react", "dataset.limit=60", "trials=4"], print, kinds=kinds)
    assert log.wrong() == []
    assert log.failed == 0
    assert sum(log.kills.values()) == kills
    assert set(log.kills) == {DRIVER, RAYLET, WORKER}
    spent, counted = log.tokens[UNDISTURBED]
    assert spent == counted > 0


@pytest.mark.slow
def test_a_sweep_survives_killed_replicas(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.models import make_model

    # One request at a time, so that a draw does not hang on what else is in the batch.
    model = ["model=local", f"model.path={make_model(tmp_path, context=16384)}", "model.serving.max_batch=1"]
    model += ["model.max_tokens=48", "cluster.replicas=2", "cluster.chunk_cells=4"]
    cases = ["planner=react", "dataset.limit=4", "dataset.max_substeps=8", "retriever.top_k=4", "trials=2"]
    log = chaos(tmp_path, 20, 0, [*model, *cases], print)
    assert log.wrong() == []
    assert {REPLICA, WORKER} <= set(log.kills)


@pytest.mark.parametrize(
    ("kills", "kinds"), [(3, (DRIVER, NODE, WORKER)), pytest.param(30, KINDS, marks=pytest.mark.slow)]
)
def test_a_sweep_survives_nodes_that_die_and_join(tmp_path: Path, kills: int, kinds: Sequence[str]) -> None:
    log = chaos(tmp_path, kills, 0, ["planner=react", "dataset.limit=100", "trials=4"], print, nodes=2, kinds=kinds)
    assert log.wrong() == []
    assert set(log.kills) == {DRIVER, NODE, WORKER}
    assert log.failed == 0, "a node's death ends no driver"
    assert log.used > 0, "chunks run on a node that joined"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    connect(ClusterConfig(kind="local", cpus=2, dashboard=False))
    yield
    disconnect()


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
    found = store.read(plan.root, "episodes").to_pylist()
    assert len({row["cell_id"] for row in found}) == len(found)
    return {row["case_id"]: row for row in found}


def test_a_case_that_kills_its_worker_is_a_row_and_its_mates_survive(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", deadly)
    plan = plan_of(tmp_path)
    reports = run(plan)
    found = rows(plan)
    assert len(found) == 8
    assert DEADLY in found
    assert {case for case, row in found.items() if row["status"] == "failed"} == {DEADLY}
    assert found[DEADLY]["error_kind"] == "infrastructure"
    assert "ended 3 times while it ran alone" in found[DEADLY]["error_message"]
    assert (sum(one.cells for one in reports), sum(one.failed for one in reports)) == (8, 1)
    attempts = store.read(plan.root, "attempts").to_pylist()
    died = [row for row in attempts if row["status"] == "died"]
    assert sorted((row["cells"] for row in died), reverse=True) == [8, 4, 2, 1, 1, 1]
    assert sorted(one.seconds for one in reports if not one.cells) == sorted(row["seconds"] for row in died)
    assert len(plan_of(tmp_path).finished()) == 8
    monkeypatch.undo()
    again = check_sweep([job(tmp_path, dataset__limit=8, retry_failed=True)]).plan
    run(again)
    assert {row["status"] for row in rows(again).values()} == {"ok"}


def test_a_row_made_by_a_clock_that_was_ahead_is_replaced_all_the_same(cluster: None, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, cases=2)
    run(plan)
    ahead = store.read(plan.root, "episodes").to_pylist()[0]
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


@pytest.mark.parametrize("times", [1, 2])
def test_interrupts(tmp_path: Path, times: int) -> None:
    command = [sys.executable, "launch/sweep.py", "-m", f"store.root={tmp_path}", "name=x", "robustness=none"]
    command += ["model=lexical", "planner=react", "dataset.limit=50", "trials=60", "cluster.dashboard=false"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        while not list((tmp_path / "x" / "episodes").glob("*.parquet")):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        said = ""
        while "interrupted" not in said:
            said += process.stdout.readline()
        if times == 2:
            process.send_signal(signal.SIGINT)
        said += process.stdout.read()
        assert process.wait(300) == 1
    assert "interrupted: no further cells are begun" in said
    assert ("stopped: what is written stays" in said) == (times == 2)
    if times == 1:
        assert "cells are missing: run again with the same name" in said
        assert 0 < store.read(tmp_path / "x", "episodes").num_rows < 3000
    store.check(tmp_path / "x")
    with store.locked(tmp_path / "x"):
        pass

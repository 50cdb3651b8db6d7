"""What workers do while they run: rows as cells end, a stop that is heard, a worker that stands still, requests."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cells.deadline import CaseTime
from grid.cells.deadline import run as run_timed
from grid.cluster import batch
from grid.cluster.client import NAMESPACE, PooledEngine
from grid.cluster.fleet import Fleet
from grid.cluster.worker import Report
from grid.core.engine import Prompt, Sampled, Section, TextAnswer
from grid.core.errors import UnfinishedError
from grid.core.types import Usage
from grid.engines.null import Null
from grid.settings.check import check_sweep
from grid.settings.plan import Plan
from grid.settings.setting import Keep
from tests.support.clusters import wait_for
from tests.support.configs import job
from tests.support.deadly import (
    BEGUN,
    DEADLY,
    GO,
    STOPPED,
    dying_once,
    hopeless,
    lasting,
    sleeping,
    stopping_early,
    stopping_once,
)
from tests.support.slow import Slow

REST = Keep().rest()
PROMPT = Prompt((Section("task", ("buy",)),), TextAnswer())


def plan_of(root: Path, cases: int, **limits: Any) -> Plan:
    return check_sweep([job(root, dataset__limit=cases, cluster={"kind": "local"} | limits)]).plan


def go(plan: Plan, tick: Any = None) -> list[Report]:
    reports: list[Report] = []
    with Fleet(plan.settings, 1, 600, print) as fleet:
        run: batch.Run = batch.Run(plan, plan.finished(), reports.append, fleet, tick and (lambda: tick(run)))
        run.go()
    return reports


def rows(plan: Plan) -> dict[str, dict[str, Any]]:
    return {row["case_id"]: row for row in store.read(plan.root, "episodes", wide=True).to_pylist()}


def spent(found: Sequence[dict[str, Any]]) -> list[int]:
    return [sum(row[name] for row in found) for name in asdict(Usage())]


def attempts(plan: Plan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.read(plan.root, "attempts").to_pylist()
    return found


def test_rows_are_there_before_a_chunk_ends_and_only_the_other_cells_run_again(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", dying_once)
    plan = plan_of(tmp_path, cases=8)
    reports = go(plan)
    assert {row["status"] for row in rows(plan).values()} == {"ok"}
    died, *others = sorted(attempts(plan), key=lambda row: row["status"])
    assert (died["status"], died["cells"], died["ok"], died["failed"]) == ("died", 8, 7, 0)
    assert [(row["status"], row["cells"]) for row in others] == [("ended", 1)]
    assert sum(report.cells for report in reports) == 8
    assert spent(attempts(plan)) == spent(list(rows(plan).values())), "what died had spent nothing that is not written"
    assert not (plan.root / ".run").exists()
    asked = [store.transcript(plan.root, row["cell_id"]) for row in rows(plan).values()]
    assert all(asked), "each request once, whoever wrote it"
    assert not any(request is None or None in request.sections for requests in asked for request in requests)
    assert store.read(plan.root, "messages").num_rows == sum(map(len, asked))


def test_once_transcripts_have_no_room_only_a_sample_of_later_cells_is_kept(cluster: None, tmp_path: Path) -> None:
    plan = replace(plan_of(tmp_path, cases=40, chunk_cells=4, chunks_in_flight=1), keep=Keep(), transcripts_bytes=1)
    with Fleet(plan.settings, 1, 600, print) as fleet:
        run = batch.Run(plan, plan.finished(), lambda report: None, fleet)
        run.go()
    assert run.room.since is not None
    assert run.room.since[1] == 4, "the first chunk's"
    first = [cell.cell_id for cell in plan.cells_of(plan.settings[0])][:4]
    found = rows(plan).values()
    kept = [row["cell_id"] for row in found if row["n_messages"] is not None]
    assert sorted(kept) == sorted(row["cell_id"] for row in found if row["cell_id"] in first or REST.keeps(row))
    assert 4 <= len(kept) < len(found) == 40


def test_a_worker_told_to_stop_begins_no_further_cell(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", lasting)
    monkeypatch.setattr(batch, "_TICK_SECONDS", 0.2)
    plan = plan_of(tmp_path, cases=40, chunk_cells=40)
    told: list[float] = []

    def tick(run: batch.Run) -> None:
        if told:
            heard = time.monotonic() - told[0] > 5  # many times as long as workers take to look
            if heard:
                (plan.root / GO).touch()
        elif len(list((plan.root / BEGUN).glob("*"))) == 16:
            run.stop()
            told.append(time.monotonic())

    reports = go(plan, tick)
    assert sum(report.cells for report in reports) == 16
    begun = {path.name for path in (plan.root / BEGUN).iterdir()}
    assert rows(plan).keys() == begun, "those in flight are finished"
    assert len(begun) == 16
    assert [row["cells"] for row in attempts(plan)] == [16]
    go(plan)
    assert len(rows(plan)) == 40, "an earlier run's stop stops no other"


def test_a_worker_that_stands_still_is_ended_and_its_cells_run_again(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", stopping_once)
    monkeypatch.setattr(batch, "_SILENT_SECONDS", 4.0)
    monkeypatch.setattr(batch, "_TICK_SECONDS", 0.5)
    plan = plan_of(tmp_path, cases=6)
    go(plan)
    found = rows(plan)
    assert len(found) == 6
    assert {row["status"] for row in found.values()} == {"ok"}
    assert "died" in {row["status"] for row in attempts(plan)}
    assert spent(attempts(plan)) >= spent(list(found.values()))


def test_a_worker_that_stood_still_before_it_began_holds_up_nothing(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", stopping_early)
    monkeypatch.setattr(batch, "_SILENT_SECONDS", 4.0)
    monkeypatch.setattr(batch, "_TICK_SECONDS", 0.5)
    plan = plan_of(tmp_path, cases=6, chunk_cells=1)
    try:
        go(plan)
    finally:
        os.kill(int((plan.root / STOPPED).read_text()), signal.SIGKILL)
    assert {row["status"] for row in rows(plan).values()} == {"ok"}
    assert len(rows(plan)) == 6


def test_a_case_that_waits_for_ever_is_a_timeout_and_its_mates_are_not(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", sleeping)
    plan = plan_of(tmp_path, cases=4, case_seconds=2.0)
    go(plan)
    found = rows(plan)
    assert {case: row["error_kind"] for case, row in found.items() if row["error_kind"]} == {DEADLY: "timeout"}
    assert "2 s of its own time (cluster.case_seconds)" in found[DEADLY]["error_message"]
    assert (found[DEADLY]["success"], len(found)) == (False, 4)


@pytest.fixture
def slow(cluster: None) -> Iterator[dict[str, Any]]:
    import ray

    names = ["slow-0", "slow-1"]
    actors = {name: ray.remote(num_cpus=0)(Slow).options(name=name, namespace=NAMESPACE).remote() for name in names}
    ray.get([actor.told.remote() for actor in actors.values()])
    yield actors
    for actor in actors.values():
        ray.kill(actor)


async def ask(engine: PooledEngine) -> Sampled:
    return await engine.sample(PROMPT, n=1, temperature=0.0, max_tokens=1, seed=0)


def told(actors: dict[str, Any]) -> tuple[int, int]:
    import ray

    began, cancelled = zip(*ray.get([actor.told.remote() for actor in actors.values()]), strict=True)
    return sum(began), sum(cancelled)


@pytest.mark.parametrize("expires", [True, False])
def test_what_nobody_waits_for_any_more_is_cancelled_at_the_replica(slow: dict[str, Any], expires: bool) -> None:
    async def case() -> None:
        one = CaseTime("a", 600)
        asked = asyncio.create_task(one.counted(one.limited(ask(PooledEngine(Null(), slow, "a")))))
        while told(slow)[0] == 0:
            await asyncio.sleep(0.05)
        if expires:
            one.used = 601
            with one.asking():  # the next answer, at which it is noticed
                pass
        else:
            asked.cancel()
        with pytest.raises(TimeoutError if expires else asyncio.CancelledError):
            await asked

    run_timed(case())
    wait_for(lambda: told(slow) == (1, 1))


def test_a_pool_without_a_replica_ends_the_run_and_one_with_a_replica_does_not(slow: dict[str, Any]) -> None:
    import ray

    async def case() -> None:
        asked = asyncio.create_task(ask(PooledEngine(Null(), slow, "a")))
        first = None
        while first is None:
            await asyncio.sleep(0.05)
            first = next((name for name, actor in slow.items() if ray.get(actor.told.remote())[0]), None)
        ray.kill(slow[first])
        (other,) = slow.keys() - {first}
        while ray.get(slow[other].told.remote())[0] == 0:
            await asyncio.sleep(0.05)
        ray.kill(slow[other])
        with pytest.raises(UnfinishedError, match="no replica of null is left"):
            await asked

    asyncio.run(case())


def test_a_chunk_that_nobody_could_answer_ends_the_run_without_rows(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "solve_chunk", hopeless)
    plan = plan_of(tmp_path, cases=2)
    with pytest.raises(UnfinishedError, match="no replica is left"):
        go(plan)
    assert rows(plan) == {}

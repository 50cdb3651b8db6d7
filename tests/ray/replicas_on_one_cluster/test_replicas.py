"""Replicas on a small local Ray, holding a real (random-weight) language model in the transformers engine.

A process with torch takes seconds to start: one pool of two serves all that needs two, from the command line too.
"""

from __future__ import annotations

import asyncio
import copy
import math
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cluster import batch
from grid.cluster.fleet import Fleet, Totals
from grid.core.engine import PLAIN_SAMPLER
from grid.core.errors import ConfigError, EngineError
from grid.engines.hosted import MUCH, unassigned
from grid.engines.transformers.engine import HuggingFace
from grid.settings.check import check_sweep
from grid.settings.plan import Plan
from grid.store.schema import TIMES
from tests.support import in_process
from tests.support.clusters import wait_for
from tests.support.commands import Ended, launch
from tests.support.configs import job, yaml
from tests.support.extras import needs

pytestmark = needs("torch")

PLANNERS = {
    "react": {"_target_": "grid.planners.react.ReAct", "temperature": 0.0},
    "egb_logits": {"_target_": "grid.planners.egb.EGBLogits", "temperature": 0.0, "trajectories": 2},
}
COUNTERS = ("llm_calls", "forward_passes", "input_tokens", "cached_input_tokens", "output_tokens")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.models import make_model

    return make_model(tmp_path_factory.mktemp("model"), context=16384)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """A replica: with so small a model more of them only wait for one another, on cores that others need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        yield


def model(folder: Path, **values: Any) -> dict[str, Any]:
    # One request at a time: with others in the batch, rounding could tip a draw at temperature 0.
    return yaml("model", "local") | {"path": str(folder), "max_tokens": 8, "serving": {"max_batch": 1}} | values


def plan_of(root: Path, model: dict[str, Any], planners: Sequence[str] = tuple(PLANNERS)) -> Plan:
    jobs = [
        job(
            root,
            model=model,
            planner=PLANNERS[planner],
            dataset__limit=2,
            dataset__max_substeps=11,
            retriever__top_k=2,
            cluster={"kind": "local", "chunk_cells": 1},
        )
        for planner in planners
    ]
    return check_sweep(jobs).plan


@dataclass
class Ran:
    """A sweep's rows and what its replicas said that they did."""

    episodes: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    totals: list[Totals]
    requests: int
    said: list[str]

    def lasting(self) -> list[list[dict[str, Any]]]:
        return [
            [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
            for rows in (self.episodes, self.steps)
        ]


def alike(one: Any, other: Any) -> bool:
    """Equal but for the rounding that another batch gives probabilities."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def at_work(fleet: Fleet) -> list[int]:
    return [total.stats.pid for total in fleet.totals() if total.stats.running]


def requests(fleet: Fleet) -> int:
    return sum(total.stats.requests for total in fleet.totals())


def restarts(fleet: Fleet) -> int:
    return sum(total.restarts for total in fleet.totals())


def run(plan: Plan, fleet: Fleet, said: list[str], kill_after: int | None = None) -> Ran:
    """Run the sweep; after so many chunks the process of a replica that has work is killed.

    Beside the run: what is in flight may end before anybody looks, and only a run that goes on gives new work.
    """
    reports, before = 0, requests(fleet)

    def kill() -> None:
        wait_for(lambda: bool(at_work(fleet)))
        os.kill((at_work(fleet) or [fleet.totals()[0].stats.pid])[0], signal.SIGKILL)

    def report(ended: batch.Report) -> None:
        nonlocal reports
        assert ended.error is None
        reports += 1
        if reports == kill_after:
            threading.Thread(target=kill).start()

    batch.Run(plan, plan.finished(), report, fleet).go()
    if kill_after:
        wait_for(lambda: restarts(fleet) == 1)
    asked, totals = requests(fleet) - before, copy.deepcopy(fleet.totals())
    episodes, steps = (store.read(plan.root, table, wide=True).to_pylist() for table in ("episodes", "steps"))
    return Ran(episodes, steps, totals, asked, list(said))


Command = Callable[..., str]


@pytest.fixture(scope="module")
def command(joined: Sequence[str], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """A script with arguments, the cluster and the model, in this process unless another `launch` is given."""
    work = tmp_path_factory.mktemp("commands")
    values = [*joined, "model=local", f"model.path={folder}", "model.max_tokens=8", "model.serving.max_batch=1"]

    def run(script: str, *words: str, launch: Callable[..., Ended] = in_process.launch) -> str:
        done = launch(script, work, *words, *values)
        assert done.status == 0, done.out + done.err
        return done.out

    return run


@pytest.fixture(scope="module")
def pool_of_two(command: Command, undisturbed: Ran) -> Iterator[str]:
    """What starting it said; not before the sweep of one replica, which would join it.

    Whoever started it has left the cluster.
    """
    said = command("replicas", "start", "cluster.replicas=2", launch=launch)
    yield said
    command("replicas", "stop")


@pytest.fixture(scope="module")
def alone(cluster: None, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran]:
    """With one replica: the sweep, and with the same replica the sweep again while it is killed."""
    plans = [plan_of(tmp_path_factory.mktemp(name), model(folder)) for name in ("plain", "killed")]
    said: list[str] = []
    with Fleet(plans[0].settings, 1, 600, said.append) as fleet:
        plain = run(plans[0], fleet, said)
        return plain, run(plans[1], fleet, said, kill_after=2)


@pytest.fixture(scope="module")
def undisturbed(alone: tuple[Ran, Ran]) -> Ran:
    return alone[0]


def of_two(root: Path, folder: Path, kill_after: int | None = None) -> Ran:
    """The sweep with the pool of two, which it joins."""
    plan, said = plan_of(root, model(folder)), list[str]()
    with Fleet(plan.settings, 2, 600, said.append) as fleet:
        return run(plan, fleet, said, kill_after)


def test_tables_and_replicas_count_alike(undisturbed: Ran) -> None:
    assert [row["status"] for row in undisturbed.episodes] == ["ok"] * 4, undisturbed.episodes
    (total,) = undisturbed.totals
    for counter in COUNTERS:
        assert sum(row[counter] for row in undisturbed.episodes) == getattr(total.stats.usage, counter), counter
    assert total.stats.requests > 4
    assert (total.stats.failed, total.restarts) == (0, 0)
    assert total.stats.usage.forward_passes > 0
    assert {(row["engine"], row["sampler"]) for row in undisturbed.episodes} == {("huggingface", PLAIN_SAMPLER)}
    assert all(0 <= row["unassigned"] <= 1 for row in undisturbed.steps if row["entropy"] is not None)


def test_the_mass_that_went_to_no_option_is_in_the_rows_and_warned_of(undisturbed: Ran, folder: Path) -> None:
    for row in undisturbed.episodes:
        shares = [step["unassigned"] for step in undisturbed.steps if step["cell_id"] == row["cell_id"]]
        known = [share for share in shares if share is not None]
        assert bool(known) == bool(row["forward_passes"])
        assert row["unassigned"] == (pytest.approx(sum(known) / len(known)) if known else None)
    share = asyncio.run(unassigned(HuggingFace(**{key: model(folder)[key] for key in ("path", "dtype")})))
    assert share is not None
    assert any(line.startswith("warning: model gives") for line in undisturbed.said) == (share > MUCH)


def test_two_replicas_share_the_cases_and_give_the_same_rows(
    undisturbed: Ran, pool_of_two: str, folder: Path, tmp_path: Path
) -> None:
    ran = of_two(tmp_path, folder)
    assert len(ran.totals) == 2
    assert ran.requests == undisturbed.requests
    assert alike(ran.lasting(), undisturbed.lasting())


def costs_no_row(ran: Ran, undisturbed: Ran) -> None:
    """One process was killed, and all is as if it had not been."""
    assert sum(total.restarts for total in ran.totals) == 1
    assert [row["error_message"] for row in ran.episodes] == [None] * len(ran.episodes)
    assert alike(ran.lasting(), undisturbed.lasting())


def test_a_killed_replica_costs_no_row(undisturbed: Ran, alone: tuple[Ran, Ran]) -> None:
    _, ran = alone
    costs_no_row(ran, undisturbed)
    assert sum(row["resent_requests"] for row in ran.episodes) > 0


@pytest.mark.slow  # test_workers.py has requests go from a replica that was killed to the other
def test_a_killed_replica_of_two_costs_no_row(undisturbed: Ran, pool_of_two: str, folder: Path, tmp_path: Path) -> None:
    costs_no_row(of_two(tmp_path, folder, kill_after=2), undisturbed)


def test_a_replica_that_is_not_ready_in_time_is_named_with_its_log(cluster: None, folder: Path, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, model(folder, max_tokens=7))
    with pytest.raises(EngineError, match=r"no replica is ready within cluster.ready_seconds=0.01; pool-\w+") as caught:
        Fleet(plan.settings, 1, 0.01, print).__enter__()
    assert "\n" in str(caught.value), "the tail of its log"


def test_gpus_that_are_not_there_are_asked_for_in_vain(cluster: None, folder: Path, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, model(folder, device="cuda"))
    with pytest.raises(ConfigError) as caught:
        Fleet(plan.settings, 3, 600, print).__enter__()
    assert "1 GPUs are needed at once (1 for model), but the cluster has 0" in str(caught.value)


def test_a_folder_without_a_tokenizer_ends_the_sweep_before_it_starts(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    plan = plan_of(tmp_path / "results", model(tmp_path))
    with pytest.raises(ConfigError) as caught:
        Fleet(plan.settings, 1, 600, print).__enter__()
    assert caught.value.key == "model.path"
    assert "tokenizer" in str(caught.value)


def test_a_pool_outlives_the_sweeps_that_join_it(command: Command, pool_of_two: str) -> None:
    import ray

    short = ["dataset.limit=1", "dataset.max_substeps=11", "retriever.top_k=2"]
    sweep = ["-m", "planner=react", "robustness=none", *short]
    page = f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics"
    assert "2 replicas are running" in pool_of_two
    out = command("sweep", *sweep, "trials=1")
    assert "joined a running pool of 2 replicas" in out
    assert "1 ok, 0 failed" in out
    assert "replicas" in command("replicas", "status")
    wait_for(lambda: b"ray_grid_replica_requests_total{" in urllib.request.urlopen(page, timeout=10).read())
    assert "2 replicas stopped" in command("replicas", "stop")
    assert "no running pool" in command("replicas", "status")

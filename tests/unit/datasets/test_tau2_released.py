"""τ²-bench as released, where AGENT_GRID_TAU2 names its folder: gold actions, mutated runs, which tasks are drawn."""

from __future__ import annotations

import asyncio
import json
import os
import random

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from grid.core.types import Trajectory
from grid.datasets.tau2.dataset import Tau2, measure
from grid.datasets.tau2.package import DomainName
from grid.datasets.tau2.world import Tau2World
from tests.support.tau2 import RELEASED, agree, dataset_at, gold_run, mutated, rows

DOMAINS: tuple[DomainName, ...] = ("airline", "retail", "telecom", "mock")


def _released() -> str:
    path = os.environ.get(RELEASED)
    if path is None:
        pytest.skip(f"set {RELEASED} to τ²-bench's folder")
    return path


@pytest.mark.parametrize("name", DOMAINS)
def test_gold_actions_solve_every_released_task(name: DomainName) -> None:
    dataset = dataset_at(_released(), name)
    for case_id in dataset.case_ids():
        gold, world = gold_run(dataset, case_id), dataset.problem(case_id).world
        assert isinstance(world, Tau2World)
        state = world.start()
        for call in gold.calls:
            state, _ = asyncio.run(world.apply(state, call))
        found = measure(world, Trajectory((), (), world.ended(state, gold.answer)))
        parts = json.loads(found["reward_parts"])
        assert {part for basis, part in parts.items() if basis != "NL_ASSERTION"} == {1.0}, case_id
        assert found["success_db"] is (None if name == "telecom" else True), case_id


@pytest.mark.parametrize(("name", "count"), [("telecom", 200), ("retail", 120), ("airline", 80), ("mock", 100)])
def test_mutated_released_runs_are_worth_what_the_package_says(name: DomainName, count: int) -> None:
    dataset, rng = dataset_at(_released(), name), random.Random(11)
    known, ids = rows(dataset), dataset.case_ids()
    for place in range(count):
        case_id = ids[place % len(ids)]
        row = known[case_id.removeprefix(f"tau2-{name}-")]
        agree(dataset, row, case_id, mutated(gold_run(dataset, case_id), dataset, rng))


def test_the_drawn_tasks_are_shared_out_by_domain() -> None:
    path = _released()
    every = {name: len(dataset_at(path, name).case_ids()) for name in DOMAINS[:3]}
    drawn = {name: Tau2(path=path, domain=name, user="instructions", draw=100).case_ids() for name in DOMAINS[:3]}
    assert sum(map(len, drawn.values())) == 100
    for name, ids in drawn.items():
        assert abs(len(ids) - 100 * every[name] / (sum(every.values()) + 1)) < 1
        assert ids == Tau2(path=path, domain=name, user="instructions", draw=100).case_ids()

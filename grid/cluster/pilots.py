"""Pilots on a Ray cluster, with the sweep's engines and as many cells side by side as in the sweep."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from grid.cells.deadline import end_when_too_large
from grid.cells.pilot import Pilot, Trial, piloted, trial_of
from grid.cluster.batch import said
from grid.cluster.connection import cpus
from grid.cluster.fleet import Fleet
from grid.cluster.lanes import AHEAD, Lane, as_loaded, lanes_of
from grid.cluster.worker import with_pools
from grid.core.errors import GridError
from grid.settings.build import build, build_engine, expect_code
from grid.settings.plan import Plan
from grid.settings.roles import models
from grid.settings.setting import Setting
from grid.store import CellIds


@dataclass(frozen=True)
class Side:
    """The resources of one lane's settings.

    `cells`: with replicas, the number of cells that run side by side; without replicas, the number of tasks.
    `capacity`: the number of calls that the replicas answer at once, if a call's time does not depend on the number of
    other calls; None if the time depends on that number, or if there are no replicas. `cpus`: the CPUs that all cells
    share.
    """

    settings: Sequence[Setting]
    cells: int
    pooled: bool
    capacity: int | None
    cpus: int = 1

    def seconds(self, settings: Sequence[Setting], pilots: Mapping[str, Pilot], pending: Mapping[str, int]) -> float:
        """The seconds that the `pending` cells of some settings take, according to the pilots that have results."""
        total = longest = busy = 0.0
        for setting in settings:
            pilot = pilots.get(setting.id)
            if pilot and pilot.batches and pending[setting.id]:
                total += pending[setting.id] * self._share(pilot)
                longest = max(longest, *(one.seconds for one in pilot.largest.took))
                busy += pending[setting.id] * pilot.largest.cpu / len(pilot.largest.took)
        return max(total, longest, busy / self.cpus) if self.pooled else total

    def _share(self, pilot: Pilot) -> float:
        """The seconds that one cell adds to a sweep."""
        batch = pilot.largest
        each = batch.seconds / len(batch.took)
        if not self.pooled:
            return each / self.cells
        if self.capacity is None:
            return each
        calls = batch.calls / batch.cells * self.cells  # the number of calls that a sweep would have in flight
        return each * min(batch.calls, self.capacity) / min(calls, self.capacity) if calls else each


def pilots_on(plan: Plan, fleet: Fleet, done: CellIds, calls: int) -> tuple[dict[str, Pilot], list[Side]]:
    """Each setting's pilot, by the setting's id, with at most `calls` calls; and the resources that the settings use.

    Raises:
        GridError: an error that keeps a worker from running anything at all.
    """
    found: dict[str, Pilot] = {}
    sides = []
    for lane, lost in as_loaded(lanes_of(plan, done, fleet), fleet):
        if lost is not None:
            found |= {setting.id: Pilot(why=lost) for setting in lane.settings}
            continue
        sides.append(_side(plan, lane))
        for first in range(0, len(lane.settings), _tasks(plan, lane)):
            now = lane.settings[first : first + _tasks(plan, lane)]
            found |= _together(plan, lane, now, done, calls)
    return found, sides


def _tasks(plan: Plan, lane: Lane) -> int:
    """The number of a lane's settings whose pilots run side by side, each in a task; 1 if the lane has replicas."""
    return 1 if lane.pools else min(cpus(), plan.cluster.chunks_in_flight or cpus())


def _side(plan: Plan, lane: Lane) -> Side:
    homes = {build_engine(model).home for one in lane.settings for model in models(one.config).values()}
    if not lane.pools:
        return Side(lane.settings, _tasks(plan, lane), pooled=False, capacity=None)
    capacity = None if "replica" in homes else ceil(lane.target / AHEAD)
    return Side(lane.settings, lane.target, pooled=True, capacity=capacity, cpus=cpus())


def _together(plan: Plan, lane: Lane, settings: Sequence[Setting], done: CellIds, calls: int) -> dict[str, Pilot]:
    """Run the pilots of these settings side by side; returns the pilots by setting id."""
    import ray

    remote = ray.remote(max_retries=0)(pilot_task)
    tasks = {}
    for setting in settings:
        side = lane.target if lane.pools else lane.at_once
        trial = replace(trial_of(plan, setting, done, calls, side), pools=lane.pools)
        name = f"pilot · {setting.labels['planner']} · {setting.labels['dataset']} · {setting.labels['robustness']}"
        task = remote.options(num_cpus=0.25 if lane.pools else 1, name=name).remote(trial)
        tasks[setting.id] = (task, time.time())
    return {setting_id: _answer(*one) for setting_id, one in tasks.items()}


def _answer(task: Any, ordered: float) -> Pilot:
    import ray

    try:
        pilot: Pilot
        pilot, began = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, GridError):
            raise error.cause from None
        return Pilot(why=said(error))
    except ray.exceptions.RayError as error:
        return Pilot(why=(str(error).strip() or type(error).__name__).splitlines()[0])
    return replace(pilot, start=max(began - ordered, 0.0))


def pilot_task(trial: Trial) -> tuple[Pilot, float]:
    """Run a trial in a worker; returns its pilot, and the Unix time at which its first cell began."""
    end_when_too_large(trial.limits.memory_gib)
    built = build(trial.setting, trial.budget)
    expect_code(trial.setting)
    began = time.time()
    return piloted(trial, with_pools(built, trial.setting, trial.pools, "pilot")), began

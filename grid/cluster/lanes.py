"""The work of settings that share engines: which part of it is in flight, and how much may be in flight."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, cast

from grid.cells.run import CONCURRENT_CELLS
from grid.cluster.fleet import Fleet
from grid.cluster.signs import Sign
from grid.cluster.turns import Team
from grid.core.untrusted import shown
from grid.engines.hosted import HostedEngine
from grid.settings.build import build_engine
from grid.settings.plan import Plan
from grid.settings.roles import model_key, models
from grid.settings.setting import Cell, Setting
from grid.store import CellIds

AHEAD = 1.25  # cells in flight per request that replicas can process, as some cells are between two requests
_TASK_SECONDS = 5.0  # how long a task should last: some thousand times as long as it takes to start
_LARGEST = 4000  # cells in a chunk
_WAIT_SECONDS = 0.25


@dataclass(frozen=True)
class Work:
    """Some cells of a setting, and how many times they failed to run.

    `deaths` is the number of workers that died while they had only these cells, and `waited` is the number of times
    that no worker began them soon enough. Within a run, the cells of each setting are numbered in the order in which
    they begin: `first` is the number of a chunk's first cell, `last` the number after its last cell. If parts of a
    chunk run again, each part keeps both numbers.
    """

    setting: Setting
    cells: Sequence[Cell]
    deaths: int = 0
    waited: int = 0
    first: int = 0
    last: int = 0

    @property
    def name(self) -> str:
        """The task's name in Ray's dashboard."""
        labels = (self.setting.labels[group] for group in ("planner", "dataset", "robustness"))
        return shown(" · ".join([*labels, f"{self.first}-{self.last}"]))


@dataclass
class Try:
    """A chunk in flight: its worker's last sign, the seconds without news from it, and why we ended the worker."""

    work: Work
    attempt_id: str
    started: float
    sign: Sign | None = None
    silent: float = 0.0
    ended: str | None = None

    @property
    def unfinished(self) -> int:
        """The number of the chunk's cells that have not ended, according to the worker's last report."""
        return len(self.work.cells) - (self.sign.ended if self.sign else 0)


@dataclass
class Lane:
    """The work of settings whose roles share engines.

    `keys` are the models that run in replicas; there are none if every task has its own engines. `team` are the models
    that may have to wait for GPUs. `left` is roughly the number of cells that are not in a chunk yet. Once the lane is
    `loaded`, `pools` has the replicas by model and name, and `target` is the number of cells in flight that keeps the
    replicas busy.
    """

    settings: Sequence[Setting]
    keys: Sequence[str]
    team: Team
    left: int
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    target: int = 0
    loaded: bool = False
    exhausted: bool = False
    ended: bool = False
    again: deque[Work] = field(default_factory=deque)
    in_flight: dict[Any, Try] = field(default_factory=dict)
    fresh: Iterator[tuple[Setting, list[Cell]]] = field(default_factory=lambda: iter(()))
    _cost: dict[str, float] = field(default_factory=dict)  # seconds per cell, by setting
    _begun: Counter[str] = field(default_factory=Counter)  # number of cells, by setting
    _heard: float = 0.0  # latest start of an attempt whose worker has sent a sign

    @property
    def at_once(self) -> int:
        """The number of cells that a chunk runs side by side.

        With replicas, at least two chunks are needed to reach the target.
        """
        return min(CONCURRENT_CELLS, -(-self.target // 2)) if self.keys else CONCURRENT_CELLS

    @property
    def any(self) -> bool:
        """Whether the lane has cells to begin."""
        if not self.again and (work := self.next()) is not None:
            self.again.append(work)
        return bool(self.again)

    def open(self, fleet: Fleet) -> None:
        """Let the lane's cells begin, because its models are loaded."""
        found = {
            key: model
            for one in self.settings
            for model in models(one.config).values()
            if (key := model_key(model)) in self.keys
        }
        self.pools = {key: fleet.handles(model) for key, model in found.items()}
        capacities = {key: cast(HostedEngine, build_engine(model)).capacity for key, model in found.items()}
        self.target = sum(ceil(AHEAD * len(self.pools[key]) * capacities[key]) for key in found)
        self.loaded = True

    def has_room(self, chunks: int) -> bool:
        """Whether another chunk may begin; the limit is `chunks` chunks or, with replicas, `target` cells in flight."""
        if not self.keys:
            return len(self.in_flight) < chunks
        return sum(min(self.at_once, one.unfinished) for one in self.in_flight.values()) < self.target

    def next(self) -> Work | None:
        """Take the work to run next; None if no work is left."""
        if self.again:
            return self.again.popleft()
        found = next(self.fresh, None)
        if found is None:
            self.exhausted = True
            return None
        setting, cells = found
        self.left -= len(cells)
        first = self._begun[setting.id]
        self._begun[setting.id] += len(cells)
        return Work(setting, cells, first=first, last=self._begun[setting.id])

    def hear(self, tried: Try, sign: Sign | None, passed: float, busy: bool) -> None:
        """Record a worker's sign, `passed` seconds after the last check.

        An attempt whose worker has not begun is waiting for a CPU. Such a wait counts as silence only if the worker of
        a later attempt has begun, or if no worker is `busy`.
        """
        news = sign is not None and sign != tried.sign
        if sign is not None:
            tried.sign, self._heard = sign, max(self._heard, tried.started)
        waits = busy and tried.sign is None and tried.started >= self._heard
        tried.silent = 0.0 if news or waits else tried.silent + passed

    def took(self, setting_id: str, cells: int, seconds: float) -> None:
        """Record the time that a chunk took."""
        if cells:
            self._cost[setting_id] = seconds / cells

    def size(self, setting: Setting, first: int, chunks: int) -> int:
        """The number of cells in a setting's next chunk.

        This is `first` or, if the time of a cell is known, the number of cells that together take some seconds.

        Towards the end, chunks become smaller so that all workers end at about the same time. With replicas such a
        chunk has at least `at_once` cells. `chunks`: without replicas, the number of chunks that may be in flight.
        """
        if setting.id not in self._cost:
            return first
        if self.keys:
            chunks = -(-self.target // self.at_once)
        size = min(int(_TASK_SECONDS / max(self._cost[setting.id], 1e-6)), _LARGEST)
        share = max(-(-self.left // (2 * chunks)), min(first, size))
        return max(min(size, share), self.at_once if self.keys else 1)


def lanes_of(plan: Plan, done: CellIds, fleet: Fleet) -> list[Lane]:
    """One lane for all settings without replicas, and one for each set of models in replicas that a setting asks.

    The caller still has to set `fresh`. Lanes that need no GPUs are already open.
    """
    grouped = dict[tuple[str, ...], list[Setting]]()
    to_run = 1 - len(done) / plan.total()  # share of each lane, estimated, as counting takes seconds per million
    for setting in plan.settings:
        hosted = {model_key(model) for model in models(setting.config).values() if build_engine(model).home != "task"}
        grouped.setdefault(tuple(sorted(hosted)), []).append(setting)
    lanes = [
        Lane(settings, keys, fleet.team(settings[0]), int(to_run * sum(map(plan.cells_in, settings))))
        for keys, settings in grouped.items()
    ]
    for lane in lanes:
        if not lane.team:
            lane.open(fleet)
    return lanes


def as_loaded(lanes: Sequence[Lane], fleet: Fleet) -> Iterator[tuple[Lane, str | None]]:
    """Yield each lane as soon as its models are loaded (with None) or lost (with the reason).

    A lane counts as done when the caller asks for the next lane.
    """
    left = list(lanes)
    while left:
        fleet.advance()
        for lane in [lane for lane in left if fleet.ready(lane.team) or fleet.lost(lane.team) is not None]:
            why = fleet.lost(lane.team)
            if why is None:
                lane.open(fleet)
            left.remove(lane)
            yield lane, why
            fleet.done(lane.team)
            break
        else:
            time.sleep(_WAIT_SECONDS)

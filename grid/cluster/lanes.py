"""Lanes: the work of settings that share engines, what of it is in flight, and how much may be."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, cast

from grid.cells.run import CONCURRENT_CELLS
from grid.cluster.fleet import Fleet
from grid.cluster.signs import Sign
from grid.core.untrusted import shown
from grid.engines.hosted import HostedEngine
from grid.settings.build import build_engine
from grid.settings.plan import Plan
from grid.settings.roles import by_pool, model_key, models
from grid.settings.setting import Cell, Setting
from grid.store import CellIds

AHEAD = 1.25  # cells in flight for each that replicas can have in hand: some are between two requests
_TASK_SECONDS = 5.0  # that a task should last: some thousand times what starting it costs
_LARGEST = 4000  # cells of a chunk


@dataclass(frozen=True)
class Work:
    """Cells of a setting; how often a worker died that had nothing else to do, and how often none began it in time.

    `first` is the place of a chunk's first cell among those that the run has begun of its setting, `last` that behind
    its last; parts of one that is tried again keep both.
    """

    setting: Setting
    cells: Sequence[Cell]
    deaths: int = 0
    waited: int = 0
    first: int = 0
    last: int = 0

    @property
    def name(self) -> str:
        """As Ray's dashboard shows the task."""
        labels = (self.setting.labels[group] for group in ("planner", "dataset", "robustness"))
        return shown(" · ".join([*labels, f"{self.first}-{self.last}"]))


@dataclass
class Try:
    """A chunk in flight: what its worker last said, for how many seconds it has said nothing, why it was ended."""

    work: Work
    attempt_id: str
    started: float
    sign: Sign | None = None
    silent: float = 0.0
    ended: str | None = None

    @property
    def unfinished(self) -> int:
        """Cells that have not ended, as far as is known."""
        return len(self.work.cells) - (self.sign.ended if self.sign else 0)


@dataclass
class Lane:
    """The work of settings whose roles share engines.

    `pools` are their replicas, by model and name; empty where every task has the engines. `target` is how many cells in
    flight keep the replicas busy. `left` are about as many as the cells that no chunk has been made of.
    """

    settings: Sequence[Setting]
    pools: Mapping[str, Mapping[str, Any]]
    target: int
    left: int
    again: deque[Work] = field(default_factory=deque)
    in_flight: dict[Any, Try] = field(default_factory=dict)
    fresh: Iterator[tuple[Setting, list[Cell]]] = field(default_factory=lambda: iter(()))
    _cost: dict[str, float] = field(default_factory=dict)  # seconds a cell, by setting
    _begun: Counter[str] = field(default_factory=Counter)  # cells, by setting
    _heard: float = 0.0  # when the latest of those that have said something was started

    @property
    def at_once(self) -> int:
        """Cells that a chunk runs side by side: where replicas answer, two chunks at least make up the target."""
        return min(CONCURRENT_CELLS, -(-self.target // 2)) if self.pools else CONCURRENT_CELLS

    def has_room(self, chunks: int) -> bool:
        """Whether another chunk may begin; `chunks` may be in flight where every task has the engine."""
        if not self.pools:
            return len(self.in_flight) < chunks
        return sum(min(self.at_once, one.unfinished) for one in self.in_flight.values()) < self.target

    def next(self) -> Work | None:
        """What is to run next."""
        if self.again:
            return self.again.popleft()
        found = next(self.fresh, None)
        if found is None:
            return None
        setting, cells = found
        self.left -= len(cells)
        first = self._begun[setting.id]
        self._begun[setting.id] += len(cells)
        return Work(setting, cells, first=first, last=self._begun[setting.id])

    def hear(self, tried: Try, sign: Sign | None, passed: float, busy: bool) -> None:
        """Take in what a worker says, `passed` seconds after it was last listened to.

        One that has not begun waits for a CPU, and is silent only where a later one has, or where no worker is `busy`.
        """
        news = sign is not None and sign != tried.sign
        if sign is not None:
            tried.sign, self._heard = sign, max(self._heard, tried.started)
        waits = busy and tried.sign is None and tried.started >= self._heard
        tried.silent = 0.0 if news or waits else tried.silent + passed

    def took(self, setting_id: str, cells: int, seconds: float) -> None:
        """Take in what a chunk cost."""
        if cells:
            self._cost[setting_id] = seconds / cells

    def size(self, setting: Setting, first: int, chunks: int) -> int:
        """Cells of the setting's next chunk: `first`; once a cell's cost is known, so many that it lasts some seconds.

        Towards the end chunks become smaller, so that all workers end at about the same time; where replicas answer,
        not smaller than what runs side by side.
        """
        if setting.id not in self._cost:
            return first
        if self.pools:
            chunks = -(-self.target // self.at_once)
        size = min(int(_TASK_SECONDS / max(self._cost[setting.id], 1e-6)), _LARGEST)
        share = max(-(-self.left // (2 * chunks)), min(first, size))
        return max(min(size, share), self.at_once if self.pools else 1)


def lanes_of(plan: Plan, done: CellIds, fleet: Fleet) -> list[Lane]:
    """A lane for each set of pools that settings ask, and one for all whose tasks have the engines.

    `fresh` is still to be set.
    """
    grouped = dict[tuple[str, ...], list[Setting]]()
    pools, targets = dict[str, Mapping[str, Any]](), dict[str, int]()
    to_run = 1 - len(done) / plan.total()  # of every lane, about: to count them takes seconds for each million
    for setting in plan.settings:
        for key, model in ((model_key(model), model) for model in models(setting.config).values()):
            if key not in pools:
                pools[key] = fleet.handles(model)
                capacity = cast(HostedEngine, build_engine(model)).capacity if pools[key] else 0
                targets[key] = ceil(AHEAD * len(pools[key]) * capacity)
        grouped.setdefault(tuple(sorted(key for key in by_pool(setting.config) if pools[key])), []).append(setting)
    return [
        Lane(
            settings,
            {key: pools[key] for key in keys},
            sum(targets[key] for key in keys),
            int(to_run * sum(map(plan.cells_in, settings))),
        )
        for keys, settings in grouped.items()
    ]

"""A plan on a Ray cluster: chunks of cells as tasks, a bounded number in flight, tried again where a task died."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grid import store
from grid.build import build, expect_code
from grid.cell import Cell, Setting
from grid.cluster import alive, cpus
from grid.errors import StoreError, UnfinishedError
from grid.limits import Limits, end_when_too_large
from grid.plan import Plan
from grid.replicas.client import PooledEngine
from grid.replicas.fleet import Fleet
from grid.run import CONCURRENT_CELLS, Stamp, died_attempt, killed_cell, run_chunk
from grid.types import ErrorKind, Usage

DEATHS = 3  # of a cell's worker, while it was alone there, before its row says so
_WAITING_CPUS = 0.25  # of a task whose engine is elsewhere
_TICK_SECONDS = 5.0
_TASK_SECONDS = 5.0  # that a task should last: some thousand times what starting it costs
_LARGEST = 4000  # cells of a chunk: its rows are held in memory
_COMPACT_EVERY = 100  # chunks
_GRACE_SECONDS = 60.0  # for a chunk beyond the deadlines of its cells


@dataclass
class Report:
    """What a try of a chunk did; `error` where its cells have no rows, and why.

    A try whose worker died has spent `usage` and `seconds` on no cells: they are tried again.
    """

    setting_id: str
    cells: int
    ok: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class _Work:
    """A chunk, and how often a worker died that had nothing else to do."""

    setting: Setting
    cells: list[Cell]
    deaths: int = 0


@dataclass(frozen=True)
class _Try:
    """A chunk in flight."""

    work: _Work
    attempt_id: str
    started: float
    deadline: float
    overdue: bool = False


class Run:
    """One run of a plan's cells that are not `done`.

    Args:
        plan: what is to be run.
        done: the ids of cells that need not run.
        report: called in the driver as each try of a chunk ends, in the order of ending.
        fleet: holds the replicas of the plan's models.
        tick: called every few seconds.
    """

    def __init__(
        self,
        plan: Plan,
        done: store.CellIds,
        report: Callable[[Report], None],
        fleet: Fleet,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self._plan, self._report, self._fleet, self._tick = plan, report, fleet, tick
        self._fresh = plan.chunks(done, self._size)
        self._again: deque[_Work] = deque()
        self._in_flight: dict[Any, _Try] = {}
        self._cost: dict[str, float] = {}  # seconds a cell, by setting
        self._limit = self._bound()
        self._cells, self._begun = plan.total() - len(done), 0
        self._ended, self._compacting = 0, None
        self._stamp = Stamp(plan.name, plan.git_commit, store.newest(plan.root))
        self.stopping = False
        """Set it, and no further chunk is begun."""

    @property
    def cells_in_flight(self) -> Counter[str]:
        """Cells of the chunks that were begun and have not ended, by setting id."""
        cells: Counter[str] = Counter()
        for one in self._in_flight.values():
            cells[one.work.setting.id] += len(one.work.cells)
        return cells

    def go(self) -> None:
        """Run until nothing is left, or until what is in flight has ended after `stopping` was set.

        Raises:
            UnfinishedError: rows cannot be written, or no machine of the cluster is left.
        """
        try:
            self._go()
        except StoreError as error:
            raise UnfinishedError(str(error)) from None

    def _go(self) -> None:
        import ray

        ticked = time.monotonic()
        while True:
            self._begin()
            if not self._in_flight:
                break
            ended, _ = ray.wait(list(self._in_flight), num_returns=1, timeout=_TICK_SECONDS)
            for task in ended:
                self._end(task, self._in_flight.pop(task))
            self._end_overdue()
            if time.monotonic() - ticked >= _TICK_SECONDS / 2:
                ticked = time.monotonic()
                if not alive():
                    raise UnfinishedError("no machine of the Ray cluster is left; run again with the same name")
                self._limit = self._bound()
                if self._tick:
                    self._tick()
        if self._compacting is not None:
            ray.wait([self._compacting])

    def _bound(self) -> int:
        """Chunks that may be in flight; machines come and go."""
        return self._plan.cluster.chunks_in_flight or 2 * cpus()

    def _begin(self) -> None:
        import ray

        remote = ray.remote(max_retries=0)(_chunk)  # a task that died is cut up, not only repeated
        while len(self._in_flight) < self._limit and not self.stopping:
            work = self._next()
            if work is None:
                return
            handles = self._fleet.handles(work.setting.config["model"])
            limits = Limits(self._plan.cluster.case_seconds, self._plan.cluster.worker_memory_gib)
            attempt_id = uuid.uuid4().hex
            task = remote.options(num_cpus=_WAITING_CPUS if handles else 1).remote(
                work.setting,
                work.cells,
                self._plan.budget,
                limits,
                str(self._plan.root.absolute()),
                self._stamp,
                attempt_id,
                handles,
            )
            rounds = -(-len(work.cells) // CONCURRENT_CELLS)
            now = time.monotonic()
            self._in_flight[task] = _Try(work, attempt_id, now, now + rounds * limits.case_seconds + _GRACE_SECONDS)

    def _next(self) -> _Work | None:
        if self._again:
            return self._again.popleft()
        found = next(self._fresh, None)
        if found is None:
            return None
        self._begun += len(found[1])
        return _Work(*found)

    def _size(self, setting: Setting) -> int:
        """Cells of the setting's next chunk, so that it lasts some seconds once a cell's cost is known.

        Towards the end chunks become smaller, so that all workers end at about the same time. Where replicas answer
        they never shrink below the first: the cells in flight make up their batches.
        """
        first = self._plan.cluster.chunk_cells
        if setting.id not in self._cost:
            return first
        size = min(int(_TASK_SECONDS / max(self._cost[setting.id], 1e-6)), _LARGEST)
        share = max(-(-(self._cells - self._begun) // (2 * self._limit)), min(first, size))
        least = first if self._fleet.handles(setting.config["model"]) else 1
        return max(min(size, share), least)

    def _end(self, task: Any, tried: _Try) -> None:
        import ray

        try:
            report: Report = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, StoreError | UnfinishedError):
                raise error.cause from None
            last = str(error).strip().splitlines()[-1]
            self._report(Report(tried.work.setting.id, len(tried.work.cells), error=last))
        except (ray.exceptions.RayError, ray.exceptions.TaskCancelledError) as error:
            self._died(tried, (str(error).strip() or type(error).__name__).splitlines()[0])
        else:
            self._cost[report.setting_id] = report.seconds / report.cells
            self._report(report)
            self._compact()

    def _died(self, tried: _Try, why: str) -> None:
        """A task ended without an answer: try its halves again, so that one deadly case loses no other."""
        work, seconds = tried.work, time.monotonic() - tried.started
        spent = self._fleet.spent(work.setting.config["model"], tried.attempt_id)
        lost = died_attempt(tried.attempt_id, work.setting, len(work.cells), spent, seconds, self._stamp)
        store.write(self._plan.root, {"attempts": [lost]})
        self._report(Report(work.setting.id, 0, usage=spent, seconds=seconds))
        middle = len(work.cells) // 2
        if middle:
            halves = work.cells[:middle], work.cells[middle:]
            self._again.extendleft(replace(work, cells=half) for half in reversed(halves))
        elif work.deaths + 1 < DEATHS:
            self._again.appendleft(replace(work, deaths=work.deaths + 1))
        else:
            self._give_up(tried, why)

    def _give_up(self, tried: _Try, why: str) -> None:
        (cell,) = tried.work.cells
        kind = ErrorKind.TIMEOUT if tried.overdue else ErrorKind.INFRASTRUCTURE
        message = f"its worker ended {DEATHS} times while it ran alone, the last: {why}"
        built = build(tried.work.setting, self._plan.budget)
        row = killed_cell(built, tried.work.setting, cell, self._stamp, tried.attempt_id, kind, message)
        store.write(self._plan.root, {"episodes": [row]})
        self._report(Report(tried.work.setting.id, 1, failed=1))

    def _end_overdue(self) -> None:
        """End tasks that hang: what a case's own deadline could not end."""
        import ray

        now = time.monotonic()
        for task, tried in self._in_flight.items():
            if now > tried.deadline and not tried.overdue:
                self._in_flight[task] = replace(tried, overdue=True)
                ray.cancel(task, force=True)

    def _compact(self) -> None:
        """Have small files merged, one task at a time."""
        import ray

        self._ended += 1
        if self._ended % _COMPACT_EVERY:
            return
        if self._compacting is None or ray.wait([self._compacting], timeout=0)[0]:
            remote = ray.remote(num_cpus=0, max_retries=0)(store.compact)
            self._compacting = remote.remote(self._plan.root.absolute())


def _chunk(
    setting: Setting,
    chunk: list[Cell],
    budget: Any,
    limits: Limits,
    root: str,
    stamp: Stamp,
    attempt_id: str,
    replicas: Mapping[str, Any],
) -> Report:
    """Run a chunk in a worker and write its rows from there; only its sums travel back."""
    started = time.monotonic()
    end_when_too_large(limits.memory_gib)
    built = build(setting, budget)
    expect_code(setting)
    if replicas:
        built = replace(built, engine=PooledEngine(built.engine, replicas, attempt_id))
    result = asyncio.run(
        run_chunk(built, setting, chunk, stamp, attempt_id=attempt_id, case_seconds=limits.case_seconds)
    )
    store.write(Path(root), result.rows)
    return Report(setting.id, len(chunk), result.ok, result.failed, result.usage, time.monotonic() - started)

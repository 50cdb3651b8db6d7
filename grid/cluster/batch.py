"""A plan on a Ray cluster: chunks of cells as tasks, a bounded number in flight, tried again where a task died."""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any, cast

from grid import store
from grid.cells.deadline import Limits, end_when_too_large
from grid.cells.paying import Tab, forget, tab_of
from grid.cells.pilot import Pilot, Trial, piloted, trial_of
from grid.cells.rows import ChunkResult, Room, attempt_row, larger, spent_by_columns
from grid.cells.run import CONCURRENT_CELLS, UNRESOLVED, Stamp, killed_cell
from grid.cluster.connection import alive, cpus
from grid.cluster.fleet import Fleet
from grid.cluster.money import Money
from grid.cluster.signs import Sign, Signs, end_process
from grid.cluster.worker import Chunk, Report, solve_chunk, with_pools
from grid.core.errors import ErrorKind, GridError, StoreError, UnfinishedError
from grid.core.types import Usage
from grid.core.untrusted import shown
from grid.engines.hosted import HostedEngine
from grid.settings.build import build, build_engine, expect_code
from grid.settings.plan import Plan
from grid.settings.roles import at_least, by_pool, model_key, models
from grid.settings.setting import Cell, Setting
from grid.store import CellIds

__all__ = ["Report", "Run"]
DEATHS = 3  # of a cell's worker, while it was alone there, before its row says so
_WAITING_CPUS = 0.25  # of a task whose engine is elsewhere
_TICK_SECONDS = 5.0
_SILENT_SECONDS = 90.0  # after which a worker that says nothing is ended
_COMPACT_EVERY = 100  # times that rows were written


class Run:
    """One run of a plan's cells that are not `done`.

    Args:
        plan: what is to be run.
        done: the ids of cells that need not run.
        report: called in the driver as each try of a chunk ends, in the order of ending.
        fleet: holds the replicas of the plan's models.
        tick: called every few seconds.
        money: what limits its cells, where something does; it hears of each report from here.
    """

    def __init__(
        self,
        plan: Plan,
        done: store.CellIds,
        report: Callable[[Report], None],
        fleet: Fleet,
        tick: Callable[[], None] | None = None,
        money: Money | None = None,
    ) -> None:
        self._plan, self._report, self._fleet, self._tick, self._money = plan, report, fleet, tick, money
        self._limit = self._bound()
        self._limits = Limits(plan.cluster.case_seconds, plan.cluster.worker_memory_gib)
        self._lanes = lanes_of(plan, done, fleet)
        for lane in self._lanes:
            lane.fresh = plan.chunks(done, partial(self._size, lane), lane.settings)
        self._writes, self._compacting = 0, None
        self._stamp = Stamp(plan.name, plan.git_commit, store.newest(plan.root))
        self._signs = Signs(plan.root)
        self.room = Room(plan.root, plan.keep, plan.transcripts_bytes)
        self.stopping = False
        """Whether `stop` was called."""

    @property
    def cells_in_flight(self) -> Counter[str]:
        """Cells that have not ended, of the chunks that were begun, by setting id."""
        cells: Counter[str] = Counter()
        for lane in self._lanes:
            for one in lane.in_flight.values():
                cells[one.work.setting.id] += one.unfinished
        return cells

    @property
    def signs_in_flight(self) -> list[tuple[str, Sign]]:
        """What the workers of chunks that have not ended said last of cells that have, with their settings' ids."""
        tries = (one for lane in self._lanes for one in lane.in_flight.values())
        return [(one.work.setting.id, one.sign) for one in tries if one.sign]

    @property
    def money_in_flight(self) -> float:
        """US dollars of the chunks that have not ended, as far as their workers said."""
        return sum(sign.money for _, sign in self.signs_in_flight)

    def stop(self) -> None:
        """Begin no further cell: the run ends when those in flight have ended."""
        self.stopping = True
        self._signs.stop()

    def go(self) -> None:
        """Run until nothing is left, or until what is in flight has ended after `stop`.

        Raises:
            UnfinishedError: rows cannot be written, or no machine of the cluster or no replica of a model is left.
        """
        try:
            with self._signs, self._money or nullcontext():
                self._go()
        except StoreError as error:
            raise UnfinishedError(str(error)) from None

    def _go(self) -> None:
        import ray

        ticked = time.monotonic()
        while True:
            self._begin()
            in_flight = {task: lane for lane in self._lanes for task in lane.in_flight}
            if not in_flight:
                if any(lane.again for lane in self._lanes):
                    self.stop()  # there is no money for what waits
                break
            ended, _ = ray.wait(list(in_flight), num_returns=1, timeout=_TICK_SECONDS)
            for task in ended:
                self._end(in_flight[task], task, in_flight[task].in_flight.pop(task))
            passed = time.monotonic() - ticked
            if passed >= _TICK_SECONDS / 2:
                ticked += passed
                if not alive():
                    raise UnfinishedError("no machine of the Ray cluster is left; run again with the same name")
                self._limit = self._bound()
                for lane in self._lanes:
                    self._listen(lane, min(passed, 2 * _TICK_SECONDS))
                if self._tick:
                    self._tick()
        if self._compacting is not None:
            ray.wait([self._compacting])

    def _bound(self) -> int:
        """Chunks that may be in flight; machines come and go."""
        return self._plan.cluster.chunks_in_flight or 2 * cpus()

    def _size(self, lane: Lane, setting: Any) -> int:
        return lane.size(setting, self._plan.cluster.chunk_cells, self._limit)

    def _has_room(self, lane: Lane) -> bool:
        if self._plan.cluster.chunks_in_flight:
            return sum(len(one.in_flight) for one in self._lanes) < self._limit
        return lane.has_room(self._limit)

    def _begin(self) -> None:
        import ray

        remote = ray.remote(max_retries=0)(solve_chunk)  # a task that died is cut up, not only repeated
        for lane in self._lanes:
            while not self.stopping and self._has_room(lane):
                work = lane.next()
                if work is not None and self._money:
                    work = self._affordable(self._money, lane, work)
                if work is None:
                    break
                chunk = Chunk(
                    setting=work.setting,
                    cells=work.cells,
                    at_once=lane.at_once,
                    budget=self._plan.budget,
                    limits=self._limits,
                    keep=self.room.keep,
                    root=self._plan.root.absolute(),
                    stamp=self._stamp,
                    run_id=self._signs.run_id,
                    attempt_id=uuid.uuid4().hex,
                    pools=lane.pools,
                    money=(self._money.limit, self._money.actor) if self._money else None,
                )
                cpus_of = _WAITING_CPUS if lane.pools else 1
                task = remote.options(num_cpus=cpus_of, name=work.name).remote(chunk)
                lane.in_flight[task] = Try(work, chunk.attempt_id, time.monotonic())

    def _affordable(self, money: Money, lane: Lane, work: Work) -> Work | None:
        """Those of its cells that there is money for; the others wait."""
        tries = [one for each in self._lanes for one in each.in_flight.values()]
        spends = [(one.work.setting.id, len(one.work.cells), one.sign.money if one.sign else 0.0) for one in tries]
        count = money.cells(work.setting.id, len(work.cells), spends)
        if rest := work.cells[count:]:
            lane.again.appendleft(replace(work, cells=rest))
        return replace(work, cells=work.cells[:count]) if count else None

    def _end(self, lane: Lane, task: Any, tried: Try) -> None:
        import ray

        try:
            report: Report = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, StoreError | UnfinishedError):
                raise error.cause from None
            setting_id, lost = tried.work.setting.id, 0.0
            if self._money:
                self._money.gone(tried.attempt_id)
                lost = tab_of(self._plan.root, setting_id, tried.attempt_id).dollars()
            self._tell(Report(setting_id, tried.unfinished, error=_said(error), money=lost))
        except (ray.exceptions.RayError, ray.exceptions.TaskCancelledError) as error:
            self._died(lane, tried, (str(error).strip() or type(error).__name__).splitlines()[0])
        else:
            lane.took(report.setting_id, report.cells, report.seconds)
            self.room.took(report.cells, report.transcripts)
            self._tell(report)
            if report.unpaid:
                self.stop()
            self._compact(report.writes)
            if report.left and not self.stopping:
                raise UnfinishedError(f"{self._plan.root}: what a running sweep keeps there is gone; run it again")
        self._signs.forget(tried.attempt_id)

    def _tell(self, report: Report) -> None:
        if self._money:
            self._money.count(report)
        self._report(report)

    def _died(self, lane: Lane, tried: Try, why: str) -> None:
        """A task ended without an answer: try its halves again, so that one deadly case loses no other."""
        work, seconds = tried.work, time.monotonic() - tried.started
        tab = tab_of(self._plan.root, work.setting.id, tried.attempt_id)
        ended, result = self._known(tried, tab)
        prices = build(work.setting, self._plan.budget).prices
        money = at_least(prices, result.spent)
        if self._money:
            self._money.gone(tried.attempt_id)
            money = max(money or 0.0, tab.dollars())  # what was at a server then, too
        if not store.rows_of_try(self._plan.root, "attempts", tried.attempt_id):
            made, died = self._stamp.now(), len(work.cells)
            row = attempt_row(tried.attempt_id, work.setting.id, prices, result, seconds, made, died)
            if row["money"] is not None:
                row["money"] = money
            store.write(self._plan.root, {"attempts": [row]})
        forget(self._plan.root, work.setting.id, tried.attempt_id)
        told = Report(work.setting.id, result.cells, result.ok, result.failed, usage=result.usage, seconds=seconds)
        self._tell(replace(told, money=money))
        cells = [cell for cell in work.cells if cell.cell_id not in ended]
        sign = self._signs.read(tried.attempt_id)
        blocking = next((cell for cell in cells if sign and cell.cell_id == sign.blocked), None)
        if blocking:
            message = "it held its worker's event loop for longer than cluster.case_seconds"
            self._give_up(tried, blocking, ErrorKind.TIMEOUT, message)
            again = [replace(work, cells=[cell for cell in cells if cell is not blocking], deaths=0)]
        elif len(work.cells) > 1:
            middle = len(cells) // 2
            again = [replace(work, cells=half) for half in (cells[:middle], cells[middle:])]
        elif work.deaths + 1 < DEATHS:
            again = [replace(work, cells=cells, deaths=work.deaths + 1)]
        else:
            message = f"its worker ended {DEATHS} times while it ran alone, the last: {tried.ended or why}"
            for cell in cells:
                self._give_up(tried, cell, ErrorKind.INFRASTRUCTURE, message)
            again = []
        lane.again.extendleft(one for one in reversed(again) if one.cells)

    def _known(self, tried: Try, tab: Tab) -> tuple[set[str], ChunkResult]:
        """The cells of a try that have rows, and their sums, or what replicas or it itself counted if that is more."""
        rows, result = store.rows_of_try(self._plan.root, "episodes", tried.attempt_id), ChunkResult()
        for row in rows:
            result.count(row["status"], spent_by_columns(row))
        config = tried.work.setting.config
        for roles in by_pool(config).values():  # which replicas do not tell apart
            counted = sum((result.spent.pop(role) for role in roles), Usage())
            answered = self._fleet.spent(models(config)[roles[0]], tried.attempt_id)
            paid = sum((tab.spent.get(role, Usage()) for role in roles), Usage())
            result.spent[roles[0]] = larger(larger(counted, answered), paid)
        return {row["cell_id"] for row in rows}, result

    def _give_up(self, tried: Try, cell: Cell, kind: ErrorKind, message: str) -> None:
        built = build(tried.work.setting, self._plan.budget)
        row = killed_cell(built, tried.work.setting, cell, self._stamp, tried.attempt_id, kind, message)
        store.write(self._plan.root, {"episodes": [row]})
        self._tell(Report(tried.work.setting.id, 1, failed=1, unknown=int(kind not in UNRESOLVED)))

    def _listen(self, lane: Lane, passed: float) -> None:
        """Hear what workers say; end those that have said nothing for too long, and do without those that stay."""
        import ray

        busy = any(one.sign for each in self._lanes for one in each.in_flight.values())
        for task, tried in list(lane.in_flight.items()):
            lane.hear(tried, self._signs.read(tried.attempt_id), passed, busy)
            if tried.silent < _SILENT_SECONDS * (1 if tried.sign else 2**tried.work.waited):
                continue
            if tried.sign is None:  # its worker stood still before it began; or it waits, and does so again
                ray.cancel(task, force=True)
                del lane.in_flight[task]
                lane.again.appendleft(replace(tried.work, waited=tried.work.waited + 1))
            elif tried.ended is None:
                tried.ended, tried.silent = f"it gave no sign of life for {tried.silent:.0f} s", 0.0
                _end_on(tried.sign.node, tried.sign.pid, tried.sign.started)
            else:
                del lane.in_flight[task]
                self._died(lane, tried, tried.ended)

    def _compact(self, writes: int) -> None:
        """Have small files merged, one task at a time."""
        import ray

        self._writes += writes
        if self._writes < _COMPACT_EVERY:
            return
        if self._compacting is None or ray.wait([self._compacting], timeout=0)[0]:
            self._writes = 0
            remote = ray.remote(num_cpus=0, max_retries=0)(store.compact)
            self._compacting = remote.remote(self._plan.root.absolute())


def _said(error: Any) -> str:
    """What a task raised, in a line; of a group the first error, as the last line of its text is a frame."""
    cause = error.cause
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return shown(f"{type(cause).__name__}: {cause}".splitlines()[0])


def _end_on(node: str, pid: int, started: int) -> None:
    """End a process on a machine of the cluster; Ray's own way asks the process itself."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    ray.remote(num_cpus=0, max_retries=0)(end_process).options(scheduling_strategy=there).remote(pid, started)


# Pilots on a Ray cluster, with a sweep's engines and as many cells side by side as it will have.


@dataclass(frozen=True)
class Side:
    """What settings of one lane run on: so many `cells` side by side, or tasks where these have the engine.

    `capacity`: calls that its replicas answer at once, where how long one takes does not hang on how many others there
    are; None where it does, or nothing answers but the task.
    """

    settings: Sequence[Setting]
    cells: int
    pooled: bool
    capacity: int | None

    def seconds(self, settings: Sequence[Setting], pilots: Mapping[str, Pilot], pending: Mapping[str, int]) -> float:
        """How long the cells of some settings that are `pending` take, by those pilots that say something."""
        total = longest = 0.0
        for setting in settings:
            pilot = pilots.get(setting.id)
            if pilot and pilot.batches and pending[setting.id]:
                total += pending[setting.id] * self._share(pilot)
                longest = max(longest, *(one.seconds for one in pilot.largest.took))
        return max(total, longest) if self.pooled else total

    def _share(self, pilot: Pilot) -> float:
        """The seconds by which one cell makes a sweep longer."""
        batch = pilot.largest
        each = batch.seconds / len(batch.took)
        if not self.pooled:
            return each / self.cells
        if self.capacity is None:
            return each
        calls = batch.calls / batch.cells * self.cells  # as a sweep would have in flight
        return each * min(batch.calls, self.capacity) / min(calls, self.capacity) if calls else each


def pilots_on(plan: Plan, fleet: Fleet, done: CellIds, calls: int) -> tuple[dict[str, Pilot], list[Side]]:
    """By setting id what its cells take, `calls` for each at most; and what they run on.

    Raises:
        GridError: what keeps a worker from running anything at all.
    """
    found: dict[str, Pilot] = {}
    sides = []
    for lane in lanes_of(plan, done, fleet):
        sides.append(_side(plan, lane))
        for first in range(0, len(lane.settings), _tasks(plan, lane)):
            now = lane.settings[first : first + _tasks(plan, lane)]
            found |= _together(plan, lane, now, done, calls)
    return found, sides


def _tasks(plan: Plan, lane: Lane) -> int:
    """Tasks of a lane that run side by side; of one whose replicas answer, one task has all cells."""
    return 1 if lane.pools else min(cpus(), plan.cluster.chunks_in_flight or cpus())


def _side(plan: Plan, lane: Lane) -> Side:
    homes = {build_engine(model).home for one in lane.settings for model in models(one.config).values()}
    if not lane.pools:
        return Side(lane.settings, _tasks(plan, lane), pooled=False, capacity=None)
    capacity = None if "replica" in homes else ceil(lane.target / AHEAD)
    return Side(lane.settings, lane.target, pooled=True, capacity=capacity)


def _together(plan: Plan, lane: Lane, settings: Sequence[Setting], done: CellIds, calls: int) -> dict[str, Pilot]:
    """The pilots of some settings, side by side."""
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
        return Pilot(why=_said(error))
    except ray.exceptions.RayError as error:
        return Pilot(why=(str(error).strip() or type(error).__name__).splitlines()[0])
    return replace(pilot, start=max(began - ordered, 0.0))


def pilot_task(trial: Trial) -> tuple[Pilot, float]:
    """Run a trial in a worker; its pilot, and the time of the day, in seconds, when its first cell began."""
    end_when_too_large(trial.limits.memory_gib)
    built = build(trial.setting, trial.budget)
    expect_code(trial.setting)
    began = time.time()
    return piloted(trial, with_pools(built, trial.setting, trial.pools, "pilot")), began


# Lanes: the work of settings that share engines, what of it is in flight, and how much may be.


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

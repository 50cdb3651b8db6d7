"""Runs a plan on Ray: chunks of cells become tasks, a limited number at a time; cells of dead tasks are run again."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from grid import store
from grid.cells.deadline import Limits
from grid.cells.paying import Tab, forget, tab_of
from grid.cells.rows import ChunkResult, Room, attempt_row, larger, spent_by_columns
from grid.cells.run import UNRESOLVED, Stamp, killed_cell
from grid.cluster.connection import alive, cpus
from grid.cluster.fleet import Fleet
from grid.cluster.lanes import Lane, Try, Work, lanes_of
from grid.cluster.money import Money
from grid.cluster.signs import Sign, Signs, end_process
from grid.cluster.worker import Chunk, Report, solve_chunk
from grid.core.errors import ErrorKind, StoreError, UnfinishedError
from grid.core.types import Usage
from grid.core.untrusted import shown
from grid.settings.build import build
from grid.settings.plan import Plan
from grid.settings.roles import at_least, by_pool, models
from grid.settings.setting import Cell, Setting

__all__ = ["Report", "Run"]
DEATHS = 3  # after this many worker deaths with only this cell, the cell's row says that its worker died
_WAITING_CPUS = 0.25  # CPUs of a task that mostly waits, because its engine is in replicas
_TICK_SECONDS = 5.0
_TURN_SECONDS = 0.5  # between two checks while models wait for their turn
_SILENT_SECONDS = 90.0  # after which a worker that sends no sign is ended
_COMPACT_EVERY = 100  # number of writes of rows


class Run:
    """One run of a plan's cells that are not `done`.

    Args:
        plan: the plan to run.
        done: the ids of cells that need not run.
        report: called in the driver when an attempt at a chunk ends, in the order in which attempts end; also called
            for cells that get failed rows from the driver.
        fleet: holds the replicas of the plan's models.
        tick: called every few seconds.
        money: the budget that limits the run's cells, if there is one; the run adds each report to it.
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
            lane.fresh = plan.chunks(done, partial(self._size, lane), lane.settings, grouped=money is None)
            lane.ended = not lane.loaded and not lane.any
        fleet.need(lane.team for lane in self._lanes if not lane.ended)
        self._writes, self._compacting = 0, None
        self._stamp = Stamp(plan.name, plan.git_commit, store.newest(plan.root))
        self._signs = Signs(plan.root)
        self.room = Room(plan.root, plan.keep, plan.transcripts_bytes)
        self.stopping = False
        """Whether `stop` was called."""
        self.unaffordable: Setting | None = None
        """The setting whose next cell was expected to cost more than the money left, so that the run ended."""

    @property
    def cells_in_flight(self) -> Counter[str]:
        """The number of unfinished cells in chunks that have begun, by setting id."""
        cells: Counter[str] = Counter()
        for lane in self._lanes:
            for one in lane.in_flight.values():
                cells[one.work.setting.id] += one.unfinished
        return cells

    @property
    def signs_in_flight(self) -> list[tuple[str, Sign]]:
        """The last sign of each worker that is still running a chunk, with the chunk's setting id."""
        tries = (one for lane in self._lanes for one in lane.in_flight.values())
        return [(one.work.setting.id, one.sign) for one in tries if one.sign]

    @property
    def money_in_flight(self) -> float:
        """The US dollars spent so far by chunks that are still running, as reported by their workers."""
        return sum(sign.money for _, sign in self.signs_in_flight)

    def stop(self) -> None:
        """Begin no more cells; the run ends when the cells in flight have ended."""
        self.stopping = True
        self._signs.stop()

    def go(self) -> None:
        """Run until no cell is left or, after `stop`, until the cells in flight have ended.

        Raises:
            UnfinishedError: rows cannot be written, files of the run are gone, the cluster has no head or no machine
                left, a model has no replica left, or a machine's code differs from the driver's.
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
            self._take_turns()
            self._begin()
            in_flight = {task: lane for lane in self._lanes for task in lane.in_flight}
            waiting = not self.stopping and any(not lane.ended and not lane.loaded for lane in self._lanes)
            if not in_flight:
                if self.stopping or not waiting:
                    break
                time.sleep(_TURN_SECONDS)
            ended, _ = ray.wait(list(in_flight), timeout=_TURN_SECONDS if waiting else _TICK_SECONDS)
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

    def _take_turns(self) -> None:
        """Open lanes whose models are loaded, release the models of ended lanes, and fail cells of lost models."""
        self._fleet.advance()
        for lane in self._lanes:
            if lane.ended:
                continue
            if not lane.loaded and self._fleet.ready(lane.team):
                lane.open(self._fleet)
            elif not lane.loaded and (why := self._fleet.lost(lane.team)) is not None and not self.stopping:
                self._fail(lane, why)
            if lane.loaded and not lane.in_flight and not lane.again and lane.exhausted:
                lane.ended = True
                self._fleet.done(lane.team)

    def _fail(self, lane: Lane, why: str) -> None:
        """Write failed rows for cells of a lane whose models are lost; returns soon, so that other lanes continue."""
        until, attempt_id = time.monotonic() + _TURN_SECONDS, uuid.uuid4().hex
        rows, failed = list[dict[str, Any]](), Counter[str]()
        while not lane.ended and time.monotonic() < until:
            work = lane.next()
            if work is None:
                lane.ended = True
                continue
            built = build(work.setting, self._plan.budget)
            failed[work.setting.id] += len(work.cells)
            for cell in work.cells:
                row = killed_cell(built, work.setting, cell, self._stamp, attempt_id, ErrorKind.INFRASTRUCTURE, why)
                rows.append(row)
        store.write(self._plan.root, {"episodes": rows})
        for setting_id, cells in failed.items():
            self._tell(Report(setting_id, cells, failed=cells, unknown=cells))
        self._compact(1)

    def _bound(self) -> int:
        """The number of chunks that may be in flight now; it changes as machines come and go."""
        return self._plan.cluster.chunks_in_flight or 2 * cpus()

    def _size(self, lane: Lane, setting: Setting) -> int:
        size = lane.size(setting, self._plan.cluster.chunk_cells, self._limit)
        return max(self._paid(self._money, setting, size), 1) if self._money else size

    def _has_room(self, lane: Lane) -> bool:
        if self._plan.cluster.chunks_in_flight:
            return sum(len(one.in_flight) for one in self._lanes) < self._limit
        return lane.has_room(self._limit)

    def _begin(self) -> None:
        import ray

        remote = ray.remote(max_retries=0)(solve_chunk)  # if a task dies, its cells are split up, not just repeated
        for lane in self._in_turn():
            while not self.stopping and lane.loaded and self._has_room(lane):
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
                cpus_of = _WAITING_CPUS if lane.keys else 1
                task = remote.options(num_cpus=cpus_of, name=work.name).remote(chunk)
                lane.in_flight[task] = Try(work, chunk.attempt_id, time.monotonic())

    def _in_turn(self) -> list[Lane]:
        """The lanes, in the order in which they may begin chunks.

        With a limit on money, these are only the loaded lanes that have cells to begin; the lane whose next setting has
        begun the fewest cells comes first.
        """
        if (money := self._money) is None:
            return self._lanes
        flying = Counter[str]()
        for tried in (one for lane in self._lanes for one in lane.in_flight.values()):
            flying[tried.work.setting.id] += len(tried.work.cells)

        def begun(lane: Lane) -> int:
            first = lane.again[0].setting.id
            return money.done[first][0] + flying[first]

        return sorted((lane for lane in self._lanes if lane.loaded and lane.any), key=begun)

    def _affordable(self, money: Money, lane: Lane, work: Work) -> Work | None:
        """The work, reduced to as many cells as there is money for (None if for none); the other cells wait.

        If there is not enough money for the next cell and no cell is in flight, the run stops. Cells of another setting
        might cost less, but all settings should have about the same cases.
        """
        count = self._paid(money, work.setting, len(work.cells))
        if rest := work.cells[count:]:
            lane.again.appendleft(replace(work, cells=rest))
        if not count and not any(one.in_flight for one in self._lanes):
            self.unaffordable = work.setting
            self.stop()
        return replace(work, cells=work.cells[:count]) if count else None

    def _paid(self, money: Money, setting: Setting, most: int) -> int:
        """The number of cells of a setting that there is money for, but at most `most`."""
        tries = [one for each in self._lanes for one in each.in_flight.values()]
        spends = [(one.work.setting.id, len(one.work.cells), one.sign.money if one.sign else 0.0) for one in tries]
        beside = [one.id for each in self._lanes if each.loaded for one in each.settings if one.id in money.done]
        return money.cells(setting.id, most, spends, beside)

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
            self._tell(Report(setting_id, tried.unfinished, error=said(error), money=lost))
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
                raise UnfinishedError(
                    f"{self._plan.root}: files that the running sweep needs are gone from this folder; run the sweep "
                    "again"
                )
        self._signs.forget(tried.attempt_id)

    def _tell(self, report: Report) -> None:
        if self._money:
            self._money.count(report)
        self._report(report)

    def _died(self, lane: Lane, tried: Try, why: str) -> None:
        """Handle a task that ended without an answer; its cells that have no row run again.

        If a cell blocked the worker, this cell fails and the others run again together. Otherwise each half runs again
        as a separate task, so that one deadly case does not affect the others. A cell that was alone fails after
        `DEATHS` deaths.
        """
        work, seconds = tried.work, time.monotonic() - tried.started
        tab = tab_of(self._plan.root, work.setting.id, tried.attempt_id)
        ended, result = self._known(tried, tab)
        prices = build(work.setting, self._plan.budget).prices
        money = at_least(prices, result.spent)
        if self._money:
            self._money.gone(tried.attempt_id)
            money = max(money or 0.0, tab.dollars())  # includes requests that were at a server when the worker died
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
            message = "the case blocked its worker's event loop for longer than cluster.case_seconds"
            self._give_up(tried, blocking, ErrorKind.TIMEOUT, message)
            again = [replace(work, cells=[cell for cell in cells if cell is not blocking], deaths=0)]
        elif len(work.cells) > 1:
            middle = len(cells) // 2
            again = [replace(work, cells=half) for half in (cells[:middle], cells[middle:])]
        elif work.deaths + 1 < DEATHS:
            again = [replace(work, cells=cells, deaths=work.deaths + 1)]
        else:
            message = (
                f"the worker ended {DEATHS} times while it ran only this case; the last reason: {tried.ended or why}"
            )
            for cell in cells:
                self._give_up(tried, cell, ErrorKind.INFRASTRUCTURE, message)
            again = []
        lane.again.extendleft(one for one in reversed(again) if one.cells)

    def _known(self, tried: Try, tab: Tab) -> tuple[set[str], ChunkResult]:
        """The ids of an attempt's cells that have rows, and the attempt's costs.

        Each cost is the largest of three sums: over the rows, over the replicas' counts, and over the attempt's ledger.
        """
        rows, result = store.rows_of_try(self._plan.root, "episodes", tried.attempt_id), ChunkResult()
        for row in rows:
            result.count(row["status"], spent_by_columns(row))
        config = tried.work.setting.config
        for roles in by_pool(config).values():  # replicas count roles with the same model together
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
        """Read the workers' signs, end workers that are silent for too long, and give up on workers that do not end.

        A task whose worker never gave a sign is cancelled and begins again later; it then gets twice the time.
        """
        import ray

        busy = any(one.sign for each in self._lanes for one in each.in_flight.values())
        for task, tried in list(lane.in_flight.items()):
            lane.hear(tried, self._signs.read(tried.attempt_id), passed, busy)
            if tried.silent < _SILENT_SECONDS * (1 if tried.sign else 2**tried.work.waited):
                continue
            if tried.sign is None:  # its worker hung before it began, or the task still waits, and will wait again
                ray.cancel(task, force=True)
                del lane.in_flight[task]
                lane.again.appendleft(replace(tried.work, waited=tried.work.waited + 1))
            elif tried.ended is None:
                tried.ended, tried.silent = f"the worker gave no sign of life for {tried.silent:.0f} s", 0.0
                _end_on(tried.sign.node, tried.sign.pid, tried.sign.started)
            else:
                del lane.in_flight[task]
                self._died(lane, tried, tried.ended)

    def _compact(self, writes: int) -> None:
        """Have a task merge small files; only one such task runs at a time."""
        import ray

        self._writes += writes
        if self._writes < _COMPACT_EVERY:
            return
        if self._compacting is None or ray.wait([self._compacting], timeout=0)[0]:
            self._writes = 0
            remote = ray.remote(num_cpus=0, max_retries=0)(store.compact)
            self._compacting = remote.remote(self._plan.root.absolute())


def said(error: Any) -> str:
    """The error of a task in one line; for a group of errors, the first error.

    The first error is used because the traceback of a group ends with a ruled line.
    """
    cause = error.cause
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return shown(f"{type(cause).__name__}: {cause}".splitlines()[0])


def _end_on(node: str, pid: int, started: int) -> None:
    """End a process on a machine of the cluster, even if it does not respond and Ray itself could not end it."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    ray.remote(num_cpus=0, max_retries=0)(end_process).options(scheduling_strategy=there).remote(pid, started)

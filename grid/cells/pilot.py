"""Estimates the costs of a setting's cells for dry runs, from a few cells whose results are not kept."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from grid.cells import deadline
from grid.cells.deadline import Limits
from grid.cells.metered import metered
from grid.cells.rows import ChunkResult, spent_in
from grid.cells.run import CONCURRENT_CELLS, Stamp, run_chunk
from grid.core.engine import Choice, Role, Sampled
from grid.core.errors import ErrorKind, UnfinishedError
from grid.core.types import Usage
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.plan import Plan
from grid.settings.setting import Cell, Keep, Setting
from grid.store import CellIds

# Estimates, from pilots, of the tokens and the money that the cells to run will use, each with its spread.


@dataclass(frozen=True)
class Estimate:
    """An estimated sum over cells; `spread` is twice its standard error, or None if only one cell was run."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class Forecast:
    """The estimated costs of the cells that a setting has to run; an unknown cost is None."""

    input_tokens: Estimate | None
    output_tokens: Estimate | None
    money: Estimate | None


def forecast(pilot: Pilot, cells: int) -> Forecast | None:
    """The forecast for `cells` cells; None if none of the pilot's cells counts."""
    took = pilot.took
    if not took:
        return None
    return Forecast(
        _estimate([one.input_tokens for one in took], cells),
        _estimate([one.output_tokens for one in took], cells),
        _estimate([one.money for one in took], cells),
    )


def total(parts: Iterable[Estimate]) -> Estimate:
    """The sum of estimates. Spreads are added up as well, because the pilots of all settings use the same cases.

    The spread is None if any of the spreads is None.
    """
    every = list(parts)
    spreads = [one.spread for one in every]
    known = [one for one in spreads if one is not None]
    value = math.fsum(one.value for one in every)
    return Estimate(value, math.fsum(known) if len(known) == len(every) else None)


def _estimate(values: Sequence[float | None], cells: int) -> Estimate | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    spread = 2 * cells * statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else None
    return Estimate(cells * statistics.fmean(known), spread)


# The costs of a setting's cells for dry runs, from a few cells that are run but not kept.


CASES = 2
"""The number of a setting's cells that a dry run runs by default."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_SINGLE = 1_000_000  # number of calls, so large that it is no cap
_NO_RESULT = (ErrorKind.INFRASTRUCTURE, ErrorKind.CODE, ErrorKind.TIMEOUT)
_BLOCK = 10_000
T = TypeVar("T")
Answer = TypeVar("Answer", Sampled, Choice)


@dataclass(frozen=True)
class Took:
    """The costs of one cell for all roles together; `seconds` is the time from its start to its end.

    Tokens are None if they were not counted. Money is None if tokens were not counted or a price is missing.
    """

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    money: float | None
    seconds: float


@dataclass(frozen=True)
class Batch:
    """Cells run together, at most `side` of them in parallel; `seconds` is the time until all cells had ended.

    `calls` is the mean number of calls in flight. `cpu` is the processor time in seconds of this process and of
    programs that it started and that have ended, such as MCP servers.
    """

    took: Sequence[Took]
    side: int
    seconds: float
    calls: float
    cpu: float = 0.0

    @property
    def cells(self) -> float:
        """The mean number of cells that ran in parallel; less than `side`, because fewer cells run towards the end."""
        return math.fsum(one.seconds for one in self.took) / self.seconds


@dataclass(frozen=True)
class Pilot:
    """The result for a setting, or the reason `why` there is none. `calls` includes calls of cells that a cap ended.

    `start` is the time in seconds from ordering the pilot to its first cell; it includes starting a worker, imports,
    and reading the dataset. `broken_off`: the allowed calls were used up while cells were running; these cells do not
    count, and may be longer than the others.
    """

    batches: Sequence[Batch] = ()
    calls: int = 0
    why: str | None = None
    start: float = 0.0
    broken_off: bool = False

    @property
    def took(self) -> list[Took]:
        """The costs of all cells that count."""
        return [one for batch in self.batches for one in batch.took]

    @property
    def largest(self) -> Batch:
        """The batch most like a sweep: the one with the most cells (of several, the last). There must be a batch."""
        return max(reversed(self.batches), key=lambda batch: len(batch.took))


@dataclass(frozen=True)
class Trial:
    """The cells of a setting that a pilot may run, in order, and how they are run."""

    setting: Setting
    cells: Sequence[Cell]
    calls: int
    side: int
    stamp: Stamp
    keep: Keep
    budget: BudgetConfig
    limits: Limits
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)


def trial_of(plan: Plan, setting: Setting, done: CellIds, calls: int | None, side: int = CONCURRENT_CELLS) -> Trial:
    """A trial of at most `calls` (None: CASES) cells, spread evenly over the cells that are not `done`."""
    waiting = [cell for _, block in plan.chunks(done, lambda _: _BLOCK, [setting]) for cell in block]
    cells = spread(waiting, CASES if calls is None else calls)
    stamp = Stamp(plan.name, plan.git_commit)
    limits = Limits(plan.cluster.case_seconds, plan.cluster.worker_memory_gib)
    return Trial(setting, cells, calls or _SINGLE, side, stamp, plan.keep, plan.budget, limits)


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` items, evenly spaced; for every n, the first n of these items are evenly spaced too."""
    places = sorted(range(len(items)), key=lambda place: place * _GOLDEN % 1)
    return [items[place] for place in places[:most]]


def piloted(trial: Trial, built: Built) -> Pilot:
    """Run a trial in this process: one cell, then twice as many each time, until the remaining calls seem too few.

    So the cap on calls rarely interrupts a cell. A batch with an interrupted cell does not count, because its long
    cells would be missing.
    """
    cap = Cap(trial.calls)
    return deadline.run(_run(trial, metered(built, cap, built.engines), cap))


async def _run(trial: Trial, built: Built, cap: Cap) -> Pilot:
    batches: list[Batch] = []
    broken_off = False
    waiting, size, most = list(trial.cells), 1, 1
    while (count := min(size, cap.left // most, len(waiting))) > 0:  # `cap.left` may be negative
        cells, waiting = waiting[:count], waiting[count:]
        try:
            batch, rows = await _batch(trial, built, cells, cap)
        except CapError:
            broken_off = True
            break
        broken = next((row for row in rows if row["error_kind"] in _NO_RESULT), None)
        if broken:
            why = f"a cell failed ({broken['error_kind']}): {broken['error_message']}"
            return Pilot(calls=cap.calls - cap.left, why=why)
        batches.append(batch)
        size, most = 2 * size, max(most, *(one.calls for one in batch.took))
    used = cap.calls - cap.left
    if not batches:
        return Pilot(
            calls=used, why=f"one cell takes more than {cap.calls} calls" if trial.cells else "no cell is left"
        )
    return Pilot(batches, used, broken_off=broken_off)


async def _batch(
    trial: Trial, built: Built, cells: Sequence[Cell], cap: Cap
) -> tuple[Batch, Sequence[Mapping[str, Any]]]:
    began, asked, busy, result = time.perf_counter(), cap.seconds, _cpu_seconds(), ChunkResult()
    await run_chunk(
        built,
        trial.setting,
        cells,
        trial.stamp,
        case_seconds=trial.limits.case_seconds,
        at_once=trial.side,
        result=result,
        keep=trial.keep,
    )
    seconds, rows = time.perf_counter() - began, result.take()["episodes"]
    took, side = [_took(row) for row in rows], min(trial.side, len(cells))
    return Batch(took, side, seconds, (cap.seconds - asked) / seconds, _cpu_seconds() - busy), rows


def _cpu_seconds() -> float:
    """The processor time of this process and of programs that it started and that have ended."""
    return math.fsum(os.times()[:4])


def _took(row: Mapping[str, Any]) -> Took:
    spent = sum(spent_in(row).values(), Usage())
    calls, known = spent.llm_calls + spent.forward_passes, spent.known()
    return Took(calls, known["input_tokens"], known["output_tokens"], row["money"], row["wall_seconds"])


def pilots_here(plan: Plan, settings: Iterable[Setting], done: CellIds) -> dict[str, Pilot]:
    """Each setting's pilot of CASES cells, run in this process, by setting id.

    If a setting has engines that run outside the task, its pilot only gives the reason why there is no result.
    """
    found = {}
    for setting in settings:
        built = build(setting, plan.budget)
        elsewhere = sorted({engine.name for engine in built.engines.values() if engine.home != "task"})
        if elsewhere:
            why = (
                f"calls of {' and '.join(elsewhere)} cost time or money, so a pilot needs a limit on calls: set "
                "dry_run.pilot=N"
            )
            found[setting.id] = Pilot(why=why)
        else:
            found[setting.id] = piloted(trial_of(plan, setting, done, None), built)
    return found


# Engines with a limit on the total number of calls, for pilots.


class CapError(UnfinishedError):
    """No more calls are allowed; cells in flight end without a row."""


class Cap:
    """A limit on the number of completions and scoring passes of all roles together.

    The number of passes of a choice is only known from its answer, so choices in flight may exceed the cap. `seconds`
    is the time in flight, summed over all calls.
    """

    def __init__(self, calls: int) -> None:
        self.calls = self.left = calls
        self.seconds = 0.0

    def take(self, calls: int) -> None:
        """Use up `calls` calls; raise CapError if fewer calls are left."""
        if calls > self.left:
            raise CapError(f"the calls that dry_run.pilot={self.calls} allows do not suffice")
        self.left -= calls

    async def asked(self, role: Role, calls: int, request: Callable[[], Awaitable[Answer]]) -> Answer:
        """The request's answer; the request's calls count towards the limit, whatever its role. Raises like `take`."""
        self.take(calls)
        began = time.monotonic()
        try:
            answer = await request()
        finally:
            self.seconds += calls * (time.monotonic() - began)
        if isinstance(answer, Choice):
            self.left -= max(answer.usage.forward_passes - 1, 0)
        return answer

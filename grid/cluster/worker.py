"""Runs a chunk of cells in a worker, which writes rows as cells end, gives signs of life, and obeys a stop."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from grid import store
from grid.cells.deadline import CaseLoop, Limits, end_when_too_large
from grid.cells.paying import Ledger, Paying, forget
from grid.cells.printed import printed
from grid.cells.rows import TABLES, ChunkResult, attempt_row, larger
from grid.cells.run import Stamp, run_chunk
from grid.cluster.client import PooledEngine
from grid.cluster.money import Till
from grid.cluster.signs import Sign, Speaker, started_at
from grid.core.engine import ACTOR
from grid.core.errors import StoreError
from grid.core.types import Usage
from grid.settings.build import Built, build, expect_code
from grid.settings.config import BudgetConfig
from grid.settings.roles import Prices, at_least, by_pool
from grid.settings.setting import Cell, Keep, Setting

_BEAT_SECONDS = 1.0
_WRITE_SECONDS = 10.0  # between two writes of rows; longer than most chunks last
_ALLOCATIONS = 50_000  # allocations between two searches of the youngest objects for cycles
_BLOCKED = 72  # the exit status of a process whose event loop is blocked


@dataclass(frozen=True)
class Chunk:
    """Cells of one setting, and everything that a worker needs to run the cells, `at_once` of them side by side.

    `pools` has the replicas by model and name. `money` is the budget for all cells of the sweep, in US dollars, and the
    actor that refuses requests beyond the budget (None if requests are never refused).
    """

    setting: Setting
    cells: Sequence[Cell]
    at_once: int
    budget: BudgetConfig
    limits: Limits
    keep: Keep
    root: Path
    stamp: Stamp
    run_id: str
    attempt_id: str
    pools: Mapping[str, Mapping[str, Any]] = field(repr=False)
    money: tuple[float, Any] | None = None


@dataclass
class Report:
    """The results of one attempt at a chunk; if its cells have no rows, `error` says why.

    `unknown` is the number of cells whose success cannot be determined (`rows.untold`). `left` counts the cells that
    did not begin or have no row; `unpaid` counts those of the `left` cells for which there was no money. `writes` is
    the number of times the attempt wrote rows, `transcripts` the size in bytes of its cells' transcripts, and `kept`
    the number of cells with a transcript. `money` is in US dollars, and excludes answers whose tokens are not counted;
    it is None if a price is unknown. `usage`, `money` and `seconds` include unpaid cells and, if the worker died, cells
    that run again.
    """

    setting_id: str
    cells: int
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    error: str | None = None
    left: int = 0
    unpaid: int = 0
    writes: int = 0
    kept: int = 0
    transcripts: int = 0
    money: float | None = 0.0


_sections_written: dict[str, set[str]] = {}
"""The digests of the sections that this process wrote in the current run.

Sections of earlier runs do not count, because their files may have been put aside.
"""


def _written_in(run_id: str) -> set[str]:
    if run_id not in _sections_written:
        _sections_written.clear()
    return _sections_written.setdefault(run_id, set())


def solve_chunk(chunk: Chunk) -> Report:
    """Run a chunk and write its rows in this worker; only the chunk's totals are returned to the driver.

    Raises:
        StoreError: rows cannot be written.
        UnfinishedError: no replica is left that could answer, the actor that counts money is gone, or this machine's
            code, plugins or memory of traces differ from the driver's.
    """
    started, result = time.monotonic(), ChunkResult(sections=_written_in(chunk.run_id))
    speaker = Speaker(chunk.root, chunk.run_id, chunk.attempt_id)
    if speaker.told_to_stop():
        return Report(chunk.setting.id, 0, left=len(chunk.cells))
    end_when_too_large(chunk.limits.memory_gib)
    with _Pulse(chunk, speaker, result) as pulse, printed(chunk.root, chunk.setting):
        built = build(chunk.setting, chunk.budget)
        expect_code(chunk.setting)
        built = with_pools(built, chunk.setting, chunk.pools, chunk.attempt_id)
        _collect_seldom()
        paying = _paying(chunk, built.prices)
        pulse.run(built, paying)
    seconds = time.monotonic() - started
    for role, usage in paying.spent.items() if paying else ():
        result.spent[role] = larger(result.spent[role], usage)
    if result.cells or (paying and paying.spent):
        row = attempt_row(chunk.attempt_id, chunk.setting.id, built.prices, result, seconds, chunk.stamp.now())
        store.write(chunk.root, {"attempts": [row]})  # written after all episodes, so that no row counts twice
    if paying:
        forget(chunk.root, chunk.setting.id, chunk.attempt_id)
    left, total = len(chunk.cells) - result.cells, time.monotonic() - started
    return Report(
        chunk.setting.id,
        result.cells,
        result.ok,
        result.failed,
        result.unknown,
        result.usage,
        total,
        left=left,
        unpaid=paying.unpaid if paying else 0,
        writes=pulse.writes,
        kept=result.kept,
        transcripts=pulse.transcripts,
        money=at_least(built.prices, result.spent),
    )


def _paying(chunk: Chunk, prices: Prices) -> Paying | None:
    """The object that records the chunk's payments; None without a limit."""
    if chunk.money is None:
        return None
    limit, actor = chunk.money
    ledger = Ledger(chunk.root, chunk.setting.id, chunk.attempt_id)
    return Paying(ledger, prices, limit, Till(actor, chunk.setting.id, chunk.attempt_id) if actor else None)


@cache
def _collect_seldom() -> None:
    """Make Python search for reference cycles less often: rows have none, and the search took a sixth of the time.

    This is set once per process.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)


def with_pools(built: Built, setting: Setting, pools: Mapping[str, Mapping[str, Any]], attempt_id: str) -> Built:
    """The setting, with pools in place of engines that have replicas; roles with the same pool share an engine."""
    engines = built.engines
    for key, roles in by_pool(setting.config).items():
        if key in pools:
            pooled = PooledEngine(engines[roles[0]], pools[key], attempt_id)
            engines |= dict.fromkeys(roles, pooled)
    return replace(built, engine=engines.pop(ACTOR), roles=engines)


class _Pulse:
    """A thread beside the event loop; it keeps running even if a step blocks the loop. A context manager.

    At its end all rows are written, even after an error.
    """

    def __init__(self, chunk: Chunk, speaker: Speaker, result: ChunkResult) -> None:
        import ray

        self._chunk, self._speaker, self._result = chunk, speaker, result
        self._loop = CaseLoop()
        self._clock = self._loop.clock
        self._sign = Sign(os.getpid(), started_at(os.getpid()) or 0, ray.get_runtime_context().get_node_id())
        self._thread = threading.Thread(target=self._beat, daemon=True, name="pulse")
        self._over, self._stopping = threading.Event(), False
        self._failure: StoreError | None = None
        self._work: asyncio.Task[Any] | None = None
        self._prices: Prices = {}
        self._paying: Paying | None = None
        self.writes = self.transcripts = 0

    def __enter__(self) -> _Pulse:
        self._clock.pulse()
        self._began = self._clock.now()
        self._speaker.say(self._sign)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._loop.close()
        self._write()

    def run(self, built: Built, paying: Paying | None) -> None:
        """Run the chunk's cells until all have ended or, after a stop, until those in flight have ended."""
        self._paying = paying
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run(built))
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            raise self._failure from None

    async def _run(self, built: Built) -> None:
        self._work, self._prices = asyncio.current_task(), built.prices
        chunk = self._chunk
        await run_chunk(
            built,
            chunk.setting,
            chunk.cells,
            chunk.stamp,
            attempt_id=chunk.attempt_id,
            case_seconds=chunk.limits.case_seconds,
            at_once=chunk.at_once,
            result=self._result,
            keep=chunk.keep,
            stopping=lambda: self._stopping,
            paying=self._paying,
        )

    def _beat(self) -> None:
        wrote = time.monotonic()
        while not self._over.wait(_BEAT_SECONDS):
            self._clock.pulse()
            self._stopping = self._stopping or self._speaker.told_to_stop()
            if time.monotonic() - wrote >= _WRITE_SECONDS:
                self._write_or_end()
                wrote = time.monotonic()
            self._sign = self._counted()
            self._speaker.say(self._sign)
            self._end_if_blocked()

    def _counted(self) -> Sign:
        result, used, paying = self._result, self._result.usage, self._paying
        return replace(
            self._sign,
            beats=self._sign.beats + 1,
            ended=result.cells,
            ok=result.ok,
            unknown=result.unknown,
            tokens=used.input_tokens + used.output_tokens,
            money=paying.money if paying else at_least(self._prices, result.spent) or 0.0,
        )

    def _write(self) -> None:
        rows = self._result.take_all()
        if rows["episodes"]:
            written = store.write(self._chunk.root, rows)
            self.transcripts += sum(written.get(table, 0) for table in TABLES)
            self.writes += 1

    def _write_or_end(self) -> None:
        try:
            self._write()
        except StoreError as error:
            self._failure = error
            if self._work:
                self._loop.call_soon_threadsafe(self._work.cancel)

    def _end_if_blocked(self) -> None:
        """End the process if a case's step, or the preparation of the cases, takes longer than is allowed for a case.

        Such a step blocks the event loop, so only ending the process can end it.
        """
        limits, now = self._chunk.limits, self._clock.now()
        running = self._clock.running
        used = now - self._began if self._work is None else 0.0
        if running is not None:
            case, since = running
            used = case.used + now - since
        if used > limits.case_seconds + limits.grace_seconds:
            self._write_or_end()
            self._speaker.say(replace(self._sign, blocked=case.cell_id if running else None))
            os._exit(_BLOCKED)

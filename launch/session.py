"""A checked sweep from its announcement to its tables."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FrameType

import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.report import print_report, wide
from grid import batch, cluster, store
from grid.cell import GROUPS
from grid.check import Checked
from grid.errors import StoreError
from grid.pilot import CASES, tokens_per_cell
from grid.replicas.fleet import Fleet
from launch.metrics import SweepMetrics
from launch.progress import STOPPING, SweepProgress
from launch.summary import replicas_table


def run_checked(checked: Checked, *, dry_run: bool) -> bool:
    """Run (or, dry, describe) a sweep; True where every cell has a row that is no infrastructure failure."""
    console, plan = Console(highlight=False, emoji=False), checked.plan
    with nullcontext() if dry_run else store.locked(plan.root):
        for line in [] if dry_run else store.put_aside(plan.root):
            say(console, line)
        done = plan.finished()
        pending = plan.missing(done)
        announce(checked, console, plan.total() - sum(pending.values()))
        if dry_run:
            wide(console).print(settings_table(checked, pending))
            return True
        if any(pending.values()):
            _run(checked, console, done, pending)
            pending = plan.missing(store.finished(plan.root))
        else:
            console.print(f"nothing to run: all {plan.total():,} cells are already done")
        print_report(plan.root, console)
        return _complete(checked, console, sum(pending.values()))


def announce(checked: Checked, console: Console, already_done: int) -> None:
    """What is about to run, what was left out, what the datasets skipped."""
    plan = checked.plan
    lines = [
        f"sweep {plan.name}: {len(plan.settings)} settings, {plan.total():,} cells ({plan.trials} trials), "
        f"{already_done:,} already done"
    ]
    for setting, reason in checked.invalid:
        place = " x ".join(setting.labels[group] for group in ("model", "planner", "dataset"))
        lines.append(f"left out {place}: {reason}")
    for dataset, reasons in checked.skipped_by_reason().items():
        lines += [f"{dataset}: {count} records skipped: {reason}" for reason, count in reasons.most_common()]
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def settings_table(checked: Checked, pending: dict[str, int]) -> Table:
    """The settings of a dry run, one a line."""
    caption = f"tokens expected: of the cells to run, in and out, from a pilot of {CASES} cells of each setting"
    table = Table(
        title="dry run: nothing was started but a pilot", caption=caption, box=box.SIMPLE_HEAD, title_justify="left"
    )
    names = GROUPS
    for column in (*names, "cases", "cells", "to run", "tokens expected"):
        table.add_column(column, justify="left" if column in names else "right", no_wrap=True)
    plan = checked.plan
    for setting in plan.settings:
        cases = len(plan.case_ids[setting.id])
        counts = [f"{count:,}" for count in (cases, cases * plan.trials, pending[setting.id])]
        pilot = tokens_per_cell(plan, setting)
        counts.append("unknown" if pilot is None else f"{pilot * pending[setting.id]:,.0f}")
        table.add_row(*(escape(setting.labels[name]) for name in names), *counts)
    return table


def _run(checked: Checked, console: Console, done: store.CellIds, pending: dict[str, int]) -> None:
    started, plan = time.monotonic(), checked.plan
    say(console, cluster.connect(plan.cluster))
    try:
        needing = [setting for setting in plan.settings if pending[setting.id]]
        with Fleet(needing, plan.cluster.replicas, plan.cluster.ready_seconds, partial(say, console)) as fleet:
            with SweepProgress(console, plan.root, needing, pending) as progress:
                metrics = SweepMetrics(plan.name, needing)

                def ended(report: batch.Report) -> None:
                    progress.update(report)
                    metrics.count(report)

                def tick() -> None:
                    progress.tick(fleet, run.cells_in_flight.total())
                    metrics.look(run.cells_in_flight)

                run = batch.Run(plan, done, ended, fleet, tick)
                with stopped_by_interrupt(run, progress):
                    run.go()
                metrics.look(run.cells_in_flight)
            totals = fleet.totals()
    finally:
        cluster.disconnect()
    seconds, told = time.monotonic() - started, progress.document()
    say(console, f"ran {told['done']:,} cells in {seconds:.1f} s: {told['ok']:,} ok, {told['failed']:,} failed")
    if totals:
        wide(console).print(replicas_table(totals))
    try:
        store.compact(plan.root)
    except StoreError as error:  # the rows are there all the same
        say(console, str(error))


@contextmanager
def stopped_by_interrupt(run: batch.Run, progress: SweepProgress) -> Iterator[None]:
    """Ctrl-C, or SIGTERM, once ends the run when what is in flight has ended; twice ends it at once."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if run.stopping:
            raise KeyboardInterrupt
        run.stop()
        progress.state = STOPPING
        progress.say("interrupted: no further cells are begun, those in flight are finished; once more stops at once")

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def say(console: Console, line: str) -> None:
    """One plain line."""
    console.print(line, markup=False, soft_wrap=True)


def _complete(checked: Checked, console: Console, missing: int) -> bool:
    """Whether all cells are there and none is an infrastructure failure; failures are listed by kind."""
    plan = checked.plan
    wanted = {setting.id for setting in plan.settings}
    broken = store.read(
        plan.root, "episodes", ["setting_id", "error_kind", "error_message"], pc.field("error_kind").is_valid()
    ).to_pylist()
    failures: dict[str, list[str]] = {}
    for row in broken:
        if row["setting_id"] in wanted:
            failures.setdefault(row["error_kind"], []).append(row["error_message"])
    for kind, messages in failures.items():
        say(console, f"{len(messages):,} cells failed ({kind}), the first: {messages[0]}")
    if missing:
        say(console, f"{missing:,} cells are missing: run again with the same name")
    if "infrastructure" in failures:
        say(console, "run again with retry_failed=true to repeat infrastructure failures")
    return not (missing or "infrastructure" in failures)

"""A checked sweep from its announcement to its tables."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.table import Table

from analysis.report import print_report
from grid import batch, store
from grid.check import Checked
from launch.progress import SweepProgress


def run_checked(checked: Checked, *, dry_run: bool) -> bool:
    """Run (or, dry, describe) a sweep; True where every cell has a row that is no infrastructure failure."""
    console = Console(soft_wrap=False)
    plan = checked.plan
    pending = {setting.id: 0 for setting in plan.settings}
    for setting in plan.settings:
        pending[setting.id] = sum(cell.cell_id not in plan.done for cell in plan.cells_of(setting))
    to_run = sum(pending.values())
    announce(checked, console, plan.total() - to_run)
    if dry_run:
        describe(checked, console, pending)
        return True
    with store.locked(plan.root):
        if to_run:
            _run(checked, console, pending)
        else:
            console.print(f"nothing to run: all {plan.total():,} cells are already done")
        rows = store.read(plan.root, "episodes", ["cell_id", "error_kind"]).to_pylist()
        print_report(plan.root, console)
    kinds = {row["cell_id"]: row["error_kind"] for row in rows}
    wanted = [cell.cell_id for setting in plan.settings for cell in plan.cells_of(setting)]
    missing = sum(cell not in kinds for cell in wanted)
    broken = sum(kinds.get(cell) == "infrastructure" for cell in wanted)
    if missing or broken:
        console.print(
            f"{missing:,} cells are missing and {broken:,} ended in an infrastructure error; run again to "
            "fill what is missing, with retry_failed=true to repeat the errors"
        )
    return not (missing or broken)


def announce(checked: Checked, console: Console, already_done: int) -> None:
    """What is about to run, what was left out, what the datasets skipped."""
    plan = checked.plan
    console.print(
        f"sweep {plan.name}: {len(plan.settings)} settings, {plan.total():,} cells "
        f"({plan.trials} trials), {already_done:,} already done",
        markup=False,
    )
    for setting, reason in checked.invalid:
        console.print(
            f"left out {' x '.join(setting.labels[g] for g in ('model', 'planner', 'dataset'))}: {reason}",
            markup=False,
        )
    for dataset, reasons in checked.skipped_by_reason().items():
        for reason, count in reasons.most_common():
            console.print(f"{dataset}: {count} records skipped: {reason}", markup=False)


def describe(checked: Checked, console: Console, pending: dict[str, int]) -> None:
    """The settings of a dry run, one a line."""
    table = Table(title="dry run: nothing was started")
    for column in ("model", "planner", "dataset", "robustness", "retriever", "cases", "cells", "to run"):
        table.add_column(column, justify="right" if column in ("cases", "cells", "to run") else "left")
    plan = checked.plan
    for setting in plan.settings:
        labels = [setting.labels[group] for group in ("model", "planner", "dataset", "robustness", "retriever")]
        cases = len(plan.case_ids[setting.id])
        table.add_row(*labels, f"{cases:,}", f"{cases * plan.trials:,}", f"{pending[setting.id]:,}")
    console.print(table)


def _run(checked: Checked, console: Console, pending: dict[str, int]) -> None:
    started = time.monotonic()
    console.print(batch.connect(checked.plan.cluster), markup=False)
    try:
        with SweepProgress(console, pending, len(checked.plan.done)) as progress:
            batch.run(checked.plan, progress.update)
    finally:
        batch.disconnect()
    kinds = Counter(
        kind for kind in store.read(checked.plan.root, "episodes", ["error_kind"])["error_kind"].to_pylist() if kind
    )
    console.print(
        f"ran {progress.done:,} cells in {time.monotonic() - started:.1f} s: "
        f"{progress.ok:,} ok, {progress.failed:,} failed"
    )
    for kind, count in kinds.most_common():
        console.print(f"  failures in the store: {count:,} of kind {kind}")

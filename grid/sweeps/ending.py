"""What ends a sweep early: US dollars that all runs of its name have cost, too many failed cells, or unknown ones.

It stands apart from `session`, its one reader: who adds a limit need not know how a sweep is run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from grid import store
from grid.cells.rows import SILENT, untold
from grid.cluster.batch import Run
from grid.cluster.money import Money
from grid.cluster.worker import Report
from grid.core.errors import Status, one_line
from grid.metrics.scores import SUCCESS
from grid.settings.plan import Plan

_FEWEST = 50  # cells that have ended before a share of them says anything
_REASONS = 3  # that are told


class Spending:
    """The US dollars of a sweep until now, as people are told. Hold the folder's lock from here to the run's end.

    `money` is what limits its cells, None where nothing does.
    """

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._limits, self._say, self._told = plan.dollars, say, False
        self.money: Money | None = None
        if (limit := plan.dollars.get("money")) is not None:
            dollars, unknown = spent(plan.root)
            self.money = Money(limit, plan.hard, dollars, taken(plan.root))
            if unknown:
                say(f"budget.money leaves out {unknown:,} cells of earlier runs: their price or tokens are not known")

    def count(self, report: Report) -> None:
        """Take in what a try of a chunk reports."""
        if self._limits and report.usage.uncounted_answers and not self._told:
            self._told, keys = True, " and ".join(f"budget.{key}" for key in self._limits)
            holds = f"{keys} does not hold" if len(self._limits) == 1 else f"{keys} do not hold"
            self._say(f"{holds}: a server told no tokens of some answers, which are left out")

    def begins_nothing(self, settings: Iterable[str]) -> str | None:
        """What to tell before a run of these settings for which no money is left; None where there is some."""
        money = self.money
        if money is None:
            return None
        if money.dollars < money.limit:
            least = min(((money.each(one) or 0.0) for one in settings), default=0.0)
            if least <= money.limit - money.dollars:
                return None
            return (
                f"budget.money={money.limit:g}: all runs of this name have spent {money.dollars:.6g} US dollars, and a "
                f"cell takes {least:.6g} in the mean: nothing is begun; the same command with more goes on"
            )
        return (
            f"budget.money={money.limit:g} is reached: all runs of this name have spent {money.dollars:.6g} US "
            "dollars; nothing is begun; the same command with more goes on"
        )

    def reached(self, run: Run) -> str | None:
        """What to tell once the limit is reached, by the chunks of `run` in flight too; None before."""
        money = self.money
        if money is None or (money.dollars + run.money_in_flight < money.limit and not money.unpaid):
            return None
        fate = "requests beyond it are refused" if money.hard else "those in flight are finished"
        return f"budget.money={money.limit:g} is reached: no further cells are begun, {fate}"

    def ended(self, run: Run) -> str | None:
        """What to tell of the money after a run; None where nothing limits it."""
        money = self.money
        if money is None:
            return None
        line = f"budget.money={money.limit:g}: all runs of this name have spent {money.dollars:.6g} US dollars"
        if (beyond := money.dollars - money.limit) > 0:
            line += f", {beyond:.6g} of them beyond it: for what was at servers when it was reached"
        if money.unpaid:
            line += f"; {money.unpaid:,} cells were begun that have no row"
        return f"{line}; the same command with more goes on" if run.stopping else line


def spent(root: Path) -> tuple[float, int]:
    """The US dollars of all tries of a results folder; of those that do not say, of the cells that do.

    Such tries were killed before they could, or some of their cells have no price or uncounted tokens. And of how many
    cells these are not known.
    """
    tries = store.read(root, "attempts", ["attempt_id", "money"], pc.field("money").is_valid())
    untold = ~pc.field("attempt_id").isin(tries["attempt_id"].combine_chunks())
    cells = store.read(root, "episodes", ["money"], untold)
    dollars = math.fsum(value or 0.0 for table in (tries, cells) for value in table["money"].to_pylist())
    return dollars, int(cells["money"].null_count)


def taken(root: Path) -> dict[str, tuple[float, int]]:
    """By setting the US dollars of the cells of a results folder that tell them, and how many these are."""
    cells = store.read(root, "episodes", ["setting_id", "money"], pc.field("money").is_valid())
    sums = cells.group_by("setting_id").aggregate([("money", "sum"), ("money", "count")]).to_pylist()
    return {row["setting_id"]: (row["money_sum"], row["money_count"]) for row in sums}


class Failures:
    """The failed cells of a run, held against `fail_fast`: so many, or such a share of those that have ended."""

    def __init__(self, limit: int | float | None) -> None:
        self._limit, self._ended, self._failed = limit, 0, 0

    def count(self, report: Report) -> None:
        """Take in what a try of a chunk reports."""
        self._ended += report.ok + report.failed
        self._failed += report.failed

    def reached(self, run: Run) -> str | None:
        """What to tell once the limit is reached, by the chunks of `run` in flight too; None before."""
        signs = [sign for _, sign in run.signs_in_flight]
        ended = self._ended + sum(sign.ended for sign in signs)
        failed = self._failed + sum(sign.ended - sign.ok for sign in signs)
        if self._limit is None or not failed:
            return None
        share = self._limit < 1
        if failed < (self._limit * ended if share else self._limit) or (share and ended < _FEWEST):
            return None
        return (
            f"fail_fast={self._limit:g} is reached: {failed:,} of the {ended:,} cells that have ended failed; no "
            "further cells are begun, those in flight are finished; the same command with retry_failed=true goes on"
        )


class Unknowns:
    """Cells of a run of which nobody can tell whether they succeeded, held against `most_unknown`.

    A setting of whose cells fewer are unknown is worth what it costs, and of one without any ended cell nobody knows:
    while there is either, the sweep goes on.
    """

    def __init__(self, limit: float | None, settings: Iterable[str]) -> None:
        """`settings` are those with cells to run, by id."""
        self._limit = limit
        self._ended, self._unknown = Counter(dict.fromkeys(settings, 0)), Counter[str]()

    def count(self, report: Report) -> None:
        """Take in what a try of a chunk reports."""
        self._ended[report.setting_id] += report.ok + report.failed
        self._unknown[report.setting_id] += report.unknown

    def reached(self, run: Run) -> str | None:
        """What to tell once the limit is reached, by the chunks of `run` in flight too; None before."""
        if self._limit is None:
            return None
        ended, unknown = self._ended.copy(), self._unknown.copy()
        for setting, sign in run.signs_in_flight:
            ended[setting] += sign.ended
            unknown[setting] += sign.unknown
        if ended.total() < _FEWEST:
            return None
        if any(not cells or unknown[setting] < self._limit * cells for setting, cells in ended.items()):
            return None
        return (
            f"most_unknown={self._limit:g} is reached: of {unknown.total():,} of the {ended.total():,} cells that have "
            "ended nobody can tell whether they succeeded; no further cells are begun, those in flight are finished; "
            "once what is wrong is mended, the same command with retry_failed=true goes on"
        )


def why_unknown(root: Path, settings: Iterable[str]) -> list[str]:
    """Why of cells of these settings nobody can tell whether they succeeded: the most frequent reasons, a line each."""
    columns = [SUCCESS, "status", "error_kind", "error_message", *SILENT]
    rows = store.read(root, "episodes", columns, pc.field("setting_id").isin(list(settings))).to_pylist()
    found = Counter(map(_reason, filter(untold, rows)))
    return [f"{cells:,} cells: {why}" for why, cells in found.most_common(_REASONS)]


def _reason(row: dict[str, Any]) -> str:
    if row["status"] != Status.OK:
        return one_line(f"{row['error_kind']}: {row['error_message']}", 300)
    return "no answer of the judge or the evaluator could be read (agent-grid rescore judges them again)"

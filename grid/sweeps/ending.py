"""The limits that end a sweep early: on US dollars for all runs of the same name, and on failed and unknown cells.

This module stands apart from `session`, its only user, so that a limit can be added without knowing how a sweep runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from grid import store
from grid.cells.rows import SILENT, untold
from grid.cluster.batch import Run
from grid.cluster.money import Money
from grid.cluster.worker import Report
from grid.core.errors import Status, one_line
from grid.core.labels import short
from grid.metrics.scores import SUCCESS
from grid.settings.plan import Plan
from grid.settings.setting import GROUPS

_FEWEST = 50  # minimum number of ended cells for a share of them to be meaningful
_REASONS = 3  # number of reasons that are printed
_SETTINGS = 12  # maximum number of settings that are printed one by one
_MORE = "to continue, run again with a higher budget.money"


class Spending:
    """The US dollars that a sweep has spent, for messages.

    The caller must hold the folder's lock from the creation of this object until the run ends. `money` limits the cost
    of the sweep's cells; it is None if there is no limit.
    """

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._limits, self._say, self._told, self._settings = plan.dollars, say, False, plan.settings
        self._cells = {setting.id: plan.cells_in(setting) for setting in plan.settings}
        self.money: Money | None = None
        if (limit := plan.dollars.get("money")) is not None:
            dollars, unknown = spent(plan.root)
            self.money = Money(limit, plan.hard, dollars, taken(plan.root))
            if unknown:
                say(
                    f"budget.money does not count {unknown:,} cells of earlier runs, because their price or "
                    "tokens are not known"
                )

    def count(self, report: Report) -> None:
        """Add the report of one attempt to run a chunk."""
        if self._limits and report.usage.uncounted_answers and not self._told:
            self._told, keys = True, " and ".join(f"budget.{key}" for key in self._limits)
            holds = f"{keys} is not exact" if len(self._limits) == 1 else f"{keys} are not exact"
            self._say(f"{holds}: a server did not report the tokens of some answers, so these answers are not counted")

    def begins_nothing(self, pending: Mapping[str, int]) -> str | None:
        """The message if too little money is left for the next cell; None if there is enough.

        `pending` has the number of cells to run, by setting id; `money` records how many cells of each setting are
        done.
        """
        money = self.money
        if money is None:
            return None
        money.expect({one: (self._cells[one] - cells, self._cells[one]) for one, cells in pending.items() if cells})
        if money.dollars < money.limit:
            first = min(money.done, key=lambda one: money.done[one][0])
            if (money.each(first) or 0.0) <= money.limit - money.dollars:
                return None
            return f"{self._told_spent(money)}{self._too_little(money, first)}, so no cell is started; {_MORE}"
        return (
            f"budget.money={money.limit:g} is reached: all runs of this name have spent {money.dollars:.6g} US "
            f"dollars, so no cell is started; {_MORE}"
        )

    def reached(self, run: Run) -> str | None:
        """The message if the limit is reached, with the chunks of `run` in flight included; None before that."""
        money = self.money
        if money is None or (money.dollars + run.money_in_flight < money.limit and not money.unpaid):
            return None
        fate = "and requests that would exceed it are refused" if money.hard else "and running cells are finished"
        return f"budget.money={money.limit:g} is reached: no further cells are started, {fate}"

    def ended(self, run: Run) -> list[str]:
        """The lines that tell, after a run, how much money was spent; none if there is no limit on the money.

        If the limit ended the run, the lines say why, and how many cells of each setting have ended.
        """
        money = self.money
        if money is None:
            return []
        line = self._told_spent(money)
        if (beyond := money.dollars - money.limit) > 0:
            line += (
                f", {beyond:.6g} more than the limit, because of requests that were sent before the limit was reached"
            )
        if run.unaffordable:
            line += self._too_little(money, run.unaffordable.id)
        if money.unpaid:
            line += (
                f"; {money.unpaid:,} cells were started but have no row, because their next request would have "
                "exceeded the limit"
            )
        if run.stopping and (run.unaffordable or money.unpaid or money.dollars >= money.limit):
            return [f"{line}; {_MORE}", self._reached(money)]
        return [line]

    def _told_spent(self, money: Money) -> str:
        return f"budget.money={money.limit:g}: all runs of this name have spent {money.dollars:.6g} US dollars"

    def _too_little(self, money: Money, setting_id: str) -> str:
        """The reason why no more cells are started: the money left, and the expected cost of the next cell."""
        left, each = money.limit - money.dollars, money.each(setting_id) or 0.0
        name = self._names()[setting_id]
        return f"; {left:.6g} are left, but cells like the next one ({name}) cost {each:.6g} on average"

    def _reached(self, money: Money) -> str:
        """The line with each setting's number of ended cells; for many settings, only the lowest and highest number."""
        names, done = self._names(), sorted(money.done.items(), key=lambda one: one[1][0])
        if len(done) > _SETTINGS:
            done = [done[0], done[-1]]
        told = ", ".join(f"{names[setting_id]} {cells:,} of {total:,}" for setting_id, (cells, total) in done)
        more = "" if len(done) == len(money.done) else f" (the lowest and highest of {len(money.done):,} settings)"
        return f"cells that have ended: {told}{more}"

    def _names(self) -> dict[str, str]:
        """For each setting's id, its name, which consists of the labels in which the settings differ."""
        labels = [one.labels for one in self._settings]
        models = short(one["model"] for one in labels)
        differ = [group for group in GROUPS if len({one[group] for one in labels}) > 1] or ["planner"]
        shown = [{**one, "model": models[one["model"]]} for one in labels]
        return {
            setting.id: " · ".join(one[group] for group in differ)
            for setting, one in zip(self._settings, shown, strict=True)
        }


def spent(root: Path) -> tuple[float, int]:
    """The US dollars of all attempts in a results folder, and the number of cells whose dollars are unknown.

    An attempt has no sum if it was killed before it could write one, or if some of its cells have no price or have
    uncounted tokens. For an attempt without a sum, the known dollars of its cells are added up.
    """
    tries = store.read(root, "attempts", ["attempt_id", "money"], pc.field("money").is_valid())
    untold = ~pc.field("attempt_id").isin(tries["attempt_id"].combine_chunks())
    cells = store.read(root, "episodes", ["money"], untold)
    dollars = math.fsum(value or 0.0 for table in (tries, cells) for value in table["money"].to_pylist())
    return dollars, int(cells["money"].null_count)


def taken(root: Path) -> dict[str, tuple[float, int]]:
    """For each setting, the US dollars of a folder's cells whose dollars are known, and the number of these cells."""
    cells = store.read(root, "episodes", ["setting_id", "money"], pc.field("money").is_valid())
    sums = cells.group_by("setting_id").aggregate([("money", "sum"), ("money", "count")]).to_pylist()
    return {row["setting_id"]: (row["money_sum"], row["money_count"]) for row in sums}


class Failures:
    """The failed cells of a run, compared with `fail_fast`: a number of cells, or a share once 50 cells have ended."""

    def __init__(self, limit: int | float | None) -> None:
        self._limit, self._ended, self._failed = limit, 0, 0

    def count(self, report: Report) -> None:
        """Add the report of one attempt to run a chunk."""
        self._ended += report.ok + report.failed
        self._failed += report.failed

    def reached(self, run: Run) -> str | None:
        """The message if the limit is reached, with the chunks of `run` in flight included; None before that."""
        signs = [sign for _, sign in run.signs_in_flight]
        ended = self._ended + sum(sign.ended for sign in signs)
        failed = self._failed + sum(sign.ended - sign.ok for sign in signs)
        if self._limit is None or not failed:
            return None
        share = self._limit < 1
        if failed < (self._limit * ended if share else self._limit) or (share and ended < _FEWEST):
            return None
        return (
            f"fail_fast={self._limit:g} is reached: {failed:,} of the {ended:,} ended cells failed; no further cells "
            "are started, and running cells are finished; to continue, run again with retry_failed=true"
        )


class Unknowns:
    """The unknown cells of a run (their success cannot be determined), compared with `most_unknown`.

    The sweep continues as long as at least one setting has a share of unknown cells below this limit, or has no ended
    cells yet, because the results of such a setting may be worth their cost. It also continues until 50 cells have
    ended.
    """

    def __init__(self, limit: float | None, settings: Iterable[str]) -> None:
        """`settings` are the ids of the settings with cells to run."""
        self._limit = limit
        self._ended, self._unknown = Counter(dict.fromkeys(settings, 0)), Counter[str]()

    def count(self, report: Report) -> None:
        """Add the report of one attempt to run a chunk."""
        self._ended[report.setting_id] += report.ok + report.failed
        self._unknown[report.setting_id] += report.unknown

    def reached(self, run: Run) -> str | None:
        """The message if the limit is reached, with the chunks of `run` in flight included; None before that."""
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
            f"most_unknown={self._limit:g} is reached: for {unknown.total():,} of the {ended.total():,} ended cells it "
            "is not known whether they succeeded; no further cells are started, and running cells are finished; to "
            "continue, fix the cause and run again with retry_failed=true"
        )


def why_unknown(root: Path, settings: Iterable[str]) -> list[str]:
    """The most frequent reasons why cells of these settings are unknown (`untold`), one line per reason."""
    columns = [SUCCESS, "status", "error_kind", "error_message", *SILENT]
    rows = store.read(root, "episodes", columns, pc.field("setting_id").isin(list(settings))).to_pylist()
    found = Counter(map(_reason, filter(untold, rows)))
    return [f"{cells:,} cells: {why}" for why, cells in found.most_common(_REASONS)]


def _reason(row: dict[str, Any]) -> str:
    if row["status"] != Status.OK:
        return one_line(f"{row['error_kind']}: {row['error_message']}", 300)
    return "no answer of the judge or the evaluator could be read (agent-grid rescore judges these cells again)"

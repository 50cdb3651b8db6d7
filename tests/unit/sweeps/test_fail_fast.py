"""When failed or unknown cells end a run early: a count of them, or their share of enough that have ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grid.cells.rows import untold
from grid.cluster.batch import Run
from grid.cluster.signs import Sign
from grid.cluster.worker import Report
from grid.core.errors import ConfigError
from grid.settings.check import check_sweep
from grid.sweeps.ending import Failures, Spending, Unknowns
from tests.support.configs import job


class Flying:
    """A run whose chunks in flight say so many cells ended, and so many of them well."""

    def __init__(self, ended: int = 0, ok: int = 0, unknown: int = 0, setting: str = "s") -> None:
        self.signs_in_flight = [(setting, Sign(1, 1, "n", ended=ended, ok=ok, unknown=unknown))]


def reached(limit: float | None, ok: int, failed: int, ended: int = 0, well: int = 0) -> bool:
    failures = Failures(limit)
    for one in (Report("s", ok, ok=ok), Report("s", failed, failed=failed)):
        failures.count(one)
    return failures.reached(cast(Run, Flying(ended, well))) is not None


@pytest.mark.parametrize(
    ("limit", "ok", "failed", "expected"),
    [
        (None, 0, 1000, False), (1, 0, 0, False), (1, 99, 1, True), (3, 0, 2, False), (3, 0, 3, True),
        (0.5, 0, 49, False), (0.5, 25, 25, True), (0.5, 26, 24, False), (0.01, 99, 1, True), (0.01, 100, 1, False),
        (0.01, 50, 0, False),
    ],
)  # fmt: skip
def test_a_count_and_a_share_of_fifty_cells_and_more(limit: float | None, ok: int, failed: int, expected: bool) -> None:
    assert reached(limit, ok, failed) == expected
    assert reached(limit, 0, 0, ended=ok + failed, well=ok) == expected, "of chunks in flight just so"


@pytest.mark.parametrize("value", [0, -1, True, "half", 0.0, 1.0, 1.5, float("nan"), [1], 2**31])
def test_what_is_no_count_and_no_share_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match="fail_fast"):
        check_sweep([job(tmp_path, fail_fast=value)])


def test_it_is_in_no_cells_id(tmp_path: Path) -> None:
    one, other = (check_sweep([job(tmp_path, fail_fast=value)]).plan for value in (None, 0.5))
    assert [setting.id for setting in one.settings] == [setting.id for setting in other.settings]
    assert (one.fail_fast, other.fail_fast) == (None, 0.5)


@pytest.mark.parametrize(
    ("spent", "stopping", "unaffordable", "advised"),
    [(1.0, True, False, False), (1.0, False, False, False), (1.0, True, True, True), (3.0, True, False, True)],
    ids=["interrupted", "all done", "too little left", "all spent"],
)
def test_more_money_is_only_advised_if_the_budget_stopped_the_sweep(
    tmp_path: Path, spent: float, stopping: bool, unaffordable: bool, advised: bool
) -> None:
    plan = replace(check_sweep([job(tmp_path)]).plan, dollars={"money": 3.0})
    (setting,) = plan.settings
    spending = Spending(plan, print)
    assert spending.begins_nothing({setting.id: 4}) is None
    assert spending.money is not None
    spending.money.count(Report(setting.id, 2, ok=2, money=spent))
    run = SimpleNamespace(stopping=stopping, unaffordable=setting if unaffordable else None)
    first, *more = spending.ended(cast(Run, run))
    assert first.startswith(f"budget.money=3: all runs of this name have spent {spent:g} US dollars")
    assert ("higher budget.money" in first, bool(more)) == (advised, advised)
    assert ("2 are left, but cells like the next one (" in first) == unaffordable


def told(limit: float | None, cells: dict[str, tuple[int, int]], flying: Flying | None = None) -> str | None:
    """What is told behind so many ended cells of settings, and so many unknown ones of them."""
    unknowns = Unknowns(limit, cells)
    for setting, (ended, unknown) in cells.items():
        unknowns.count(Report(setting, ended, ok=ended - unknown, failed=unknown, unknown=unknown))
    return unknowns.reached(cast(Run, flying or Flying()))


@pytest.mark.parametrize(
    ("limit", "cells", "expected"),
    [
        (None, {"s": (1000, 1000)}, False),
        (0.5, {}, False),
        (0.5, {"s": (49, 49)}, False),
        (0.5, {"s": (50, 25)}, True),
        (0.5, {"s": (50, 24)}, False),
        (0.5, {"s": (1000, 499)}, False),
        (0.5, {"s": (30, 30), "t": (20, 10)}, True),
        (0.5, {"s": (500, 500), "t": (3, 1)}, False),
        (0.5, {"s": (500, 500), "t": (0, 0)}, False),
        (1.0, {"s": (50, 49)}, False),
        (1.0, {"s": (50, 50)}, True),
    ],
)
def test_unknown_cells_end_a_run_unless_a_setting_has_fewer(
    limit: float | None, cells: dict[str, tuple[int, int]], expected: bool
) -> None:
    assert (told(limit, cells) is not None) == expected


def test_unknown_cells_of_chunks_in_flight_count_too() -> None:
    flying = Flying(ended=20, unknown=10)
    assert told(0.5, {"s": (29, 20)}, flying) is None
    assert "for 30 of the 50 ended cells it is not known whether they succeeded" in (
        told(0.5, {"s": (30, 20)}, flying) or ""
    )
    assert told(0.5, {"s": (50, 50)}, Flying(ended=3, unknown=1, setting="other")) is None, "which is sound until now"


@pytest.mark.parametrize(
    ("success", "status", "judge", "evaluator", "expected"),
    [
        (True, "ok", 3, 0, False),
        (False, "failed", 0, 0, False),
        (None, "failed", 0, 0, True),
        (None, "ok", 1, None, True),
        (None, "ok", None, 2, True),
        (None, "ok", 0, None, False),
    ],
)
def test_unknown_is_what_went_wrong_and_not_what_nobody_judges(
    success: bool | None, status: str, judge: int | None, evaluator: int | None, expected: bool
) -> None:
    row = {"success": success, "status": status, "judge_failures": judge, "evaluator_failures": evaluator}
    assert untold(row) == expected


@pytest.mark.parametrize("value", [0, -0.5, 1.5, True, "half", float("nan")])
def test_what_is_no_share_of_unknown_cells_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match="most_unknown"):
        check_sweep([job(tmp_path, most_unknown=value)])


def test_the_limit_on_unknown_cells_is_on_and_in_no_cells_id(tmp_path: Path) -> None:
    one, other = (check_sweep([job(tmp_path, **given)]).plan for given in ({}, {"most_unknown": None}))
    assert (one.most_unknown, other.most_unknown) == (0.5, None)
    assert [setting.id for setting in one.settings] == [setting.id for setting in other.settings]

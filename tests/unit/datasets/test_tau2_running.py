"""Tools that break in every way that code of others can, and the model's arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("tau2", reason="the extra tau2 is not installed")

from pydantic import BaseModel

from grid.datasets.tau2.package import Called, Databases, Domain, FunctionCall, Version, calculate, domain, run, written


class Stock(BaseModel):
    """A database of one table."""

    items: dict[str, Any]


class Kit:
    """Tools on it."""

    def __init__(self, db: Any) -> None:
        self.db = db

    def half(self) -> str:
        """Changes something, then breaks."""
        self.db.items["a"]["n"] += 1
        raise RuntimeError("broke half-way")

    def spoil(self) -> str:
        """Leaves what nothing can write."""
        self.db.items["a"]["itself"] = self.db.items["a"]
        return "done"

    def replace(self) -> str:
        """Takes the table away."""
        self.db.items = None
        return "done"

    def endless(self) -> str:
        """Never comes back by itself."""
        return self.endless()

    def flood(self) -> str:
        """Returns more than anybody reads."""
        return "x" * 1_000_000

    def strange(self) -> Any:
        """Returns what is no JSON."""
        return object()

    def number(self) -> float:
        """Returns what JSON does not know."""
        return math.nan


class OutOfStep:
    """An environment whose databases cannot be kept in step."""

    tools: Any
    user_tools: Any

    def sync_tools(self) -> None:
        """Break."""
        raise ValueError("line not found")


def called(tool: str, environment: Any = None) -> tuple[Databases, Called]:
    """A tool's call on a database of one item."""
    before = Databases(Version(Stock(items={"a": {"n": 1}, "b": {"n": 2}})))
    return before, run(Domain("mock", Kit, Stock, environment=environment), before, FunctionCall("assistant", tool, {}))


def test_what_was_changed_before_a_tool_broke_stays_as_in_the_package() -> None:
    before, found = called("half")
    assert (found.failed, found.result) == (True, "broke half-way")
    assert found.databases.agent.records == {"items": {"a": {"n": 2}}}
    assert written(before.agent.base) == '{"items": {"a": {"n": 1}, "b": {"n": 2}}}'


@pytest.mark.parametrize("tool", ["spoil", "endless", "strange", "no_such_function"])
def test_a_tool_that_leaves_what_cannot_be_kept_has_failed_and_changed_nothing(tool: str) -> None:
    before, found = called(tool)
    assert found.failed
    assert found.observation.failed
    assert found.databases.same(before)


def test_a_database_that_cannot_be_kept_in_step_fails_the_call_and_keeps_its_change() -> None:
    _, found = called("half", OutOfStep)
    assert found.databases.agent.records
    before, found = called("flood", OutOfStep)
    assert (found.failed, found.result) == (True, "line not found")
    assert found.databases.same(before)


def test_a_part_that_is_taken_away_is_told_apart() -> None:
    before, found = called("replace")
    assert not found.databases.same(before)


def test_long_results_are_cut_and_strange_numbers_are_failures() -> None:
    assert len(called("flood")[1].observation.text()) < 60_000
    assert called("number")[1].observation.text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 2", "4.0"), (" 1/3", "0.33"), ("-(2.5 - 1) * 4", "-6.0"), ("7 // 2", "3.0"), ("2**10", "1024.0"),
        ("10 / 4", "2.5"), ("+3", "3.0"), ("(1.005)*1000", "1005.0"),
    ],
)  # fmt: skip
def test_calculate_is_the_packages(text: str, value: str) -> None:
    assert calculate(text) == value
    assert value == domain("airline").tools(None).calculate(text)


@pytest.mark.parametrize(
    "text",
    ["9**9**9**9", "9**999", "1/0", "", "(", "1 2", "()()", "...", "os.system", "1" * 2000, "(" * 900, "1e9"],
)  # fmt: skip
def test_what_is_no_sum_or_too_large_a_one_is_refused(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError, TypeError)):
        calculate(text)

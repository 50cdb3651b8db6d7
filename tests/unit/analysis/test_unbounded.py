"""Where a mean has no interval, a note under its table says why."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from analysis.load import unknowns
from analysis.page.table import Table
from analysis.report import print_report
from tests.support import plan_rows


def table(*rows: dict[str, Any]) -> Table:
    return Table("t", "t", ["planner"], [], pd.DataFrame(rows), "q", "c", notes=["first"])


def row(planner: str, cases: int | None, clusters: int | None, mean: float | None, low: float | None) -> dict[str, Any]:
    return {"planner": planner, "robustness": "none", "cases": cases, "clusters": clusters, "x": mean, "x_low": low}


def test_each_reason_is_said_once_with_the_rows_that_it_holds_for() -> None:
    frame = table(
        row("react", 1, 1, 0.5, None),
        row("cot", 4, 1, 0.5, None),
        row("egb", 9, 1, 0.5, None),
        row("same", 9, 3, 0.5, None),
        row("fine", 9, 3, 0.5, 0.1),
        row("unknown", 9, 3, None, None),
        row("chance", 9, None, 0.5, None),
    )
    (found,) = unknowns.noted([frame])
    assert found.notes == [
        "first",
        f"no 95% interval, because {unknowns.ONE_CASE}: react (none)",
        f"no 95% interval, because {unknowns.ONE_CLUSTER}: cot (none), egb (none)",
        f"no 95% interval of x, because {unknowns.ALIKE}: same (none)",
    ]
    assert unknowns.noted([table(row("fine", 9, 3, 0.5, 0.1))])[0].notes == ["first"]


def test_a_row_with_some_intervals_says_which_of_its_means_have_none() -> None:
    some = row("react", 9, 3, 0.5, 0.1) | {"judge_calls": 1.0, "judge_calls_low": None}
    assert unknowns.noted([table(some)])[0].notes == [
        "first",
        f"no 95% interval of judge calls, because {unknowns.ALIKE}: react (none)",
    ]


def test_a_bound_of_a_difference_is_not_held_against_the_mean_beside_it() -> None:
    """A reference's row has a mean and no difference, as a table of what parts of a planner bring."""
    rows = [
        row("plain", 9, 3, 0.5, None) | {"x_difference": None},
        row("without", 9, 3, 0.5, 0.1) | {"x_difference": 0.2},
    ]
    assert unknowns.noted([table(*rows)])[0].notes == ["first"]


@pytest.mark.long
@pytest.mark.parametrize(("clusters", "cases", "said"), [(1, 1, unknowns.ONE_CASE), (1, 5, unknowns.ONE_CLUSTER)])
def test_the_report_says_why_a_rate_has_no_interval(tmp_path: Path, clusters: int, cases: int, said: str) -> None:
    rows = [
        plan_rows.episode("react", None, case, success=case % 2 == 0) | {"cluster": f"c{case % clusters}"}
        for case in range(cases)
    ]
    plan_rows.write(tmp_path, rows)
    out = io.StringIO()
    found = print_report(tmp_path, Console(file=out, width=200))[0]
    assert found.rows[0][found.figures.index("95% interval") + len(found.labels)] == "none"
    assert f"no 95% interval, because {said}: react (none)" in out.getvalue()


def test_a_report_with_intervals_says_nothing(tmp_path: Path) -> None:
    plan_rows.write(tmp_path, [plan_rows.episode("react", None, case, success=case % 2 == 0) for case in range(6)])
    out = io.StringIO()
    print_report(tmp_path, Console(file=out, width=200))
    assert "no 95% interval" not in out.getvalue()


@pytest.mark.long
def test_calls_of_extraneous_tools_have_no_bound_below_0(tmp_path: Path) -> None:
    """Three of 30 cases have all such calls: Student's interval begins below 0."""
    rows = [
        plan_rows.episode("react", "extraneous", case, success=True, n_extraneous=5, extraneous_calls=int(case < 3))
        for case in range(30)
    ]
    plan_rows.write(tmp_path, rows)
    found = next(one for one in print_report(tmp_path, Console(file=io.StringIO(), width=200)) if "TC" in one.figures)
    low, high = (found.values[f"extraneous_calls_{end}"].iloc[0] for end in ("low", "high"))
    assert 0 < low < 0.1 < high
    assert "no bound is below 0" in found.caption

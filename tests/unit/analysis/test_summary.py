"""What a report says first: it follows its tables, and claims no more than these show."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from analysis import summary
from analysis.page.table import Table
from analysis.report import print_report
from tests.unit.analysis.test_tables import written


def tables(root: Path) -> list[Table]:
    return print_report(root, Console(file=io.StringIO()))


@pytest.mark.long
def test_the_best_planner_is_told_with_its_interval_difference_and_cost(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.1, "egb": 1.0, "cot": 0.2})
    found = tables(tmp_path)
    first, second = summary.lines(found)
    assert first.startswith("lexical on slate (10 cases): egb solves the most cases, 100.0% [")
    difference = next(table for table in found if table.name.startswith("differences"))
    row = next(row for row in difference.values.to_dict("records") if row["planner"] == "egb")
    assert (
        f"compared with react: +90.0 points [{100 * row['success_low']:+.1f}, {100 * row['success_high']:+.1f}]"
        in first
    )
    assert first.endswith("significant also after Holm's correction.")
    assert second.startswith("No significant difference from react: cot (+10.0); about ")


@pytest.mark.long
def test_a_difference_that_may_be_chance_is_called_so(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.4, "egb": 0.5})
    first, second = summary.lines(tables(tmp_path))
    assert "the difference may be due to chance" in first
    assert second.startswith("No significant difference from react: egb (+10.0)")


@pytest.mark.long
def test_disturbed_rows_are_not_what_is_summed_up(tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.3, "egb": 0.9})
    written(tmp_path, {"react": 1.0, "egb": 0.1}, "extraneous")
    assert "egb solves the most cases, 90.0%" in summary.lines(tables(tmp_path))[0]


@pytest.mark.long
def test_one_planner_alone_is_told_without_a_comparison(tmp_path: Path) -> None:
    written(tmp_path, {"cot": 0.5})
    (line,) = summary.lines(tables(tmp_path))
    assert line.startswith("lexical on slate (10 cases): cot solves the most cases, 50.0% [")
    assert "compared with" not in line


@pytest.mark.long
def test_many_places_are_counted(tmp_path: Path) -> None:
    for model in range(11):
        written(tmp_path, {"react": 0.3}, model=f"model_{model:02}")
    found = tables(tmp_path)
    assert summary.lines(found)[-1] == "and 3 more pairs of a model and a data set, which the tables show"
    assert len(summary.drawings(found)) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["$x$ <b>", "n" * 200])
def test_any_planner_has_a_place_in_the_figure(name: str, tmp_path: Path) -> None:
    written(tmp_path, {"react": 0.3, name: 0.6})
    (drawing,) = summary.drawings(tables(tmp_path))
    assert drawing.svg.count("<svg") == 1
    assert "<b>" not in drawing.svg


def test_nothing_is_said_of_no_tables() -> None:
    assert (summary.lines([]), summary.drawings([])) == ([], [])


def test_the_picture_of_success_has_its_intervals_in_percent() -> None:
    rows = [
        {
            "planner": planner,
            "robustness": "none",
            "cells": 9,
            "success_mean": mean,
            "success_low": low,
            "success_high": high,
        }
        for planner, mean, low, high in (("react", 0.4, 0.25, 0.5), ("egb", 0.75, 0.5, 1.0))
    ]
    axis = Figure().add_subplot()
    summary._panel(axis, cast(Any, SimpleNamespace(title="a title", values=pd.DataFrame(rows))))
    (bars,) = axis.containers
    points, _, (lines,) = cast(Any, bars)
    assert points.get_xdata().tolist() == [40.0, 75.0]
    assert points.get_ydata().tolist() == [1.0, 0.0], "the best one on top"
    assert [[x for x, _ in line] for line in lines.get_segments()] == [[25.0, 50.0], [50.0, 100.0]]


@pytest.mark.parametrize(
    ("solved", "said"),
    [
        ({"react": 0.5, "plan_first": 0.5, "cot": 0.2}, "plan_first and react solve the most cases, 50.0% each. "),
        ({"react": 0.0, "plan_first": 0.0}, "no planner solved any case."),
    ],
)
def test_ties_name_all_planners_and_a_best_planner_has_solved_a_case(
    tmp_path: Path, solved: dict[str, float], said: str
) -> None:
    written(tmp_path, solved)
    lines = summary.lines(tables(tmp_path))
    assert said in lines[0].replace("react and plan_first", "plan_first and react")
    assert "solves the most" not in " ".join(lines)

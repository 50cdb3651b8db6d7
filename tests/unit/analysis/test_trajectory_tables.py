"""Trajectory metrics and exact match by the number of tools, as a report shows them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.page import html
from analysis.page.drawing import Drawing
from analysis.page.table import Table
from analysis.tables import trajectories
from grid import store
from tests.support import searched
from tests.support.published import SIMPLE, episode, offers

HARD = {**SIMPLE, "level": "hard"}


def written(root: Path, cells: Sequence[Mapping[str, Any]], offered: int = 0) -> pd.DataFrame:
    """The cells of a results folder whose first decisions could take so many tools, where that is known."""
    store.write(root, {"episodes": list(cells), "steps": [offers(cell, offered) for cell in cells if offered]})
    return trajectories.read(root)


def only(root: Path, cells: Sequence[Mapping[str, Any]], offered: int = 0) -> Table:
    (table,) = trajectories.tables(root, written(root, cells, offered))
    return table


def of_planners(table: Table) -> dict[str, dict[str, str]]:
    rows = [dict(zip([*table.labels, *table.figures], row, strict=True)) for row in table.rows]
    return {row["planner"]: row for row in rows}


def test_only_metrics_that_apply_are_columns_and_none_that_is_missing_is_0(tmp_path: Path) -> None:
    cells = [episode(case, exact_match=True, inclusion=1.0, usage=1.0 if case else None) for case in range(4)]
    cells += [episode(case, "react", exact_match=False, inclusion=0.0) for case in range(4)]
    table = only(tmp_path, cells)
    assert table.figures == ["cases", "clusters", "EM", "inclusion", "usage"]
    rows = of_planners(table)
    both, three = "100.0 [1.2, 100.0]", "100.0 [0.3, 100.0]"  # of two clusters of one size, of 1 and 2 cases
    assert [rows["zero_shot"][name] for name in table.figures] == ["4", "2", both, both, three]
    assert [rows["react"][name] for name in table.figures] == ["4", "2", *["0.0 [0.0, 98.8]"] * 2, "–"]
    assert table.notes == ["usage: known for 0 to 75% of the cases"]


def test_scores_and_counts_keep_their_scale_and_intervals_stay_possible(tmp_path: Path) -> None:
    cells = [
        episode(case, exact_match=case > 0, traj_satisfy=9.0 + case % 2, extra_calls=0 if case else 30)
        for case in range(6)
    ]
    row = of_planners(only(tmp_path, cells))["zero_shot"]
    assert row["EM"].startswith("83.3 [")
    assert row["EM"] == "83.3 [14.9, 99.3]", "Student's would end above 100"
    assert row["traj-satisfy"].startswith("9.50")
    assert row["extra calls"] == "5.00 [0.07, 369.48]", "Student's would begin below 0"


def drawn(own: int, others: int, length: int) -> Iterator[tuple[float, float, float]]:
    """Inclusion, precision and exact match of every set of `length` tools among those on offer."""
    gold = set(range(own))
    for found in itertools.combinations(range(own + others), length):
        both = len(gold & set(found))
        yield both / length, both / len(found), float(both == length)


@pytest.mark.parametrize(("own", "others", "length"), [(3, 4, 3), (2, 5, 3), (4, 1, 4)])
def test_chance_is_what_drawing_has_on_average(own: int, others: int, length: int, tmp_path: Path) -> None:
    means = [math.fsum(values) / len(values) for values in zip(*drawn(own, others, length), strict=True)]
    cell = episode(0, exact_match=False, inclusion=0.0, tool_precision=0.0, retrieval_rate=own / length,
                   plan_nodes=length)  # fmt: skip
    cells = written(tmp_path, [cell], own + others)
    found = trajectories.chance(cells, trajectories.offers(tmp_path)).rows
    inclusion, precision, exact = (
        float(found[name].iloc[0]) for name in ("inclusion", "tool_precision", "exact_match")
    )
    assert [inclusion, precision, exact] == pytest.approx(means)


def test_chance_stands_under_each_dataset_and_not_where_an_outline_is_followed(tmp_path: Path) -> None:
    known: dict[str, Any] = {"exact_match": True, "inclusion": 1.0, "retrieval_rate": 1.0, "plan_nodes": 2}
    cells = [episode(case, data=data, **known) for case in range(4) for data in (SIMPLE, HARD)]
    table = only(tmp_path / "free", cells, offered=10)
    assert [row[2] for row in table.rows] == ["zero_shot", "chance", "zero_shot", "chance"]
    chance = of_planners(table)["chance"]
    assert (chance["EM"], chance["inclusion"], chance["clusters"]) == ("2.2", "20.0", "–")
    followed = [episode(case, tool_match_rate=1.0, **known) for case in range(4)]
    assert "chance" not in of_planners(only(tmp_path / "followed", followed, offered=10))


def test_exact_match_by_the_number_of_tools(tmp_path: Path) -> None:
    cells = [
        episode(case, data=data, plan_nodes=3 + case % 3, exact_match=case % 3 == 0 and data is SIMPLE)
        for case in range(12)
        for data in (SIMPLE, HARD)
    ]
    cells += [searched.episode("react", case, True, exact_match=True, plan_nodes=9) for case in range(2)]
    (table,) = trajectories.scaling_tables(tmp_path, written(tmp_path, cells))
    assert table.figures == ["3 tools", "4 tools", "5 tools"], "of other datasets nothing"
    none = "0 [0, 72] (4)"
    assert [row[3:] for row in table.rows] == [[none, none, none], ["100 [28, 100] (4)", none, none]]
    (drawing,) = trajectories.drawings(tmp_path, trajectories.read(tmp_path), "told; ")
    assert drawing.caption.startswith("told; ")
    assert drawing.svg.startswith("<svg")


def test_a_sweep_without_traject_bench_has_no_figure_of_it(tmp_path: Path) -> None:
    cells = written(
        tmp_path, [searched.episode("react", case, True, exact_match=True, plan_nodes=9) for case in range(2)]
    )
    assert not trajectories.scaling_tables(tmp_path, cells)
    assert not trajectories.drawings(tmp_path, cells, "")


def test_hostile_names_are_text_in_tables_and_figures(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    cells = [episode(case, hostile, model=hostile, plan_nodes=3, exact_match=True) for case in range(3)]
    found = written(tmp_path, cells)
    tables: list[Table] = [*trajectories.tables(tmp_path, found), *trajectories.scaling_tables(tmp_path, found)]
    drawings: list[Drawing] = trajectories.drawings(tmp_path, found, "")
    assert hostile not in html.page(tmp_path, tables, drawings)


def test_headers_are_their_metrics_names() -> None:
    """But for those that papers call otherwise."""
    paper = {
        "exact_match": "EM",
        "inclusion_set": "inclusion (set)",
        "passed": "pass rate",
        "hallucinated": "hallucination",
    }
    for name, (header, _) in trajectories.METRICS.items():
        words = re.split(r"[ \-()]+", paper.get(name, header).strip(")"))
        assert header == paper.get(name, header)
        assert name in paper or set(name.split("_")) >= {word.lower() for word in words}, name

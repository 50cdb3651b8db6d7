"""One planner with two of its numbers varied: which sweeps are such, the table, and the figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest

from analysis.page import html
from analysis.stats.intervals import share
from analysis.tables import two_numbers
from grid import store
from grid.core.types import to_json
from tests.support.searched import BUDGET, episode


def cell(case: int, success: bool, planner: dict[str, Any], name: str = "egb_sampling", **other: Any) -> dict[str, Any]:
    label = f"{name}[{','.join(f'{key}={value}' for key, value in planner.items())}]"
    config = to_json({"planner": {"temperature": 1.0, "parallel": True, **planner}, "budget": dict(BUDGET)})
    found = episode(label, case, success, **({"config": config} | other))
    key = f"{found['model']}/{found['cell_id']}/{config}"
    return found | {"cell_id": key, "cell_key": key}


def grid_cells(
    first: tuple[int, ...] = (1, 2, 10), second: tuple[int, ...] = (1, 5), n: int = 6, **other: Any
) -> list[dict[str, Any]]:
    """Of setting (m, b) the first cases succeed, one more with each step of either number."""
    return [
        cell(case, case < place + 2 * column, {"samples": m, "trajectories": b}, **other)
        for place, m in enumerate(first)
        for column, b in enumerate(second)
        for case in range(n)
    ]


def found(tmp_path: Path, rows: list[dict[str, Any]]) -> list[two_numbers.Grid]:
    store.write(tmp_path, {"episodes": rows})
    return two_numbers.grids(two_numbers.read(tmp_path))


def test_a_grid_has_every_setting_with_its_interval(tmp_path: Path) -> None:
    (grid,) = found(tmp_path, grid_cells())
    assert (grid.planner, grid.first, grid.second) == ("egb_sampling", "samples", "trajectories")
    assert len(grid.table) == 6
    assert set(grid.table["cases"]) == {6}
    expected = two_numbers.read(tmp_path).query("planner == 'egb_sampling[samples=10,trajectories=5]'")
    success = expected.groupby(["cluster", "case_id"], observed=True)["success"].mean()
    at = grid.at(10, 5)
    assert at is not None
    assert at == pytest.approx(share(success))
    assert at.mean == pytest.approx(4 / 6)
    assert grid.at(3, 5) is None
    assert set(grid.table["tokens"]) == {1010}


def test_the_middle_value_of_two_is_the_higher(tmp_path: Path) -> None:
    """As the figure of the paper holds m at 10 and b at 5."""
    (grid,) = found(tmp_path, grid_cells((1, 2, 5, 10, 15, 20), (1, 2, 3, 5, 7, 10), n=2))
    assert (grid.middle("samples"), grid.middle("trajectories")) == (10, 5)


@pytest.mark.parametrize(
    "rows",
    [
        grid_cells(first=(1,)),
        grid_cells(first=(1, 2), second=(1,)),
        [one for one in grid_cells(first=(1, 2)) if "samples=2,trajectories=5" not in one["planner"]],
        [cell(0, True, {"samples": m, "trajectories": b, "temperature": m + b}) for m in (1, 2) for b in (1, 2)],
        [cell(0, True, {"parallel": flag, "order": text}) for flag in (True, False) for text in ("a", "b")],
        [episode(planner, 0, True, config="{}") for planner in ("react", "cot")],
    ],
    ids=["one number", "the other", "three settings", "three numbers", "no numbers", "no planner's config"],
)
def test_other_sweeps_have_none(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert found(tmp_path, rows) == []
    assert two_numbers.drawings(tmp_path) == []
    assert two_numbers.tables(tmp_path) == []


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": []})
    assert two_numbers.drawings(tmp_path) == []


def test_settings_that_differ_in_more_are_of_grids_of_their_own(tmp_path: Path) -> None:
    """By model, robustness, budget and by a planner's other values; another planner's settings are no part of it."""
    rows = grid_cells() + grid_cells(model="big") + grid_cells(robustness="extraneous")
    rows += [cell(case, True, {"samples": m, "trajectories": b, "order": "other"})
             for m in (1, 2) for b in (1, 2) for case in range(2)]  # fmt: skip
    rows += [cell(case, True, {"samples": m}, name="self_consistency") for m in (1, 2) for case in range(2)]
    grids = found(tmp_path, rows)
    assert sorted(len(grid.table) for grid in grids) == [4, 6, 6, 6]
    assert {grid.place["model"] for grid in grids} == {"tiny", "big"}
    assert {grid.planner for grid in grids} == {"egb_sampling"}


def test_the_table_says_what_the_grid_holds(tmp_path: Path) -> None:
    rows = [one for one in grid_cells() if one["planner"] != "egb_sampling[samples=10,trajectories=1]"]
    store.write(tmp_path, {"episodes": rows})
    (table,) = two_numbers.tables(tmp_path)
    assert table.title == "tiny on slate: success of egb_sampling by samples and trajectories (egb_slate, figure 6)"
    assert (table.labels, table.figures) == (["samples"], ["trajectories=1", "5"])
    assert [row[0] for row in table.rows] == ["1", "2", "10"]
    assert [row[1].split()[0] for row in table.rows] == ["0", "17", "–"]
    assert [row[2].split()[0] for row in table.rows] == ["33", "50", "67"]
    assert all(re.fullmatch(r"\d+ \[\d+, \d+\]", row[2]) for row in table.rows)
    queried = duckdb.connect().execute(table.query).df().groupby("planner")["success"].mean()
    assert queried["egb_sampling[samples=10,trajectories=5]"] == pytest.approx(4 / 6)
    assert len(queried) == 5


def test_the_figure_shows_every_setting_and_both_curves(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": grid_cells()})
    (drawing,) = two_numbers.drawings(tmp_path)
    drawn = ElementTree.fromstring(drawing.svg)  # noqa: S314 - it was made here
    assert "(first curve: trajectories=5; second: samples=2)" in drawing.caption
    assert two_numbers.drawings(tmp_path)[0].svg == drawing.svg, "the same bytes for the same rows"
    texts = ["".join(element.itertext()).strip() for element in drawn.iter() if element.tag.endswith("}text")]
    assert {"0", "17", "33", "50", "67"} <= set(texts)
    assert texts.count("trajectories=5") == 1
    assert texts.count("samples=2") == 1


def test_names_are_texts(tmp_path: Path) -> None:
    """A model's name and a planner's come from files: they are escaped in the page."""
    hostile = "<script>alert(1)</script>"
    store.write(tmp_path, {"episodes": grid_cells(model=hostile)})
    page = html.page(tmp_path, two_numbers.tables(tmp_path), two_numbers.drawings(tmp_path))
    assert hostile not in page
    assert "&lt;script&gt;alert(1)" in page

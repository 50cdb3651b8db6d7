"""Success as a function of two numbers in a planner's config, as a heat map and as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import load
from analysis.load import name_of, provenance, queries, spending
from analysis.load.queries import ask
from analysis.page.drawing import COLOURS, MARKERS, Drawing, percents, svg_of
from analysis.page.table import MISSING, Column, Table, bounds, label, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, Interval, n_clusters, share
from grid.core.untrusted import shown_lines
from grid.store.schema import APART

_COLOURS, _DARK = "Blues", 0.65  # share of the scale above which text is white
_PANEL, _CELL, _FRAME, _LEAST = 4.0, (0.62, 0.4), (0.9, 1.1), 3.0  # widths and heights, in inches


# A heat map of success over two numbers of a planner, and a curve over each number with the other number fixed.


def drawings(root: Path) -> list[Drawing]:
    """A figure for each planner with two numbers that vary; no figure if there is no such planner.

    Raises:
        StoreError: the folder cannot be read.
    """
    every = read(root)
    return [_drawing(root, grid, every, number) for number, grid in enumerate(grids(every), start=1)]


def _drawing(root: Path, grid: Grid, every: pd.DataFrame, number: int) -> Drawing:
    held = [f"{key}={grid.middle(key):g}" for key in (grid.second, grid.first)]
    told = provenance.simulated_notice(every[every["model"] == grid.place["model"]])
    return Drawing(
        name=_called(grid),
        title=title(grid),
        caption=f"{told}success in % of cases, with 95% intervals in brackets and as bars ({intervals.SHARES}); "
        f"curves: one number varies, and the other is held at its middle value (first curve: {held[0]}; second: "
        f"{held[1]})",
        svg=_svg(grid, f"varied-{number}"),
        query=queries.of_files(root, grid.query),
        section=SECTION,
        model=grid.place["model"],
        dataset=grid.place["dataset"],
    )


def _svg(grid: Grid, name: str) -> str:
    def draw(axes: Sequence[Axes]) -> None:
        _heat(axes[0], grid)
        _curve(axes[1], grid, grid.first, grid.second)
        _curve(axes[2], grid, grid.second, grid.first)

    width = max(_PANEL, _FRAME[0] + _CELL[0] * len(grid.values(grid.second)))
    height = max(_LEAST, _FRAME[1] + _CELL[1] * len(grid.values(grid.first)))
    return svg_of(name, 1, 3, draw, width=width, height=height)


def _heat(axis: Axes, grid: Grid) -> None:
    """One cell per pair of values, empty if the pair did not run; all figures have the same scale, from 0 to 100%."""
    rows, columns = grid.values(grid.first), grid.values(grid.second)
    found = [[grid.at(first, second) for second in columns] for first in rows]
    values = np.array([[one.mean if one else np.nan for one in row] for row in found])
    axis.pcolormesh(values, cmap=_COLOURS, vmin=0.0, vmax=1.0)  # not an image, because a page loads no images
    for place, row in enumerate(found):
        for column, one in enumerate(row):
            if one:
                axis.text(column + 0.5, place + 0.5, _text(one), ha="center", va="center", fontsize=6.5,
                          color="white" if one.mean > _DARK else "black")  # fmt: skip
    axis.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axis.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axis.set_xlabel(grid.second)
    axis.set_ylabel(grid.first)
    axis.set_title(shown_lines(f"{grid.place['model']} on {grid.place['dataset']}\nsuccess, %"), fontsize=8)
    axis.spines[:].set_visible(False)


def _text(found: intervals.Interval) -> str:
    if np.isnan(found.low):
        return f"{100 * found.mean:.0f}"
    return f"{100 * found.mean:.0f}\n[{100 * found.low:.0f}, {100 * found.high:.0f}]"


def _curve(axis: Axes, grid: Grid, along: str, held: str) -> None:
    fixed, values = grid.middle(held), grid.values(along)
    points = [(value, grid.at(*((value, fixed) if along == grid.first else (fixed, value)))) for value in values]
    known = [(value, one) for value, one in points if one]
    means = np.array([one.mean for _, one in known])
    bounds = np.array([[one.low, one.high] for _, one in known]).reshape(-1, 2).T
    axis.errorbar([value for value, _ in known], means, yerr=np.nan_to_num(np.abs(bounds - means)), color=COLOURS[0],
                  marker=MARKERS[0], markersize=4, linewidth=1.2, capsize=2)  # fmt: skip
    axis.set_ylim(-0.02, 1.02)
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.grid(alpha=0.25)
    axis.set_xlabel(along)
    percents(axis.yaxis, "success")
    axis.set_title(f"{held}={fixed:g}", fontsize=8)


# The table next to the heat map: success over two numbers of a planner.


SECTION = "Two numeric keys of a planner"
_FIGURES = {("egb_sampling", "samples", "trajectories"): " (egb_slate, figure 6)"}


def tables(root: Path) -> list[Table]:
    """A table for each planner with two numbers that vary; no table if there is no such planner.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [_table(root, grid) for grid in grids(read(root))]


def title(grid: Grid) -> str:
    """The title of a grid's table and figure."""
    place = grid.place
    robustness = f", {place['robustness']}" if place["robustness"] != "none" else ""
    figure = _FIGURES.get((grid.planner, grid.first, grid.second), "")
    name = f"{place['model']} on {place['dataset']}{robustness}"
    return f"{name}: success of {grid.planner} by {grid.first} and {grid.second}{figure}"


def _place(grid: Grid) -> dict[str, str]:
    return {**grid.place, "planner": grid.planner}


def _called(grid: Grid) -> str:
    """The name of a grid's table and figure."""
    return " ".join(["varied", *_place(grid).values()])


def _table(root: Path, grid: Grid) -> Table:
    columns = grid.values(grid.second)
    counts = sorted(grid.table["cases"].unique())
    cases = f"{counts[0]:,} cases" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} cases"
    values = pd.DataFrame(grid.table).assign(**_place(grid))
    return Table(
        name=_called(grid),
        title=title(grid),
        by=[label(grid.first)],
        columns=[
            Column(f"{grid.second}={second:g}" if place == 0 else f"{second:g}", partial(_at, grid, second))
            for place, second in enumerate(columns)
        ],
        values=values,
        query=queries.of_files(root, grid.query),
        about=f"success in %, with 95% intervals in brackets ({intervals.SHARES}); one row per value of "
        f"{grid.first}, one column per value of {grid.second}; {cases} per setting; "
        f"{MISSING}: this setting did not run",
        lines=[{grid.first: first} for first in grid.values(grid.first)],
        section=SECTION,
    )


def _at(grid: Grid, second: float, line: Mapping[str, float]) -> str:
    found = grid.at(line[grid.first], second)
    if found is None:
        return MISSING
    return f"{number(found.mean, '.0f', 100)} {bounds(found.low, found.high, '.0f', missing='')}".rstrip()


# The settings of one planner that differ only in two of its numbers, and their success.


LEAST = 4
"""Minimum number of settings in a grid, because each of the two numbers needs two values."""
PLACE = ["model", "dataset", "robustness"]
_SAME = [name for name in APART if name not in ("planner", "setting_id")]
_COLUMNS = [*provenance.SIMULATED_COLUMNS, *spending.SPENT, "config"]


@dataclass(frozen=True)
class Grid:
    """The settings of a planner that differ only in two numbers, `first` and `second`.

    `place` has the labels of PLACE. `table` has one row per setting: both numbers by their names, `cases`, `clusters`,
    `success` with `_low` and `_high` (95%, over clusters of cases), and `tokens` (mean per case, of all roles
    together). `query` is the query for the cases' means.
    """

    place: Mapping[str, str]
    planner: str
    first: str
    second: str
    table: pd.DataFrame
    query: str

    def values(self, key: str) -> list[float]:
        """The values of a number, ascending."""
        return sorted(self.table[key].unique())

    def middle(self, key: str) -> float:
        """The value at which one number is fixed while the other varies: the middle value or, of two, the higher."""
        values = self.values(key)
        return values[len(values) // 2]

    def at(self, first: float, second: float) -> Interval | None:
        """The success of a setting; None if the setting did not run, or if its success is not known."""
        own = self.table[(self.table[self.first] == first) & (self.table[self.second] == second)]
        known = own.dropna(subset=["success"])
        return Interval(*map(float, known[["success", "success_low", "success_high"]].iloc[0])) if len(known) else None


def read(root: Path) -> pd.DataFrame:
    """One row per cell from `load.episodes`; no rows if the planners' configs show that no planner can have a grid.

    Raises:
        StoreError: the folder cannot be read.
    """
    few = load.rows(root, ["planner", "config"], categories=["planner", "config"])
    by_name: dict[str, list[dict[str, float]]] = {}
    for pair in few.group_by(["planner", "config"]).aggregate([]).to_pylist():
        found = _numbers(json.loads(pair["config"] or "{}").get("planner", {}))
        by_name.setdefault(name_of(str(pair["planner"])), []).append(found)
    if not any(len(settings) >= LEAST and len(_varied(settings)) > 1 for settings in by_name.values()):
        return pd.DataFrame()
    return load.episodes(root, _COLUMNS)


def grids(cells: pd.DataFrame) -> list[Grid]:
    """Every planner for which exactly two numbers vary among otherwise equal settings, in the cells' order.

    A number is the numeric value of a key of the planner. There must be at least LEAST pairs of values. Settings that
    differ in other values of the planner's keys, in the budget or in any other part belong to different grids.
    """
    if cells.empty:
        return []
    configs = {str(text): json.loads(str(text)) for text in cells["config"].dropna().unique()}
    numbers = {text: _numbers(config.get("planner", {})) for text, config in configs.items()}
    rest = {text: _rest(config) for text, config in configs.items()}
    names = cells["planner"].astype(str).map(name_of)
    alike = cells.assign(name=names, rest=cells["config"].astype(str).map(rest))
    found = []
    for _, own in alike.groupby([*_SAME, "name", "rest"], sort=False, observed=True, dropna=False):
        texts = own["config"].astype(str)
        each = pd.DataFrame([numbers[text] for text in texts], index=own.index)
        varied = _varied([numbers[text] for text in texts.unique()])
        if len(varied) != 2 or len(each[varied].drop_duplicates()) < LEAST:
            continue
        (first, second), planner = varied, str(own["name"].iloc[0])
        place = {name: str(own[name].iloc[0]) for name in PLACE}
        where = queries.where({name: [of] for name, of in (place | {"planner": planner}).items()})
        asked = ask(own, queries.of_cases({"success": "success", "tokens": spending.SQL}, where))
        settings = each[varied].assign(planner=own["planner"]).drop_duplicates("planner")
        frame = pd.DataFrame(_rows(asked.rows.merge(settings, on="planner"), first, second))
        found.append(Grid(place, planner, first, second, frame, asked.query))
    return found


def _rows(cases: pd.DataFrame, first: str, second: str) -> Iterator[dict[str, Any]]:
    for key, own in cases.groupby([first, second], sort=True):
        means = own.set_index([CLUSTER, "case_id"])
        yield dict(zip((first, second), key, strict=True)) | {
            "cases": len(means),
            "clusters": n_clusters(means),
            **share(means["success"].dropna()).named("success"),
            "tokens": means["tokens"].mean(),
        }


def _numbers(planner: Mapping[str, Any]) -> dict[str, float]:
    return {key: value for key, value in planner.items() if _is_number(value)}


def _rest(config: Mapping[str, Any]) -> str:
    """The values that all settings of a grid share: the planner's values that are not numbers, and the budget."""
    other = {key: value for key, value in config.get("planner", {}).items() if not _is_number(value)}
    return json.dumps([other, config.get("budget")], sort_keys=True)


def _varied(settings: Sequence[Mapping[str, float]]) -> list[str]:
    """The numbers for which settings have several values."""
    keys = dict.fromkeys(key for numbers in settings for key in numbers)
    return [key for key in keys if len({numbers.get(key) for numbers in settings}) > 1]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""The figures of cost against success, and the table of who is on the frontier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import load
from analysis.load import queries, spending
from analysis.page.drawing import Drawing, svg_of
from analysis.page.table import MISSING, POINTS, SIGNIFICANT, Column, Table, bounded, number
from analysis.stats import intervals
from analysis.tables import frontier_points as points
from analysis.tables.frontier_points import MONEY, PLACE, TOKENS, UNDISTURBED
from grid.core.untrusted import shown

SECTION = "Cost against success"
NAME = "frontier of cost and success"
_PANELS = 12  # of one figure
_ACROSS, _WIDTH = 2, 5.6
_TITLE = 60  # characters
_COSTS = {
    TOKENS: f"means per case; {spending.TOLD}",
    MONEY: "means per case of US dollars, all roles, by their models' prices",
}
_AXIS = {TOKENS: "tokens per case", MONEY: "US dollars per case"}
_ON = (
    "on the frontier: nobody of the same model, dataset and robustness does at least as well at no more cost, by means "
    "alone"
)
_TERMS = (
    "planners that asked whether a case was resolved (asked) are on other terms: they have a frontier of their own, "
    "dotted, with hollow points"
)


def drawings(root: Path) -> list[Drawing]:
    """A panel for each model and dataset with two planners or more: undisturbed ones, then those of other robustness.

    Raises:
        StoreError: the folder cannot be read.

    Raises:
        StoreError: the folder cannot be read.
    """
    cells, table, cost = _read(root)
    if table.empty:
        return []
    told = (
        f"{points.about(cells)}{_COSTS[cost]}; bars: 95% intervals of success, {intervals.SHARES}; blue and joined: "
        f"{_ON}; grey squares: the others; an axis whose costs span more than a factor of 10 is logarithmic"
    )
    told += f"; {_TERMS}" * bool(table["asked"].any())
    found: list[Drawing] = []
    for title, own in _parts(table):
        name = f"cost-{len(found) + 1}"
        svg = _figure(own, cost, name)
        found.append(Drawing(name, title, told, svg, _query(root), SECTION))
    return found


def sheets(root: Path) -> list[Table]:
    """Who is on the frontier of each model, dataset and robustness setting; none where nobody can be compared.

    Raises:
        StoreError: the folder cannot be read.
    """
    _, table, cost = _read(root)
    if table.empty:
        return []
    best = table[table["frontier"]].sort_values([*PLACE, "asked", cost], kind="stable", key=_in_turn(table))
    rows = best.to_dict("records")
    labels = [*(name for name in PLACE if table[name].nunique() > 1), "planner"]
    places = [tuple(row[name] for name in [*PLACE, "asked"]) for row in rows]
    return [
        Table(
            name=NAME,
            title="who is on the frontier of cost and success",
            by=[Column(name, partial(_label, name)) for name in labels],
            columns=[
                Column(_AXIS[cost], lambda row: number(row[cost], ",.0f" if cost == TOKENS else SIGNIFICANT)),
                Column("success", lambda row: bounded(row, "success")),
                Column("more", lambda row: bounded(row, "gain", POINTS, missing=MISSING)),
                Column("times the cost", lambda row: bounded(row, "times", ".2f", 1.0, missing=MISSING)),
            ],
            values=best.drop(columns="frontier"),
            query=_query(root),
            about=f"{_ON}; {_COSTS[cost]}; success in %, in brackets 95% intervals "
            f"({intervals.SHARES}); more and times: its success (in points) and its cost against those of the row "
            f"above, over the cases that both have, with 95% intervals ({intervals.TOLD}); an interval of more that "
            f"includes 0 leaves open whether the cost buys anything; {_TERMS}",
            notes=_dominated(table),
            breaks=frozenset(place for place in range(1, len(rows)) if places[place] != places[place - 1]),
            section=SECTION,
        )
    ]


def _read(root: Path) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The cells, the settings that are compared, and by which cost."""

    def made() -> tuple[pd.DataFrame, pd.DataFrame, str]:
        cells = points.read(root)
        cost = points.cost_of(cells)
        return cells, points.comparable(points.points(cells), cost) if len(cells) else pd.DataFrame(), cost

    return load.once(root, "frontier", made)


def _in_turn(table: pd.DataFrame) -> Any:
    """A key that keeps labels in the table's order: undisturbed settings first."""
    order = {name: {value: place for place, value in enumerate(table[name].unique())} for name in PLACE}
    return lambda column: column.map(order[column.name]) if column.name in order else column


def _label(name: str, row: Mapping[Any, Any]) -> str:
    return f"{row[name]}{points.ASKED if name == 'planner' and row['asked'] else ''}"


def _dominated(table: pd.DataFrame) -> list[str]:
    """Who is not on any frontier, by name."""
    never = table.groupby("planner", sort=False)["frontier"].any()
    names = [str(name) for name in never.index[~never]]
    return [f"on no frontier: {', '.join(names)}"] if names else []


def _parts(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each figure with its title, at most so many panels a figure."""
    undisturbed = table["robustness"] == UNDISTURBED
    titles = ("cost against success", "cost against success, other robustness settings")
    for title, own in zip(titles, (table[undisturbed], table[~undisturbed]), strict=True):
        panels = [part for _, part in points.by_place(own)]
        for start in range(0, len(panels), _PANELS):
            more = f", {start // _PANELS + 1}" if len(panels) > _PANELS else ""
            yield f"{title}{more}", pd.concat(panels[start : start + _PANELS])


def _figure(table: pd.DataFrame, cost: str, name: str) -> str:
    panels = list(points.by_place(table))
    rows = -(-len(panels) // _ACROSS)
    inches = points.height(max(len(own) for _, own in panels))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, ((model, dataset, robustness), own) in zip(axes, panels, strict=False):
            points.draw_panel(axis, own, cost, "frontier", inches)
            disturbed = "" if robustness == UNDISTURBED else f"\n{robustness}"[: _TITLE + 1]
            axis.set_title(shown(f"{model} on {dataset}"[:_TITLE]) + disturbed[:1] + shown(disturbed[1:]), fontsize=8)
            axis.set_xlabel(_AXIS[cost])
            axis.set_ylabel("success, share of cases")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)

    return svg_of(name, rows, min(_ACROSS, len(panels)), draw, width=_WIDTH, height=inches)


def _query(root: Path) -> str:
    values = {"success": "success", "tokens": spending.SQL, "money": "money", "resolved_checks": "resolved_checks"}
    return queries.by_case(root, values, "true")

"""Quotable first sentences of a report: the planner that solves the most cases, its cost and its lead.

They also say whether the lead is significant. All sentences are derived from the tables of results, differences and
costs, so that they agree with these tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.page.drawing import COLOURS, MARKERS, Drawing, each_panel, legend, svg_of
from analysis.page.table import POINTS, Table, bounds, number
from analysis.stats import intervals
from analysis.tables import rates
from analysis.tables.rates import rounded
from grid.core.untrusted import shown

NAME = "success"
_SURE, _UNSURE = "significant also after Holm's correction", "significant, but not after Holm's correction"
_MOST = 8
"""Maximum number of pairs of a model and a data set that are described; the tables have all pairs."""
_NAMED = 4
_PANELS, _PLANNERS = 6, 30
"""Maximum numbers of panels and of planners in the figure; the tables have all of them."""
_NAME = 34  # maximum length of a planner's name, in characters
Row = dict[Any, Any]


def lines(found: Sequence[Table]) -> list[str]:
    """At most three lines on each model and data set (on undisturbed cells, if any): best planner, open differences.

    There is no line on a model and data set without known success. Only the first `_MOST` pairs of a model and a data
    set are described; a last line gives the number of the others.

    Args:
        found: the tables of a report.
    """
    places = [(table, *_beside(found, table)) for table in found if table.name.startswith("results ")]
    told = [line for table, differences, costs in places[:_MOST] for line in _place(table, differences, costs)]
    more = f"and {len(places) - _MOST:,} more pairs of a model and a data set, which the tables show"
    return [*told, *[more] * (len(places) > _MOST)]


def _beside(found: Sequence[Table], results: Table) -> tuple[list[Row], list[Row]]:
    """The rows of differences from the reference planner and the rows of costs, both from undisturbed settings."""
    place = results.name.removeprefix("results ")
    named = {table.name: table for table in found}
    differences = named.get(f"differences {rates.REFERENCE} {place}")
    costs = named.get(f"costs {place}")
    return _undisturbed(differences.values) if differences else [], _undisturbed(costs.values) if costs else []


def _undisturbed(values: pd.DataFrame) -> list[Row]:
    """The rows of the first robustness setting, which is the undisturbed setting if that setting ran."""
    return [row for row in values.to_dict("records") if row["robustness"] == values["robustness"].iloc[0]]


def _place(table: Table, differences: Sequence[Row], costs: Sequence[Row]) -> Iterator[str]:
    ran = [row for row in _ran(table) if not math.isnan(row["success_mean"])]
    if not ran:
        return
    asked = {str(row["planner"]) for row in costs if row[rates.CHECKS] > 0}
    times = {str(row["planner"]): float(row.get(rates.TIMES, math.nan)) for row in costs}
    against = {str(row["planner"]): row for row in differences}
    best = _best(ran)
    where = f"{table.title} ({best[0]['cases']:,} cases{_disturbed(best[0])})"
    if not best[0]["success_mean"]:
        yield f"{where}: no planner solved any case."
        return
    yield f"{where}: {_told(best, against, times, asked)}."
    alone = [row for row in ran if str(row["planner"]) not in asked]
    if alone and all(str(row["planner"]) in asked for row in best):
        fair = _told(_best(alone), against, times, set())
        yield f"Of the planners that never ask whether a case is resolved, {fair}."
    open_ones = [row for row in differences if row["success_low"] <= 0 <= row["success_high"]]
    if open_ones:
        yield _open(open_ones)


def _best(rows: Sequence[Row]) -> list[Row]:
    """The rows with the highest success; all of them have the same success."""
    most = max(float(row["success_mean"]) for row in rows)
    return [row for row in rows if math.isclose(row["success_mean"], most)]


def _told(rows: Sequence[Row], against: dict[str, Row], times: dict[str, float], asked: set[str]) -> str:
    """A text about the planners with the highest success: their names, then details on each."""
    success, names = f"{number(rows[0]['success_mean'], scale=100)}%", [str(row["planner"]) for row in rows]
    each = [_lead(row, against, times, asked) for row in rows[:_NAMED]]
    if len(rows) == 1:
        return f"{names[0]} solves the most cases, {success}{each[0]}"
    more = [f"{len(names) - _NAMED:,} more"] * (len(names) > _NAMED)
    *others, last = [*names[:_NAMED], *more]
    details = "".join(f". {name}: {told.lstrip(' ,;')}" for name, told in zip(names, each, strict=False) if told)
    return f"{', '.join(others)} and {last} solve the most cases, {success} each{details}"


def _lead(row: Row, against: dict[str, Row], times: dict[str, float], asked: set[str]) -> str:
    """A planner's interval, its lead over the reference, and the ratio of both planners' tokens, each if known."""
    planner = str(row["planner"])
    told = f" {bounds(row['success_low'], row['success_high'], missing='')}".rstrip()
    if planner in asked:
        told += ", and asks whether a case is resolved"
    found = against.get(planner)
    if found is None or pd.isna(found["success_low"]):
        return told
    more = f"{number(found['success'], POINTS, 100)} points"
    told += (
        f"; compared with {found['reference']}: {more} {bounds(found['success_low'], found['success_high'], POINTS)}"
    )
    if not math.isnan(times.get(planner, math.nan)):
        told += f" at {times[planner]:.1f} times the tokens"
    if found["success_low"] <= 0 <= found["success_high"]:
        return f"{told}; the difference may be due to chance"
    return f"{told}, {_SURE if found['success_holm'] < intervals.LEVEL else _UNSURE}"


def _open(differences: Sequence[Row]) -> str:
    """The differences from the reference that may be chance, and how many cases would settle the largest of them."""
    ordered = sorted(differences, key=lambda row: -abs(float(row["success"])))
    names = [f"{row['planner']} ({number(row['success'], POINTS, 100)})" for row in ordered]
    listed = ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED:,} more" * (len(names) > _NAMED)
    needed = float(ordered[0]["success_needed"])
    settled = (
        ""
        if math.isnan(needed)
        else (f"; {rounded(needed)} cases would settle the first difference, if it is as large as estimated")
    )
    return f"No significant difference from {ordered[0]['reference']}: {listed}{settled}."


def _disturbed(row: Row) -> str:
    return "" if row["robustness"] == "none" else f", robustness {row['robustness']}"


def _ran(table: Table) -> list[Row]:
    """The rows of planners in undisturbed settings, without the rows of baselines."""
    return [row for row in _undisturbed(table.values) if not pd.isna(row["cells"])]


def drawings(found: Sequence[Table]) -> list[Drawing]:
    """Success of every planner with its interval: a panel per model and data set, a marker per robustness setting."""
    shown_here = [table for table in found if table.name.startswith("results ")][:_PANELS]
    drawn = [table for table in shown_here if table.values["cells"].notna().any()]
    if not drawn:
        return []
    deepest = max(min(table.values["planner"].nunique(), _PLANNERS) for table in drawn)

    def draw(axes: Sequence[Axes]) -> None:
        for axis, table in each_panel(axes, drawn):
            _panel(axis, table)
        legend(axes)

    across = min(len(drawn), 2)
    svg = svg_of(NAME, math.ceil(len(drawn) / across), across, draw, width=5.6, height=1.1 + 0.24 * deepest)
    before = "".join(dict.fromkeys(table.before for table in drawn))
    told = f"{before}success in % of cases, with 95% intervals ({intervals.SHARES}); the best planner is at the top"
    return [Drawing(NAME, "success of every planner", told, svg, drawn[0].query)]


def _panel(axis: Axes, table: Table) -> None:
    rows = [row for row in table.values.to_dict("records") if not pd.isna(row["cells"])]
    first = [row for row in rows if row["robustness"] == rows[0]["robustness"]]
    first.sort(key=lambda row: -np.nan_to_num(row["success_mean"], nan=-1.0))
    order = {str(row["planner"]): place for place, row in enumerate(first[:_PLANNERS])}
    settings = list(dict.fromkeys(str(row["robustness"]) for row in rows))
    for at, robustness in enumerate(settings):
        own = [row for row in rows if str(row["robustness"]) == robustness and str(row["planner"]) in order]
        known = [row for row in own if not pd.isna(row["success_mean"])]
        if not known:
            continue
        means = 100 * np.array([row["success_mean"] for row in known])
        reach = np.abs(100 * np.array([[row["success_low"], row["success_high"]] for row in known]).T - means)
        heights = np.array([order[str(row["planner"])] for row in known]) + 0.5 * ((at + 0.5) / len(settings) - 0.5)
        axis.errorbar(means, heights, xerr=np.nan_to_num(reach), color=COLOURS[at % len(COLOURS)], capsize=2,
                      linestyle="none", marker=MARKERS[at % len(MARKERS)], markersize=5,
                      label=shown(robustness))  # fmt: skip
    names = [shown(name if len(name) <= _NAME else f"{name[: _NAME - 1]}…") for name in order]
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(-2, 102)
    axis.set_title(shown(table.title), fontsize=9)
    axis.grid(axis="x", alpha=0.25)
    axis.set_xlabel("success, %")

"""Figures of plans: errors by task, extraneous calls, correctness by horizon and stage (figures 3 to 6, 58 and 59).

This module stands apart from the list of all drawings, just as `tables.plans`, which computes the numbers drawn here,
is separate from the other tables.

The paper's text has only the captions of figures 58 and 59. In this module, figure 58 shows each error's share of all
errors, with one bar per model, and figure 59 shows the share of plans with each error in each kind of task, with one
line per model. Both are drawn only if there are several models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.load import SETTING, provenance, queries
from analysis.load.queries import Asked
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, each_panel, legend, percents, reach, svg_of
from analysis.page.table import named
from analysis.stats import intervals
from analysis.tables import plan_cells, plans
from analysis.tables.measures import measured
from analysis.tables.plan_cells import HOLISTIC, NAMES, SECTION, STEPWISE, scorers
from analysis.tables.plans import ERROR_RATES, ERRORS_TOLD, HORIZON, STAGE
from grid.core.types import ERRORS
from grid.core.untrusted import shown

_WIDE = 3  # maximum number of panels in a row
_LEAST = 6.0  # minimum width of a row of panels, in inches
_TITLES = {
    HORIZON: "correct next steps by the number of steps to predict (agent_planning_benchmark, figure 5)",
    STAGE: "correct next steps by their stage in the trajectory (agent_planning_benchmark, figure 6)",
}


def drawings(root: Path, cells: pd.DataFrame) -> list[Drawing]:
    """Figures 3 to 6, 58 and 59, each only if there are data for the figure."""
    if cells.empty:
        return []
    first = f"{provenance.simulated_notice(cells)}scored by: {scorers(cells)}; bars: 95% intervals, {intervals.SHARES}"
    found = _errors(root, cells, first) + _across_models(root, cells, first)
    used, text = plans.by_number(cells, plan_cells.within(cells))
    numbered = used[used["n_e"] != plans.ALL] if len(used) else used
    if len(numbered) and numbered["n_e"].nunique() > 1:
        svg = _lines(
            "plans-extraneous", numbered, "n_e", "extraneous_calls", "calls to extraneous tools per case", ["mode"]
        )
        title = "calls to extraneous tools by the number of these tools (agent_planning_benchmark, figure 4)"
        about = (
            f"{provenance.simulated_notice(cells)}scored by: {scorers(cells)}; bars: 95% intervals, {intervals.AMOUNTS}"
        )
        told = (
            f"{about}; one panel for each model, data set and kind of planning; points are moved sideways to avoid "
            "overlap"
        )
        found.append(Drawing("plans-extraneous", title, told, svg, queries.of_files(root, text), SECTION))
    for column, title in _TITLES.items():
        frame, text = plans.profile(cells, column, plan_cells.within(cells))
        if plans.several(frame, column):
            name = f"plans-{column.replace('_', '-')}"
            svg = _lines(name, frame, column, "success", "correct", [])
            told = f"{first}; {plans.caption(cells, column)}; points are moved sideways to avoid overlap"
            found.append(Drawing(name, title, told, svg, queries.of_files(root, text), SECTION))
    return found


def _errors(root: Path, cells: pd.DataFrame, first: str) -> list[Drawing]:
    """Figure 3: the share of plans with each error, with a panel for each model, data set and kind of planning."""
    own, query = diagnosed(cells, [HOLISTIC, STEPWISE])
    if own.empty:
        return []
    frame = measured(own.sort_values("mode", kind="stable"), [*SETTING, "mode"], ERROR_RATES)
    rows = _by_error(frame, [*SETTING, "mode"])
    svg = _lines("plans-errors", rows, "error", "share", "plans with the error", ["mode"], joined=False)
    title = "errors by kind of planning (agent_planning_benchmark, figure 3)"
    text = queries.of_files(root, query)
    return [
        Drawing(
            "plans-errors",
            title,
            f"{first}; {ERRORS_TOLD}; points are moved sideways to avoid overlap",
            svg,
            text,
            SECTION,
        )
    ]


def _across_models(root: Path, cells: pd.DataFrame, first: str) -> list[Drawing]:
    """Figures 58 and 59: the errors of several models on one data set, for each planner."""
    own, query = diagnosed(cells, NAMES)
    own = own[own.groupby(SETTING[1:], observed=True)["model"].transform("nunique") > 1]
    if own.empty:
        return []
    shares, text = error_shares(own), queries.of_files(root, query)
    title = "each error's share of all errors, across models (agent_planning_benchmark, figure 58)"
    about = first.partition("; bars:")[0]
    told = (
        f"{about}; each error's share of all errors in a model's plans; one panel for each data set and planner; "
        f"{ERRORS_TOLD}"
    )
    found = [Drawing("plans-error-shares", title, told, _stacked("plans-error-shares", shares), text, SECTION)]
    own = own.assign(task=pd.Categorical(own["task_family"].map(NAMES), list(NAMES.values()), ordered=True))
    frame = measured(own.sort_values("task", kind="stable"), [*SETTING, "task", "mode"], ERROR_RATES)
    rows = _by_error(frame, [*SETTING, "task", "mode"])
    svg = _lines(
        "plans-errors-models", rows, "error", "share", "plans with the error", ["task", "mode"],
        joined=False, panels=SETTING[1:], line="model",
    )  # fmt: skip
    title = "errors by kind of task, across models (agent_planning_benchmark, figure 59)"
    told = (
        f"{first}; one panel for each data set, planner and kind of task; {ERRORS_TOLD}; points are moved sideways "
        "to avoid overlap"
    )
    return [*found, Drawing("plans-errors-models", title, told, svg, text, SECTION)]


def _by_error(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row for each row of `frame` and each error in ERROR_RATES: `keys`, `error`, and `share` with bounds."""
    return pd.DataFrame([
        {**{name: row[name] for name in keys}, "error": measure.header}
        | {f"share{end}": row[f"{measure.column}{end}"] for end in ("", "_low", "_high")}
        for row in frame.to_dict("records")
        for measure in ERROR_RATES
    ])  # fmt: skip


def diagnosed(cells: pd.DataFrame, families: Iterable[str]) -> Asked:
    """Cases of these task families that have diagnosed plans; `all_` columns count the plans with each error."""
    condition = f"{plan_cells.within(cells, task_family=sorted(families))} AND plan_errors IS NOT NULL"
    sums = {f"all_{error}": error for error in ERRORS}
    return plan_cells.cases(cells, ERRORS, condition, ["task_family", plan_cells.MODE], sums)


def error_shares(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: each error's share of all errors in its plans; all shares are 0 if there are no errors."""
    counts = cases.groupby(SETTING, sort=False, observed=True)[[f"all_{error}" for error in ERRORS]].sum()
    return counts.div(counts.sum(axis=1), axis=0).fillna(0).set_axis([*ERRORS], axis=1).reset_index()


def _stacked(name: str, shares: pd.DataFrame) -> str:
    """The shares of errors in bars of height 1: a bar per model, and a panel per data set, robustness and planner."""
    groups = list(shares.groupby(SETTING[1:], sort=False, observed=True))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (key, own) in each_panel(axes, groups):
            below = np.zeros(len(own))
            for place, error in enumerate(ERRORS):
                heights = own[error].to_numpy(np.float64)
                axis.bar(range(len(own)), heights, bottom=below, color=COLOURS[place % len(COLOURS)], label=error)
                below = below + heights
            axis.set_title(_title(key), fontsize=8)
            names = [shown(str(model)) for model in own["model"]]
            axis.set_xticks(range(len(own)), names, rotation=30, ha="right", fontsize=7)
            percents(axis.yaxis, "share of the errors")
        legend(axes, len(ERRORS))

    rows, columns = math.ceil(len(groups) / _WIDE), min(_WIDE, len(groups))
    return svg_of(name, rows, columns, draw, width=max(3.9, _LEAST / columns), height=3.2)


def _lines(
    name: str,
    frame: pd.DataFrame,
    x: str,
    y: str,
    told: str,
    further: Sequence[str],
    joined: bool = True,
    panels: Sequence[str] = SETTING[:2],
    line: str = "planner",
) -> str:
    """`y` with its interval against `x`: a line per value of `line`, a panel per value of `panels` and `further`."""
    frame = frame.assign(line=[_line(row) if line == "planner" else str(row[line]) for row in frame.to_dict("records")])
    groups = list(frame.groupby([*panels, *further], sort=False, observed=True))
    values = list(dict.fromkeys(map(named, frame[x])))
    lines = list(dict.fromkeys(frame["line"]))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (key, own) in each_panel(axes, groups):
            _panel(axis, own, x, y, values, lines, joined)
            axis.set_title(_title(key), fontsize=8)
            axis.set_xticks(range(len(values)), values)
            axis.set_xlabel(plans.HEADERS.get(x, x))
            axis.set_ylim(bottom=-0.02, top=1.02 if y != "extraneous_calls" else None)
            if y == "extraneous_calls":
                axis.set_ylabel(told)
            else:
                percents(axis.yaxis, told)
        legend(axes, across)

    rows, columns = math.ceil(len(groups) / _WIDE), min(_WIDE, len(groups))
    width = max(3.9, _LEAST / columns)
    across = max(1, min(ACROSS, int(width * columns / (0.5 + 0.075 * max(map(len, lines))))))
    below = 0.18 * math.ceil(len(lines) / across) / rows
    return svg_of(name, rows, columns, draw, width=width, height=2.8 + below)


def _panel(
    axis: Axes, own: pd.DataFrame, x: str, y: str, values: Sequence[str], lines: Sequence[str], joined: bool
) -> None:
    for line, points in own.dropna(subset=[y]).groupby("line", sort=False):
        place = lines.index(str(line))
        at = np.array([values.index(named(value)) for value in points[x]]) + 0.5 * ((place + 0.5) / len(lines) - 0.5)
        axis.errorbar(at, points[y], yerr=reach(points, y), color=COLOURS[place % len(COLOURS)],
                      marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=1.2, elinewidth=0.5,
                      linestyle="-" if joined else "none", label=shown(str(line)))  # fmt: skip


def _title(key: Sequence[object]) -> str:
    """The title of a panel: its labels, one per line, without the label `none` of undisturbed settings."""
    parts = dict.fromkeys(NAMES.get(str(part), str(part)) for part in key if str(part) != "none")
    return "\n".join(map(shown, parts))


def _line(row: Mapping[Any, Any]) -> str:
    robustness = str(row["robustness"])
    return str(row["planner"]) + ("" if robustness == "none" else f", {robustness}")

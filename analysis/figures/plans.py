"""Plans drawn: errors by task, extraneous calls, correctness by horizon and stage (figures 3 to 6, 58 and 59).

It stands apart from the list of all drawings as `tables.plans`, whose numbers it draws, does from other tables.

Of figures 58 and 59 the paper's text has the captions alone. Here 58 is what each error's share of all errors is, a bar
a model, and 59 how often each error is made in each kind of task, a line a model; both only of several models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.load import SETTING, provenance
from analysis.page.drawing import ACROSS, COLOURS, MARKERS, Drawing, each_panel, legend, reach, svg_of
from analysis.page.table import named
from analysis.stats import intervals
from analysis.tables import plans
from analysis.tables.measures import measured
from analysis.tables.plan_cells import HOLISTIC, NAMES, SECTION, STEPWISE, query, scorers
from analysis.tables.plans import ERROR_RATES, ERRORS_TOLD, HORIZON, STAGE
from grid.core.types import ERRORS
from grid.core.untrusted import shown

_WIDE = 3  # panels in a row
_LEAST = 6.0  # inches of all panels in a row
_TITLES = {
    HORIZON: "correct next steps by how many are wanted (agent_planning_benchmark, figure 5)",
    STAGE: "correct next steps by where they stand (agent_planning_benchmark, figure 6)",
}


def drawings(root: Path, cells: pd.DataFrame) -> list[Drawing]:
    """Figures 3 to 6, 58 and 59, each where its data are."""
    if cells.empty:
        return []
    first = f"{provenance.simulated_notice(cells)}scored by: {scorers(cells)}; bars: 95% intervals, {intervals.SHARES}"
    found = _errors(root, cells, first) + _across_models(root, cells, first)
    used = plans.by_number(cells)
    numbered = used[used["n_e"] != plans.ALL] if len(used) else used
    if len(numbered) and numbered["n_e"].nunique() > 1:
        svg = _lines(
            "plans-extraneous", numbered, "n_e", "extraneous_calls", "calls of extraneous tools per case", ["mode"]
        )
        title = "calls of extraneous tools by how many there are (agent_planning_benchmark, figure 4)"
        about = (
            f"{provenance.simulated_notice(cells)}scored by: {scorers(cells)}; bars: 95% intervals, {intervals.AMOUNTS}"
        )
        told = f"{about}; a panel a model, data set and kind of planning; points are moved apart"
        found.append(Drawing("plans-extraneous", title, told, svg, query(root, cells, ["extraneous_calls"]), SECTION))
    for column, title in _TITLES.items():
        frame = plans.profile(cells, column)
        if len(frame):
            name = f"plans-{column.replace('_', '-')}"
            svg = _lines(name, frame, column, "success", "correct", [])
            told = f"{first}; {plans.caption(cells, column)}; points are moved apart"
            found.append(Drawing(name, title, told, svg, query(root, cells, ["success"]), SECTION))
    return found


def _errors(root: Path, cells: pd.DataFrame, first: str) -> list[Drawing]:
    """Figure 3: the share of plans with each error, a panel for each model, data set and kind of planning."""
    own = cells[cells["task_family"].astype(object).isin([HOLISTIC, STEPWISE]) & cells["E1"].notna()]
    if own.empty:
        return []
    frame = measured(own.sort_values("mode", kind="stable"), [*SETTING, "mode"], ERROR_RATES)
    rows = _by_error(frame, [*SETTING, "mode"])
    svg = _lines("plans-errors", rows, "error", "share", "plans with the error", ["mode"], joined=False)
    title = "errors by kind of planning (agent_planning_benchmark, figure 3)"
    text = query(root, own, [measure.column for measure in ERROR_RATES])
    return [Drawing("plans-errors", title, f"{first}; {ERRORS_TOLD}; points are moved apart", svg, text, SECTION)]


def _across_models(root: Path, cells: pd.DataFrame, first: str) -> list[Drawing]:
    """Figures 58 and 59: the errors of several models on one data set, by each planner."""
    own = _of_several(cells)
    if own.empty:
        return []
    shares = error_shares(own)
    columns = [measure.column for measure in ERROR_RATES]
    text = query(root, own, columns)
    title = "shares of the errors that are made, across models (agent_planning_benchmark, figure 58)"
    about = first.partition("; bars:")[0]
    told = (
        f"{about}; of all errors in a model's plans those of each kind; a panel a data set and planner; {ERRORS_TOLD}"
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
    told = f"{first}; a panel a data set, planner and kind of task; {ERRORS_TOLD}; points are moved apart"
    return [*found, Drawing("plans-errors-models", title, told, svg, text, SECTION)]


def _by_error(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """A row for each of the frame's rows and ERROR_RATES: `keys`, `error` and its `share` with bounds."""
    return pd.DataFrame([
        {**{name: row[name] for name in keys}, "error": measure.header}
        | {f"share{end}": row[f"{measure.column}{end}"] for end in ("", "_low", "_high")}
        for row in frame.to_dict("records")
        for measure in ERROR_RATES
    ])  # fmt: skip


def _of_several(cells: pd.DataFrame) -> pd.DataFrame:
    """The diagnosed plans of those planners with which several models ran."""
    own = cells[cells["task_family"].astype(object).isin(list(NAMES)) & cells["E1"].notna()]
    models = own.groupby(SETTING[1:], observed=True)["model"].transform("nunique")
    return own[models > 1]


def error_shares(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting: of all errors in its plans the share of each; 0 of all where there is none."""
    counted = cells.groupby(SETTING, sort=False, observed=True)[[*ERRORS]].sum()
    return counted.div(counted.sum(axis=1), axis=0).fillna(0).reset_index()


def _stacked(name: str, shares: pd.DataFrame) -> str:
    """The shares of errors as bars that are 1 high, one a model, a panel a data set, robustness and planner."""
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
            axis.set_ylabel("share of the errors")
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
    """`y` with its interval against the values of `x`, a line a `line`, a panel for each of `panels` and `further`."""
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
            axis.set_ylabel(told)
            axis.set_ylim(bottom=-0.02, top=1.02 if y != "extraneous_calls" else None)
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
    """What a panel is of, a line each; not that nothing was disturbed."""
    parts = dict.fromkeys(NAMES.get(str(part), str(part)) for part in key if str(part) != "none")
    return "\n".join(map(shown, parts))


def _line(row: Mapping[Any, Any]) -> str:
    robustness = str(row["robustness"])
    return str(row["planner"]) + ("" if robustness == "none" else f", {robustness}")

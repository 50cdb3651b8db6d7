"""Why cells failed, by planner: a table and a bar chart for each model and data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator, PercentFormatter

from analysis import load
from analysis.load import SETTING, provenance, queries
from analysis.load.queries import Asked, ask
from analysis.page.drawing import Drawing, headed, legend, svg_of
from analysis.page.table import Column, Table, bounds, count, number
from analysis.stats import intervals
from analysis.stats.intervals import by_case, share
from analysis.tables import failed
from analysis.tables.failure_cells import (
    BUDGET,
    CASCADE,
    CLASSES,
    ERROR,
    FORMAT,
    GAVE_UP,
    MISSING,
    NO_RETRIEVAL,
    REDUNDANT,
    SOURCE,
    UNKNOWN,
    UNREADABLE,
    VALUE,
    WRONG_ARGUMENT,
    WRONG_TOOL,
)
from grid.core.untrusted import shown

_CAPTION = "% of all cells of the setting (number of cells), by the first fault on the path; "


class _Shown(NamedTuple):
    """How a failure class is shown: its column header, its text in the caption, and the style of its bars.

    The colours come from Okabe and Ito; in print, hatches tell the classes apart.
    """

    header: str
    told: str
    colour: str
    hatch: str


_SHOWN = {
    NO_RETRIEVAL: _Shown("retrieval", "the reference's tool was not offered", "#0072B2", ""),
    WRONG_TOOL: _Shown("tool", "a tool other than the reference's was called", "#D55E00", "//"),
    WRONG_ARGUMENT: _Shown("argument", "the right tool was called with a wrong argument", "#E69F00", ""),
    MISSING: _Shown("missing", "a call of the reference was not made", "#56B4E9", ".."),
    REDUNDANT: _Shown("redundant", "a superfluous call was made, and there was no other fault", "#CC79A7", ""),
    GAVE_UP: _Shown("gave up", "the planner refused, or called no tool", "#F0E442", "\\\\"),
    UNREADABLE: _Shown("unreadable", "an answer could not be read as a call", "#000000", ""),
    BUDGET: _Shown("budget", "time, context, tokens, calls or a search's steps ran out", "#009E73", "xx"),
    CASCADE: _Shown("cascade", "the fault follows from an earlier one", "#999999", ""),
    ERROR: _Shown("error", "tools, infrastructure or code failed, not the planner", "#ffffff", "++"),
    UNKNOWN: _Shown("unknown", "no rule applies", "#dddddd", "--"),
}
_RULES = (
    "the rules are in analysis/tables/failure_rules.py; the class of each failed cell is stored in the folder's "
    ".failures/*.parquet, which the query reads"
)
_KINDS = "value, source and format are the kinds of wrong arguments"


def tables(root: Path) -> list[Table]:
    """A table for each model and data set in which any cell failed. Raises StoreError."""
    return [_table(root, *place) for place in _places(root)]


def drawings(root: Path) -> list[Drawing]:
    """A bar chart for each model and data set. Raises StoreError."""
    every = load.episodes(root, provenance.SIMULATED_COLUMNS)
    return [
        Drawing(
            name=f"failures {model} {dataset}",
            title=f"{model} on {dataset}: failures",
            caption=f"{provenance.simulated_notice(every[every['model'] == model])}share of all cells of a setting, by "
            "the first fault on the path; all other cells were resolved",
            svg=bars(own.rows, f"failures-{number}"),
            query=queries.of_files(root, own.query),
            model=model,
            dataset=dataset,
        )
        for number, (model, dataset, own) in enumerate(_places(root))
    ]


def _places(root: Path) -> list[tuple[str, str, Asked]]:
    """Each model and data set in which any cell failed, with the result of `by_setting` for its cells."""

    def made() -> list[tuple[str, str, Asked]]:
        told = failed.classes(root).select(["cell_id", "failure", "failure_detail"])
        cells = load.episodes(root) if told.num_rows else pd.DataFrame()
        each = [
            (model, dataset, by_setting(own, told, queries.place(model, dataset)))
            for model, dataset, own in load.places(cells)
        ]
        return [place for place in each if len(place[2].rows)]

    return load.once(root, "failures", made, few=True)


def _table(root: Path, model: str, dataset: str, asked: Asked) -> Table:
    own = asked.rows
    there = [name for name in CLASSES if own[name].any()]
    kinds = [name for name in KINDS if own[name].any()]
    names = [part for name in there for part in ([name, *kinds] if name == WRONG_ARGUMENT else [name])]
    means = _CAPTION + "; ".join(f"{_SHOWN[name].header}: {_SHOWN[name].told}" for name in there)
    return Table(
        name=f"failures {model} {dataset}",
        title=f"{model} on {dataset}: failures",
        by=SETTING[2:],
        columns=[
            count("cells"),
            count("failed", "unresolved"),
            *(_column(name, printed=name not in kinds) for name in names),
        ],
        values=own,
        query=queries.of_files(root, asked.query),
        about=f"{means}{f'; {_KINDS}' if kinds else ''}; [low, high]: 95% intervals, {intervals.SHARES}; {_RULES}",
        briefly=means,
    )


def _column(name: str, printed: bool) -> Column:
    """A failure class's column: its share of all cells in %, the interval if there is room, and the number of cells."""

    def brief(row: dict[str, Any]) -> str:
        return f"{number(row[f'{name}_share'], scale=100)} ({row[name]:,})"

    def text(row: dict[str, Any]) -> str:
        reach = bounds(row[f"{name}_low"], row[f"{name}_high"], missing="")
        return " ".join(filter(None, [number(row[f"{name}_share"], scale=100), reach, f"({row[name]:,})"]))

    return Column(_SHOWN[name].header if name in _SHOWN else name, text, brief, printed)


# The number of failed cells of each setting, by failure class.


KINDS = (VALUE, SOURCE, FORMAT)
_FLAGS = {name: f"failure = '{name}'" for name in CLASSES} | {
    kind: f"failure = '{WRONG_ARGUMENT}' AND split_part(failure_detail, ':', 1) = '{kind}'" for kind in KINDS
}
_COUNTS = ["count(failure) AS failed", *(f"count(*) FILTER ({text}) AS {name}" for name, text in _FLAGS.items())]


def by_setting(cells: pd.DataFrame, told: pa.Table, where: str = "true") -> Asked:
    """For each setting in which any cell failed: each class's count, its share of all cells, and the 95% interval.

    Columns: SETTING, `cells`, `failed`, and, for every class and every kind of wrong argument, NAME (the count),
    NAME_share, NAME_low and NAME_high (`intervals.share` over clusters, from each case's mean over trials). The frame
    is empty, without columns, if no cell failed.

    Args:
        cells: the cells of `load.episodes`.
        told: the columns of `failed.classes`, for the cells that failed.
        where: the condition that selects the cells to be counted.
    """
    query = queries.of_cases((), where, further=_COUNTS, source="e LEFT JOIN failures USING (cell_id)")
    asked = ask(cells, query, failures=told)
    sums = asked.rows.groupby(SETTING, sort=False, observed=True)[["failed", *_FLAGS]].sum().to_dict("records")
    shares = asked.rows.assign(**{name: asked.rows[name] / asked.rows["cells"] for name in _FLAGS})
    rows = []
    for group, summed in zip(by_case(shares, SETTING, [*_FLAGS]), sums, strict=True):
        row = {**dict(zip(SETTING, group.key, strict=True)), "cells": group.cells, "failed": int(summed["failed"])}
        for name, cases in group.samples.items():
            _, low, high = share(cases)
            row |= {name: int(summed[name]), f"{name}_share": float(summed[name] / group.cells)}
            row |= {f"{name}_low": low, f"{name}_high": high}
        rows += [row] * bool(summed["failed"])
    return asked._replace(rows=pd.DataFrame(rows))


# Failure classes as stacked bars. The same rows always give the same bytes of SVG.


_ACROSS = 4


def bars(own: pd.DataFrame, name: str) -> str:
    """An SVG element with a bar for each setting of one model and data set.

    A bar shows each class's share of the setting's cells. There is a panel for each robustness setting. `own` are rows
    of `by_setting`, at least one. The ids in the element begin with `name`.
    """
    settings = list(own["robustness"].unique())
    there = [kind for kind in CLASSES if own[kind].any()]
    most = int(own.groupby("robustness", observed=True).size().max())
    top = min(1.0, np.ceil(10 * float((own["failed"] / own["cells"]).max())) / 10)

    def draw(axes: Sequence[Axes]) -> None:
        for axis, robustness in zip(axes, settings, strict=True):
            rows = own[own["robustness"] == robustness]
            _panel(axis, rows, there)
            axis.set_xlim(0, top)
            headed(axis, rows)
        axes[-1].set_xlabel("share of cells, %")
        legend(axes, _ACROSS)

    below = 0.2 * -(-len(there) // _ACROSS) / len(settings)
    return svg_of(name, len(settings), 1, draw, width=7.2, height=0.9 + 0.32 * most + below)


def _panel(axis: Axes, rows: pd.DataFrame, there: Sequence[str]) -> None:
    heights = np.arange(len(rows))
    left = np.zeros(len(rows))
    for kind in there:
        width, style = rows[f"{kind}_share"].to_numpy(dtype=float), _SHOWN[kind]
        there_too = width > 0  # draw no empty bars, because even these have an edge
        axis.barh(heights[there_too], width[there_too], left=left[there_too], height=0.7,
                  color=style.colour, hatch=style.hatch, edgecolor="#333333", linewidth=0.5,
                  label=kind.replace("_", " "))  # fmt: skip
        left += width
    axis.set_yticks(heights, [shown(str(planner)) for planner in rows["planner"]], fontsize=8)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.xaxis.set_major_locator(MultipleLocator(0.1))
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)

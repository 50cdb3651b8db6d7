"""Means over groups of cells with their intervals, and the columns that show these means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import SETTING, queries
from analysis.load.queries import ask
from analysis.page import table
from analysis.page.table import MISSING, Column, Table, count
from analysis.stats import intervals
from analysis.stats.intervals import Interval, Values, amount, by_case, interval, share
from grid import store
from grid.core.errors import nearest
from grid.core.metric import BY_NAME, TEXTS, Metric
from grid.metrics.scores import SUCCESS


@dataclass(frozen=True)
class Measure:
    """A column of the cells' rows, and the form in which the column's mean over cases is shown.

    A `share` is between 0 and 1, a `rare` measure is a share of events that may occur in only a few cases
    (`intervals.share`), a `change` is a difference of shares, and an `amount` is not negative. The shown value is
    `scale` times the mean. `of_some` is true if the measure applies only to a certain kind of case; a caption names
    this kind.
    """

    column: str
    header: str
    kind: Literal["share", "rare", "change", "amount"] = "share"
    scale: float = 100.0
    form: str = ".1f"
    of_some: bool = False

    def of(self, cases: Values) -> Interval:
        """The mean of cases' values with its 95% interval."""
        if self.kind in ("share", "rare"):
            return share(cases, rare=self.kind == "rare")
        if self.kind == "amount":
            return amount(cases)
        found = interval(cases, reach=1.0)
        if pd.isna(found.low):
            return found
        return Interval(found.mean, max(found.low, -1.0), min(found.high, 1.0))

    def text(self, row: Any) -> str:
        """The mean with its interval: `71.3 [65.0, 77.1]`."""
        return table.bounded(row, self.column, self.form, self.scale, missing=MISSING)

    def brief(self, row: Any) -> str:
        """The mean without its interval."""
        return table.number(row[self.column], self.form, self.scale, MISSING)

    def shown(self, bounded: bool = False, printed: bool = True) -> Column:
        """The measure's column; a terminal shows it only if `printed`, and its intervals only if `bounded`."""
        return Column(self.header, self.text, None if bounded else self.brief, printed)


def columns(
    frame: pd.DataFrame,
    measures: Sequence[Measure],
    counts: Sequence[str] = ("cases", "clusters"),
    bounded: Sequence[str] = (),
) -> list[Column]:
    """The columns of a table: its counts, and the measures for which any row has a value.

    `bounded` are the measures' columns whose intervals a terminal shows too.
    """
    figures = [measure.shown(measure.column in bounded) for measure in known(frame, measures)]
    return [*(table.count(name) for name in counts), *figures]


def measured(cells: pd.DataFrame, by: Sequence[str], measures: Sequence[Measure]) -> pd.DataFrame:
    """One row per group of cells (or of cases' rows), with counts and the measures.

    Columns: `cases`, `clusters`, `cells`, and for each measure its mean, bounds and `_cases`.

    A case's value is its mean over trials; `_cases` counts the cases for which the measure is known. Without cells, the
    frame is empty and has no columns.
    """
    columns = list(dict.fromkeys(measure.column for measure in measures))
    rows: list[dict[str, Any]] = []
    for group in by_case(cells, by, columns):
        row: dict[str, Any] = dict(zip(by, group.key, strict=True))
        row |= {"cases": group.cases, "clusters": group.clusters, "cells": group.cells}
        for measure in measures:
            name, values = measure.column, group.samples[measure.column]
            row |= measure.of(values).named(name) | {f"{name}_cases": len(values.values)}
        rows.append(row)
    return pd.DataFrame(rows)


def known(frame: pd.DataFrame, measures: Sequence[Measure]) -> list[Measure]:
    """The measures for which any row has a value."""
    return [measure for measure in measures if len(frame) and frame[measure.column].notna().any()]


def partly(frame: pd.DataFrame, measures: Sequence[Measure]) -> list[str]:
    """Notes on measures whose means are over fewer cases than the rows of the table have.

    There is no note on a measure that is `of_some`, nor on rows for which the measure is not known at all.
    """
    found = []
    for measure in measures:
        if measure.of_some:
            continue
        own = frame[(frame[f"{measure.column}_cases"] > 0) & (frame[f"{measure.column}_cases"] < frame["cases"])]
        if len(own):
            part = own[f"{measure.column}_cases"] / own["cases"]
            least, most = (f"{100 * share:.0f}" for share in (part.min(), part.max()))
            known_of = least if least == most else f"{least} to {most}"
            found.append(f"{measure.header}: in some rows known for only {known_of}% of the cases")
    return found


# Metrics by name: the metrics that a user's data sets and planners declare, and those of this project's own metrics
# that are asked for.


_LABELS = SETTING[2:]
_ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
_CAPTION = (
    f"means over cases; in brackets 95% intervals (for shares: {intervals.SHARES}; for amounts: {intervals.AMOUNTS}; "
    "for values that can be negative: Student's t); ↑: higher is better, ↓: lower is better"
)


def tables(root: Path, names: Sequence[str] = ()) -> list[Table]:
    """For each model and dataset, a table of the plugins' metrics that its cells have, and of the metrics in `names`.

    Raises:
        AnalysisError: a metric in `names` was not declared, its values are texts, or it is success, which has its own
            table.
        StoreError: the folder cannot be read.
    """
    wanted = _wanted(store.metrics(root), names)
    if not wanted:
        return []
    known = reduce(or_, (pc.field(metric.name).is_valid() for metric in wanted))
    cells = load.episodes(root, [metric.name for metric in wanted], known)
    cells = cells.assign(**{metric.name: cells[metric.name].astype("float64") for metric in wanted})
    return [_table(root, own, model, dataset, wanted) for model, dataset, own in load.places(cells)]


def named(root: Path, name: str) -> Metric:
    """The metric with this name; it must be success, or have numbers as values.

    Raises:
        AnalysisError: no metric with this name was declared, or the metric's values are texts.
        StoreError: the folder cannot be read.
    """
    if name == SUCCESS:
        return Metric(name, kind="flag")
    return next(metric for metric in _wanted(store.metrics(root), [name]) if metric.name == name)


def numbers(root: Path) -> list[str]:
    """The names of the numeric metrics that a folder's sweeps declared, except this project's own metrics.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [metric.name for metric in _wanted(store.metrics(root), ())]


def _wanted(known: dict[str, Metric], names: Sequence[str]) -> list[Metric]:
    numbers = {name: metric for name, metric in known.items() if metric.kind not in TEXTS}
    for name in names:
        if name not in numbers:
            near = " (the results table shows it)" if name == SUCCESS else nearest(name, [*numbers, SUCCESS])
            raise AnalysisError(
                f"metric={name}: there is no metric with this name and numeric values{near}; allowed: "
                f"{', '.join(sorted(numbers))}"
            )
    return [metric for name, metric in numbers.items() if name not in BY_NAME or name in names]


def _table(root: Path, cells: pd.DataFrame, model: str, dataset: str, wanted: Sequence[Metric]) -> Table:
    own = [metric for metric in wanted if cells[metric.name].notna().any()]
    measures = [_measure(metric, cells[metric.name]) for metric in own]
    some = " OR ".join(f"{metric.name} IS NOT NULL" for metric in wanted)
    values = [metric.name for metric in own]
    asked = ask(cells, queries.of_cases(values, f"{queries.place(model, dataset)} AND ({some})"))
    frame = measured(asked.rows, _LABELS, measures)
    told = [f"{metric.name}: {metric.meaning}" for metric in own if metric.meaning]
    return Table(
        name=f"metrics {model} {dataset}",
        title=f"{model} on {dataset}: metrics by name",
        by=_LABELS,
        columns=[count("cases"), count("clusters"), *(measure.shown(bounded=True) for measure in measures)],
        values=frame,
        query=queries.of_files(root, asked.query),
        about="; ".join([_CAPTION, *told]),
        notes=[*partly(frame, measures), *(f"{metric.name}: {metric.paper}" for metric in own if metric.paper)],
        breaks=["robustness"],
    )


def _measure(metric: Metric, values: pd.Series[float]) -> Measure:
    """The measure of a metric: shares are shown in %, other metrics in their own unit."""
    arrow = _ARROWS[metric.better]
    if metric.kind == "flag" or (metric.unit == "share" and values.between(0, 1).sum() == values.notna().sum()):
        return Measure(metric.name, f"{metric.name} (%){arrow}")
    unit = f" ({metric.unit})" if metric.unit else ""
    return Measure(metric.name, f"{metric.name}{unit}{arrow}", "amount", scale=1.0, form=",.2f")

"""Any metric by its name: what data sets and planners of a user's declare, and ours where somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import SETTING, queries
from analysis.page.table import Table, count
from analysis.stats import intervals
from analysis.tables.measures import Measure, measured, partly
from grid import store
from grid.core.metric import BY_NAME, TEXTS, Metric
from grid.metrics.scores import SUCCESS

_LABELS = SETTING[2:]
_ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
_CAPTION = (
    f"means over cases; in brackets 95% intervals (of shares {intervals.SHARES}; of amounts {intervals.AMOUNTS}; of "
    "what can be negative Student's t); ↑: higher is better, ↓: lower is"
)


def sheets(root: Path, names: Sequence[str] = ()) -> list[Table]:
    """For each model and dataset the metrics of plugins that any of its cells has, and those of `names`.

    Raises:
        AnalysisError: nobody declared a metric of such a name, or its values are texts.
        StoreError: the folder cannot be read.
    """
    wanted = _wanted(store.metrics(root), names)
    if not wanted:
        return []
    known = reduce(or_, (pc.field(metric.name).is_valid() for metric in wanted))
    cells = load.episodes(root, [metric.name for metric in wanted], known)
    cells = cells.assign(**{metric.name: cells[metric.name].astype("float64") for metric in wanted})
    groups = cells.groupby(SETTING[:2], sort=False, observed=True)
    return [_sheet(root, own, str(model), str(dataset), wanted) for (model, dataset), own in groups]


def named(root: Path, name: str) -> Metric:
    """A metric whose values are numbers, or success.

    Raises:
        AnalysisError: nobody declared it, or its values are texts.
    """
    if name == SUCCESS:
        return Metric(name, kind="flag")
    return next(metric for metric in _wanted(store.metrics(root), [name]) if metric.name == name)


def numbers(root: Path) -> list[str]:
    """The metrics with numbers that are not ours: those that the sweeps of a folder declared.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [metric.name for metric in _wanted(store.metrics(root), ())]


def _wanted(known: dict[str, Metric], names: Sequence[str]) -> list[Metric]:
    numbers = {name: metric for name, metric in known.items() if metric.kind not in TEXTS}
    for name in names:
        if name not in numbers:
            raise AnalysisError(f"metric={name}: no metric with numbers; allowed: {', '.join(sorted(numbers))}")
    return [metric for name, metric in numbers.items() if name not in BY_NAME or name in names]


def _sheet(root: Path, cells: pd.DataFrame, model: str, dataset: str, wanted: Sequence[Metric]) -> Table:
    own = [metric for metric in wanted if cells[metric.name].notna().any()]
    measures = [_measure(metric, cells[metric.name]) for metric in own]
    table = measured(cells, _LABELS, measures)
    told = [f"{metric.name}: {metric.meaning}" for metric in own if metric.meaning]
    return Table(
        name=f"metrics {model} {dataset}",
        title=f"{model} on {dataset}: metrics by name",
        by=_LABELS,
        columns=[count("cases"), count("clusters"), *(measure.shown(bounded=True) for measure in measures)],
        values=table,
        query=queries.of_place(root, [metric.name for metric in own], model, dataset),
        about="; ".join([_CAPTION, *told]),
        notes=[*partly(table, measures), *(f"{metric.name}: {metric.paper}" for metric in own if metric.paper)],
        breaks=["robustness"],
    )


def _measure(metric: Metric, values: pd.Series[float]) -> Measure:
    """How a metric's means are shown: shares in %, all else in its own unit."""
    arrow = _ARROWS[metric.better]
    if metric.kind == "flag" or (metric.unit == "share" and values.between(0, 1).sum() == values.notna().sum()):
        return Measure(metric.name, f"{metric.name} (%){arrow}")
    unit = f" ({metric.unit})" if metric.unit else ""
    return Measure(metric.name, f"{metric.name}{unit}{arrow}", "amount", scale=1.0, form=",.2f")

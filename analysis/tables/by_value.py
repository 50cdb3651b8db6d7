"""Success by a property of cases: category, depth, breadth or number of calls of the plan, or any column.

`agent-grid report results/NAME --by depth`. A numeric column with many different values is binned by quantiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import SETTING, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import MISSING, Column, Row, Table, bounded, number
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, share
from grid.core.errors import nearest
from grid.store.schema import JOINED

SHORT = {"category": "task_category", "tools": "plan_nodes", "template": "cluster"}
"""Names that `--by` accepts instead of a column's name."""
_EXACT, _BINS, _MOST = 8, 5, 24
"""If there are at most `_EXACT` different numbers, each gets a column; otherwise the numbers are put into `_BINS` bins.

`_MOST` is the maximum number of different text values.
"""
_CAPTION = (
    "success in % of cases, with 95% intervals in brackets ({shares}), by {column}; in parentheses after each value "
    "of {column}: the number of cases; within a column all planners have the same cases, but different columns have "
    "different cases"
)


def tables(root: Path, name: str) -> list[Table]:
    """For each model and data set, a table of planners' success on the cases with each value of a column.

    Raises:
        AnalysisError: there is no such column, the column has too many different text values, or no case has a value.
        StoreError: the folder cannot be read.
    """
    column = SHORT.get(name, name)
    if column not in JOINED.names:
        allowed = [*SHORT, *JOINED.names]
        near = nearest(name, allowed)
        raise AnalysisError(f"by={name}: the table `episodes` has no such column{near}; allowed: {', '.join(allowed)}")
    cells = load.episodes(root, [column])
    cells = cells[cells[column].notna()]
    if cells.empty:
        raise AnalysisError(f"by={name}: no episode has a value for {column}")
    return [_table(root, model, dataset, own, column) for model, dataset, own in load.places(cells)]


def by_value(cells: pd.DataFrame, column: str, where: str = "true") -> Asked:
    """One row per planner, robustness setting and value (or bin of values) of a column.

    Columns: `robustness`, `planner`, `value` (as text), `order`, `cases`, `success` with `_low` and `_high`.

    Raises:
        AnalysisError: the column has too many different text values for a table.
    """
    binned, names = _binned(cells[column], column), ["cluster", "case_id", *SETTING]
    counts = ["sum(success::DOUBLE) AS won", "count(success) AS tried"]
    keys = [column] * (column not in names)
    asked = ask(cells, queries.of_cases(["success"], f"{column} IS NOT NULL AND {where}", keys, counts))
    places = dict(zip(cells[column], binned.cat.codes, strict=True))
    own = asked.rows.assign(order=asked.rows[column].astype(object).map(places))
    rows = []
    for (robustness, planner, place), part in own.groupby([*SETTING[2:], "order"], sort=False, observed=True):
        cases = part.groupby([CLUSTER, "case_id"], observed=True)[["won", "tried"]].sum()
        found = (cases["won"] / cases["tried"]).dropna()
        order = int(cast(int, place))
        row: dict[str, Any] = {"robustness": str(robustness), "planner": str(planner), "order": order}
        row["value"] = binned.cat.categories[order]
        rows.append(row | {"cases": len(found)} | share(found).named("success"))
    return asked._replace(rows=pd.DataFrame(rows))


def _binned(values: pd.Series[Any], column: str) -> pd.Series[Any]:
    """Categories in their order: numbers by size, texts alphabetically."""
    kind = JOINED.field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        texts = values.astype(str)
        names = sorted(texts.unique())
        if len(names) > _MOST:
            raise AnalysisError(
                f"by={column}: the column has {len(names):,} different texts, but a table shows at most {_MOST}"
            )
        return texts.astype(pd.CategoricalDtype(names, ordered=True))
    numbers = values.astype(np.float64)
    if numbers.nunique() <= _EXACT:
        exact = sorted(numbers.unique())
        names = _written(exact)
        found = numbers.map(dict(zip(exact, names, strict=True)))
        return found.astype(pd.CategoricalDtype(names, ordered=True))
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, _BINS + 1)))
    places = pd.Series(np.clip(np.searchsorted(edges, numbers, side="right"), 1, len(edges) - 1) - 1)
    names = [f"{low} to {high}" for low, high in itertools.pairwise(_written(edges))]
    found = places.map(dict(enumerate(names))).set_axis(values.index)
    return found.astype(pd.CategoricalDtype(names, ordered=True))


def _written(values: Sequence[float] | npt.NDArray[np.float64]) -> list[str]:
    """Different numbers as different texts: with four significant digits, or with more if needed (17 suffice)."""
    texts = ([f"{value:.{digits}g}" for value in values] for digits in range(4, 18))
    return next(found for found in texts if len(set(found)) == len(found))


def _table(root: Path, model: str, dataset: str, cells: pd.DataFrame, column: str) -> Table:
    found, query = by_value(cells, column, queries.place(model, dataset))
    at = {(row["robustness"], row["planner"], row["value"]): row for row in found.to_dict("records")}
    values = found.sort_values("order", kind="stable")["value"].unique()
    most = found.groupby("value")["cases"].max()
    lines = found[SETTING[2:]].drop_duplicates().to_dict("records")
    return Table(
        name=f"by {column} {model} {dataset}",
        title=f"{model} on {dataset}: success by {column}",
        by=SETTING[2:],
        columns=[
            Column(f"{value} ({most[value]:,})", partial(_success, at, str(value)), partial(_mean, at, str(value)))
            for value in values
        ],
        values=found.drop(columns="order"),
        query=queries.of_files(root, query),
        about=_CAPTION.format(shares=intervals.SHARES, column=column),
        lines=lines,
        breaks=["robustness"],
    )


def _success(at: dict[tuple[str, str, str], Row], value: str, line: Row) -> str:
    row = at.get((line["robustness"], line["planner"], value))
    return MISSING if row is None else bounded(row, "success")


def _mean(at: dict[tuple[str, str, str], Row], value: str, line: Row) -> str:
    row = at.get((line["robustness"], line["planner"], value))
    return MISSING if row is None else number(row["success"], scale=100)

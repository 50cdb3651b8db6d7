"""The changes from scoring again (`agent-grid rescore`): the means of both scorings side by side, on the same cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import queries
from analysis.load.queries import ask
from analysis.page.table import MISSING, Column, Table, bounds, count, number
from analysis.stats.intervals import TOLD, by_case, interval
from grid import store
from grid.metrics.scores import SUCCESS

NAME = "scored again"
_FORM = ".3g"
_BY = ["model", "dataset", "robustness", "planner", "scored_by", "metric"]
_CAPTION = (
    "one row for each metric and each scorer (code or an evaluator) with a value that changed in the newest scoring; "
    "values: the number of cells with a value in both scorings; differ: the number of these cells whose value changed; "
    f"then, now: means over cases; change: now minus then, paired over cases; its 95% interval: {TOLD}. If only one of "
    "the two scorings has a value, agent-grid rescore says why"
)
_QUERY = """WITH said AS (SELECT cell_id, name, coalesce(evaluator, 'code') AS scored_by,
  arg_max(value, created_at) AS again
  FROM rescores JOIN scorings USING (scoring) WHERE value IS NOT NULL GROUP BY ALL),
first AS (SELECT cell_id, name, value FROM scores WHERE value IS NOT NULL
  UNION ALL SELECT cell_id, '{success}', success::DOUBLE FROM e WHERE success IS NOT NULL)
SELECT {labels}, scored_by, name AS metric, cluster, case_id, count(*) AS cells,
  avg(value) AS before, avg(again) AS again, count(*) FILTER (again <> value) AS differ
FROM e JOIN said USING (cell_id) JOIN first USING (cell_id, name)
GROUP BY ALL ORDER BY ALL"""


def tables(root: Path) -> list[Table]:
    """One table if any value differs, else none.

    Raises:
        StoreError: the folder cannot be read.
    """
    said = store.read(root, "rescores", ["scoring", "cell_id", "name", "value"])
    if not said.num_rows:
        return []
    scorings = store.read(root, "scorings", ["scoring", "evaluator", "created_at"])
    known = pc.field("cell_id").isin(pa.array(said["cell_id"].unique()))
    first = store.read(root, "scores", ["cell_id", "name", "value"], known)
    query = _QUERY.format(success=SUCCESS, labels=queries.LABELLED)
    asked = ask(load.episodes(root), query, rescores=said, scorings=scorings, scores=first)
    values = means(asked.rows)
    if values.empty:
        return []
    return [
        Table(
            name=NAME,
            title="Scored again: what changed",
            by=_BY,
            columns=[
                count("values"),
                count("differ"),
                *(Column(name, partial(_mean, name)) for name in ("then", "now", "change")),
                Column("95% interval", lambda row: bounds(row["change_low"], row["change_high"], _FORM, 1)),
            ],
            values=values,
            query=queries.of_files(root, query),
            about=_CAPTION,
        )
    ]


def means(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per setting, scorer and metric with a value that differs; no columns if there is none.

    Columns: the labels, `values`, `differ` (both in cells), the means `then` and `now`, and `change` with its bounds.
    """
    rows = []
    paired = cases.assign(change=cases["again"] - cases["before"])
    counts = paired.groupby(_BY, observed=True)[["cells", "differ"]].sum()
    for group in by_case(paired, _BY, ["before", "again", "change"]):
        cells, differ = counts.loc[group.key]
        if differ:
            row = dict(zip(_BY, group.key, strict=True)) | {"values": int(cells), "differ": int(differ)}
            then, now, change = (group.samples[name] for name in ("before", "again", "change"))
            row |= {"then": then.values.mean(), "now": now.values.mean()}
            rows.append(row | interval(change).named("change"))
    return pd.DataFrame(rows)


def _mean(name: str, row: Mapping[Any, Any]) -> str:
    return number(row[name], _FORM, missing=MISSING)

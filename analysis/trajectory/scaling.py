"""Exact match by the number of tools in the reference (traject_bench §4.2, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, queries
from analysis.intervals import CLUSTER, share
from analysis.load import SETTING
from analysis.search.comparing import name_of
from analysis.table import MISSING, Column, Table, bounds, number

DATASET = "traject_bench"
TITLE = "exact match by the number of tools (traject_bench, figure 2)"
CAPTION = (
    "share of cases whose tools called are the reference's, by how many calls that has, with 95% intervals "
    f"({intervals.SHARES}); the paper has figure 2 as a picture only, without numbers"
)


def curve(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting on TRAJECT-Bench and number of calls (`tools`): `cases`, `exact_match`, `_low`, `_high`.

    `cells` are what `metrics.read` gives.
    """
    ours = cells["dataset"].astype(str).map(name_of) == DATASET
    known = cells[ours].dropna(subset=["exact_match", "plan_nodes"])
    rows: list[dict[str, Any]] = []
    for key, own in known.groupby([*SETTING, "plan_nodes"], sort=True, observed=True):
        values = own.groupby([CLUSTER, "case_id"], observed=True)["exact_match"].mean()
        mean, low, high = share(values)
        row: dict[str, Any] = dict(zip(SETTING, map(str, key), strict=False))
        row |= {"tools": int(own["plan_nodes"].iloc[0]), "cases": len(values)}
        rows.append(row | {"exact_match": mean, "exact_match_low": low, "exact_match_high": high})
    return pd.DataFrame(rows)


def sheets(root: Path, cells: pd.DataFrame) -> list[Table]:
    """Figure 2 as a table for each model: a row a setting, a column a number of tools. None without TRAJECT-Bench."""
    found = curve(cells)
    if found.empty:
        return []
    return [_sheet(root, str(model), own) for model, own in found.groupby("model", sort=False)]


def _sheet(root: Path, model: str, table: pd.DataFrame) -> Table:
    sizes = sorted(table["tools"].unique())
    labels = ["dataset", "robustness", "planner"]
    lines = [
        dict(zip(labels, key, strict=True)) | {"at": {row["tools"]: row for row in own.to_dict("records")}}
        for _, part in table.groupby(labels[:2], sort=False)
        for key, own in part.groupby(labels, sort=False)
    ]
    return Table(
        name=f"tools {model}",
        title=f"{model}: {TITLE}",
        by=labels,
        columns=[Column(f"{size} tools", partial(_share, size)) for size in sizes],
        values=table,
        query=query_of(root, model, table),
        about=f"in %; {CAPTION}; behind them the cases",
        lines=lines,
        breaks=labels[:2],
    )


def query_of(root: Path, model: str, table: pd.DataFrame) -> str:
    """Each case's exact match and number of calls, for one model on the table's datasets."""
    where = queries.where({"model": [model], "dataset": sorted(table["dataset"].unique())})
    return queries.by_case(root, ["plan_nodes", "exact_match"], where)


def _share(size: int, line: Mapping[str, Any]) -> str:
    row = line["at"].get(size)
    if row is None:
        return MISSING
    low, high = max(row["exact_match_low"], 0), min(row["exact_match_high"], 1)
    return (
        f"{number(row['exact_match'], '.0f', 100)} {bounds(low, high, '.0f', missing='')}".rstrip()
        + f" ({row['cases']:,})"
    )

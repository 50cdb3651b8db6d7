"""Exact match by the number of tools in the reference (traject_bench §4.2, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, queries
from analysis.intervals import CLUSTER, share
from analysis.load import SETTING
from analysis.render import Sheet
from analysis.search.comparing import name_of

DATASET = "traject_bench"
TITLE = "exact match by the number of tools (traject_bench, figure 2)"
CAPTION = (
    "share of cases whose tools called are the reference's, by how many calls that has, with 95% intervals "
    f"({intervals.SHARES}); the paper has figure 2 as a picture only, without numbers"
)
_MISSING = "–"


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


def sheets(root: Path, cells: pd.DataFrame) -> list[Sheet]:
    """Figure 2 as a table for each model: a row a setting, a column a number of tools. None without TRAJECT-Bench."""
    found = curve(cells)
    if found.empty:
        return []
    return [_sheet(root, str(model), own) for model, own in found.groupby("model", sort=False)]


def _sheet(root: Path, model: str, table: pd.DataFrame) -> Sheet:
    sizes = sorted(table["tools"].unique())
    rows: list[list[str]] = []
    breaks: set[int] = set()
    for _, part in table.groupby(["dataset", "robustness"], sort=False):
        breaks.add(len(rows))
        for key, own in part.groupby(["dataset", "robustness", "planner"], sort=False):
            at = {row["tools"]: row for row in own.to_dict("records")}
            rows.append([*map(str, key), *(_share(at[size]) if size in at else _MISSING for size in sizes)])
    return Sheet(
        name=f"tools {model}",
        title=f"{model}: {TITLE}",
        caption=f"in %; {CAPTION}; behind them the cases",
        labels=["dataset", "robustness", "planner"],
        figures=[f"{size} tools" for size in sizes],
        rows=rows,
        values=table,
        query=query_of(root, model, table),
        breaks=frozenset(breaks - {0}),
    )


def query_of(root: Path, model: str, table: pd.DataFrame) -> str:
    """Each case's exact match and number of calls, for one model on the table's datasets."""
    where = queries.where({"model": [model], "dataset": sorted(table["dataset"].unique())})
    return queries.by_case(root, ["plan_nodes", "exact_match"], where)


def _share(row: Mapping[Any, Any]) -> str:
    mean, low, high = (row[f"exact_match{end}"] for end in ("", "_low", "_high"))
    bounds = "" if pd.isna(low) else f" [{100 * max(low, 0):.0f}, {100 * min(high, 1):.0f}]"
    return f"{100 * mean:.0f}{bounds} ({row['cases']:,})"

"""Exact match by the number of tools in the reference (traject_bench §4.2, figure 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from analysis import intervals, queries
from analysis.figures import Drawing, svg_of
from analysis.intervals import CLUSTER, interval
from analysis.load import SETTING
from analysis.render import Sheet
from analysis.search.comparing import name_of
from analysis.styles import ACROSS, COLOURS, MARKERS, legend
from grid.text.untrusted import shown

DATASET = "traject_bench"
_TITLE = "exact match by the number of tools (traject_bench, figure 2)"
_CAPTION = (
    "share of cases whose tools called are the reference's, by how many calls that has, with 95% intervals "
    f"({intervals.TOLD}), cut to what is possible; the paper has figure 2 as a picture only, without numbers"
)
_MISSING = "–"
_WIDE = 3  # panels in a row


def curve(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a setting on TRAJECT-Bench and number of calls (`tools`): `cases`, `exact_match`, `_low`, `_high`.

    `cells` are what `metrics.read` gives.
    """
    ours = cells["dataset"].astype(str).map(name_of) == DATASET
    known = cells[ours].dropna(subset=["exact_match", "plan_nodes"])
    rows: list[dict[str, Any]] = []
    for key, own in known.groupby([*SETTING, "plan_nodes"], sort=True, observed=True):
        values = own.groupby([CLUSTER, "case_id"], observed=True)["exact_match"].mean()
        mean, low, high = interval(values)
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


def drawings(root: Path, cells: pd.DataFrame, told: str) -> list[Drawing]:
    """Figure 2, a panel for each dataset; `told` begins its caption. None without TRAJECT-Bench."""
    found = curve(cells)
    if found.empty:
        return []
    models = list(found["model"].unique())
    query = "\n\n".join(_query(root, model, found) for model in models)
    return [Drawing("tools", _TITLE, f"{told}{_CAPTION}; points are moved apart", _svg(found), query)]


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
        title=f"{model}: {_TITLE}",
        caption=f"in %; {_CAPTION}; behind them the cases",
        labels=["dataset", "robustness", "planner"],
        figures=[f"{size} tools" for size in sizes],
        rows=rows,
        values=table,
        query=_query(root, model, table),
        breaks=frozenset(breaks - {0}),
    )


def _query(root: Path, model: str, table: pd.DataFrame) -> str:
    where = queries.where({"model": [model], "dataset": sorted(table["dataset"].unique())})
    return queries.by_case(root, ["plan_nodes", "exact_match"], where)


def _share(row: Mapping[Any, Any]) -> str:
    mean, low, high = (row[f"exact_match{end}"] for end in ("", "_low", "_high"))
    bounds = "" if pd.isna(low) else f" [{100 * max(low, 0):.0f}, {100 * min(high, 1):.0f}]"
    return f"{100 * mean:.0f}{bounds} ({row['cases']:,})"


def _svg(found: pd.DataFrame) -> str:
    places = list(found.groupby(["dataset", "robustness"], sort=False))
    lines = sorted({_line(row) for row in found.to_dict("records")})
    sizes = sorted(found["tools"].unique())

    def draw(axes: Sequence[Axes]) -> None:
        for axis, ((dataset, robustness), own) in zip(axes, places, strict=False):
            _panel(axis, own, lines)
            axis.set_title(shown(str(dataset)) + f"\nrobustness: {shown(str(robustness))}", fontsize=8)
            axis.xaxis.set_major_locator(FixedLocator(sizes))
            axis.set_xlabel("tools in the reference")
            axis.set_ylabel("exact match")
            axis.set_ylim(-0.02, 1.02)
        for axis in axes[len(places) :]:
            axis.set_visible(False)
        legend(axes)

    rows = math.ceil(len(places) / _WIDE)
    below = 0.18 * math.ceil(len(lines) / ACROSS) / rows
    return svg_of("tools", rows, min(_WIDE, len(places)), draw, width=3.9, height=2.8 + below)


def _panel(axis: Axes, own: pd.DataFrame, lines: Sequence[str]) -> None:
    named = own.assign(line=[_line(row) for row in own.to_dict("records")])
    for line, points in named.groupby("line", sort=True):
        place = lines.index(str(line))
        points = points.sort_values("tools")
        bounds = points[["exact_match_low", "exact_match_high"]].to_numpy(np.float64).clip(0.0, 1.0)
        reach = np.nan_to_num(np.abs(bounds.T - points["exact_match"].to_numpy(np.float64)))
        move = 0.4 * ((place + 0.5) / len(lines) - 0.5)
        axis.errorbar(points["tools"] + move, points["exact_match"], yerr=reach, color=COLOURS[place % len(COLOURS)],
                      marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=1.2, elinewidth=0.5,
                      label=shown(str(line)))  # fmt: skip


def _line(row: Mapping[Any, Any]) -> str:
    return f"{row['model']}, {row['planner']}"

"""Exact match by the number of tools, drawn (traject_bench, figure 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from analysis.figures import Drawing, svg_of
from analysis.styles import ACROSS, COLOURS, MARKERS, legend
from analysis.trajectory.scaling import CAPTION, TITLE, curve, query_of
from grid.core.untrusted import shown

_WIDE = 3  # panels in a row


def drawings(root: Path, cells: pd.DataFrame, told: str) -> list[Drawing]:
    """Figure 2, a panel for each dataset; `told` begins its caption. None without TRAJECT-Bench."""
    found = curve(cells)
    if found.empty:
        return []
    models = list(found["model"].unique())
    query = "\n\n".join(query_of(root, model, found) for model in models)
    return [Drawing("tools", TITLE, f"{told}{CAPTION}; points are moved apart", _svg(found), query)]


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

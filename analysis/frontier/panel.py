"""One panel of success against a cost: points with intervals, the frontier, and a name for every point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis.styles import COLOURS
from grid.core.untrusted import shown

ASKED = " (asked)"
"""What stands behind the name of a planner that asked whether cases were resolved."""
_OTHER, _OTHER_NAME = "#8a9099", "#5c636b"
_LINES = {False: "-", True: ":"}
_NAME_INCHES = 0.135  # from one name to the next
_FRAME_INCHES = 0.85  # title and labels above and below the axes
_LEAST_INCHES = 3.4
_WIDEST = 10.0  # largest cost / smallest, up to which an axis is linear
_CUT = 44  # characters of a name


def height(names: int) -> float:
    """Inches of a panel in which so many names have room."""
    return max(_LEAST_INCHES, _FRAME_INCHES + _NAME_INCHES * names)


def draw(axis: Axes, own: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Draw planners on an axis.

    Args:
        axis: a panel `inches` high.
        own: a row for each planner: `planner`, `success` with `_low` and `_high`, `asked`, `cost`, `frontier`.
        cost: the column of what it takes; rows without a cost above 0 have no place.
        frontier: the column of flags: who is joined by a line. The others are grey.
        inches: the panel's height.
    """
    known = own[own["success"].notna() & (own[cost] > 0)]
    if known.empty:
        return
    for asked, group in known.groupby("asked", sort=True):
        best = group[group[frontier]].sort_values(cost)
        axis.plot(best[cost], best["success"], color=_terms(asked), linestyle=_LINES[bool(asked)], linewidth=1.2,
                  drawstyle="steps-post", zorder=1)  # fmt: skip
    for row in known.sort_values(frontier, kind="stable").to_dict("records"):
        colour = _terms(row["asked"]) if row[frontier] else _OTHER
        axis.errorbar(row[cost], row["success"], yerr=_reach(row), color=colour, marker="o" if row[frontier] else "s",
                      markersize=5 if row[frontier] else 4, markerfacecolor="white" if row["asked"] else None,
                      elinewidth=0.7, capsize=1.5)  # fmt: skip
    _scales(axis, known, cost)
    _name(axis, known, cost, frontier, inches)


def _scales(axis: Axes, known: pd.DataFrame, cost: str) -> None:
    least, most = float(known[cost].min()), float(known[cost].max())
    if most > _WIDEST * least:
        axis.set_xscale("log")
        plain(axis.xaxis, known[cost])
        axis.margins(x=0.08)
    else:
        axis.set_xlim(0, most * 1.06)
        axis.xaxis.set_major_locator(MaxNLocator(6))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    highest = float(np.nanmax(known[["success", "success_high"]].to_numpy(np.float64)))
    top = 1.02 if highest > 0.7 else max(highest * 1.08, 0.05)  # below, the upper part would be empty
    axis.set_ylim(-0.02 * top, top)
    axis.grid(alpha=0.25)


def plain(axis: Axis, values: pd.Series[float]) -> None:
    """Numbers without powers on a logarithmic axis, no more of them than there is room for."""
    decades = np.log10(values.max() / values.min())
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())


def _name(axis: Axes, known: pd.DataFrame, cost: str, frontier: str, inches: float) -> None:
    """Names to the right of the panel, in the points' order, each with a line to its point."""
    ordered = known.sort_values(["success", cost], ascending=[True, False])
    low, high = axis.get_ylim()
    apart = _NAME_INCHES / (inches - _FRAME_INCHES)
    heights = spread((ordered["success"].to_numpy(np.float64) - low) / (high - low), apart)
    for row, place in zip(ordered.to_dict("records"), heights, strict=True):
        colour = _terms(row["asked"]) if row[frontier] else _OTHER_NAME
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.4, "alpha": 0.6, "relpos": (0.0, 0.5)}
        axis.annotate(_named(row), (row[cost], row["success"]), xytext=(1.03, place), textcoords=axis.transAxes,
                      fontsize=7, va="center", color=colour, annotation_clip=False, arrowprops=line)  # fmt: skip


def spread(places: npt.NDArray[np.float64], apart: float) -> npt.NDArray[np.float64]:
    """Places in ascending order, moved so that two are at least `apart`, and none is above 1 where all have room.

    Those that are far enough from others stay where they are.
    """
    steps = apart * np.arange(len(places))
    found = np.maximum.accumulate(places - steps) + steps
    ceiling = 1.0 - steps[::-1]
    return np.asarray(np.minimum(found, ceiling), dtype=np.float64)


def _terms(asked: object) -> str:
    """The colour of those who asked whether cases were resolved, and of the others."""
    return COLOURS[1] if asked else COLOURS[0]


def _reach(row: Mapping[Any, Any]) -> npt.NDArray[np.float64]:
    bounds = np.clip([row["success_low"], row["success_high"]], 0.0, 1.0)
    return np.asarray(np.nan_to_num(np.abs(bounds - row["success"]))[:, None])


def _named(row: Mapping[Any, Any]) -> str:
    label = shown(str(row["planner"]))
    return f"{label if len(label) <= _CUT else label[: _CUT - 1] + '…'}{ASKED if row['asked'] else ''}"

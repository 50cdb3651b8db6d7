"""The reliability diagrams, and error rates against shares handed over, with their captions and queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from analysis import planted
from analysis.calibration import binned, decisions, measures
from analysis.calibration.decisions import EXACT
from analysis.calibration.sheets import SECTION, bounded, places
from analysis.figures import Drawing, svg_of
from analysis.load import SETTING
from analysis.sheets import Place
from analysis.styles import COLOURS, MARKERS, legend
from grid.core.untrusted import shown

_RELIABILITY = (
    "share of right choices by confidence (the probability of the option taken), a panel a planner; circles: bins of "
    f"width {1 / binned.BINS:.1f} at their mean confidence, their area the share of decisions; bars: 95% intervals "
    "over clusters of cases; dashed: as many right as confidences say; below it choices are surer than they are right; "
    "ECE: without what noise adds, in %, with its 95% interval"
)
_HANDED = (
    "error rate of the decisions that are kept where those of most entropy go to a person; solid: entropy of the exact "
    "choice, dashed: of votes; bars: 95% intervals over clusters of cases; dotted, in the same colour: handing over at "
    "random (flat), and in a perfect order (errors first); curves end where 5% are left, or 20 decisions"
)


def drawings(root: Path) -> list[Drawing]:
    """Two figures for each model and data set; none where no planner recorded a distribution beside a reference.

    Raises:
        StoreError: the folder cannot be read.
    """
    found: list[Drawing] = []
    for number, (place, own) in enumerate(places(decisions.read(root)), start=1):
        found += [_reliability(root, place, own, number), _handed(root, place, own, number)]
    return found


def _reliability(root: Path, place: Place, own: pd.DataFrame, number: int) -> Drawing:
    found = measures.table(own)
    name = f"reliability-{number}"
    return Drawing(
        name=name,
        title=f"{place.title}: reliability diagram",
        caption=f"{planted.notice(own)}{_RELIABILITY}{left_out(len(found))}",
        svg=reliability(measures.reliability(own), found, name),
        query=decisions.query(root, *place),
        section=SECTION,
    )


def _handed(root: Path, place: Place, own: pd.DataFrame, number: int) -> Drawing:
    name, curves = f"handed-over-{number}", measures.curves(own)
    return Drawing(
        name=name,
        title=f"{place.title}: error rate against the share handed over (risk-coverage)",
        caption=f"{planted.notice(own)}{_HANDED}{undrawn(curves['planner'].nunique())}",
        svg=handed_over(curves, measures.handing_over(own), name),
        query=decisions.query(root, *place),
        section=SECTION,
    )


# Reliability diagrams and risk-coverage curves as SVG: the same bytes for the same rows.


_PANELS, _ACROSS = 12, 3
_LARGEST = 160.0  # points²: of a circle that stands for all decisions
_TITLE = 44  # characters
_LINES, _NARROW = len(COLOURS), 2  # planners of a panel of curves; such panels in a row


def left_out(settings: int) -> str:
    """What a caption says of settings for which there is no panel."""
    return f"; the first {_PANELS} of {settings} settings: the table has all" if settings > _PANELS else ""


def undrawn(planners: int) -> str:
    """What a caption says of planners for which there is no line."""
    return f"; the first {_LINES} of {planners} planners: the table has all" if planners > _LINES else ""


def reliability(bins: pd.DataFrame, table: pd.DataFrame, name: str) -> str:
    """A panel for each of the first settings; an SVG element. The arguments are `measures`' tables of these names."""
    drawn: list[dict[Any, Any]] = table.head(_PANELS).to_dict("records")
    groups = dict(iter(bins.groupby(SETTING, sort=False)))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, row in zip(axes, drawn, strict=False):
            _diagram(axis, groups[tuple(row[label] for label in SETTING)])
            axis.set_title("\n".join(_titled(row)), fontsize=8)
        for axis in axes[len(drawn) :]:
            axis.set_visible(False)

    rows = -(-len(drawn) // _ACROSS)
    return svg_of(name, rows, min(_ACROSS, len(drawn)), draw, width=3.2, height=3.3)


def _titled(row: dict[Any, Any]) -> list[str]:
    names = [row["planner"], *([row["robustness"]] if row["robustness"] != "none" else []), row["distribution"]]
    return [*(shown(str(text)[:_TITLE]) for text in names), f"ECE {bounded(row, 'ece', 'ece_corrected')}"]


def _diagram(axis: Axes, own: pd.DataFrame) -> None:
    axis.plot([0, 1], [0, 1], linestyle="--", color="#8a9099", linewidth=1, zorder=1)
    bounds = own[["accuracy_low", "accuracy_high"]].to_numpy(np.float64).T
    reach = np.nan_to_num(np.abs(bounds - own["accuracy"].to_numpy(np.float64)))
    axis.errorbar(own["confidence"], own["accuracy"], yerr=reach, linestyle="none", color=COLOURS[0], elinewidth=0.8,
                  capsize=1.5, zorder=2)  # fmt: skip
    axis.scatter(own["confidence"], own["accuracy"], s=6 + _LARGEST * own["part"], color=COLOURS[0], alpha=0.75,
                 linewidths=0, zorder=3)  # fmt: skip
    axis.set_xlim(-0.02, 1.03)
    axis.set_ylim(-0.02, 1.03)
    _percents(axis)
    axis.set_xlabel("confidence")
    axis.set_ylabel("right")


def handed_over(curves: pd.DataFrame, points: pd.DataFrame, name: str) -> str:
    """A panel for each robustness setting, a line a planner; an SVG element. The arguments are `measures`' tables."""
    planners = list(dict.fromkeys(curves["planner"]))[:_LINES]
    panels = list(curves[curves["planner"].isin(planners)].groupby("robustness", sort=False))
    top = float(np.nanmax([*curves["error"], *points["error_high"].fillna(0.0)]))

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (robustness, group) in zip(axes, panels, strict=False):
            for planner, own in group.groupby("planner", sort=False):
                place = planners.index(planner)
                met = points[(points["robustness"] == robustness) & (points["planner"] == planner)]
                _curve(axis, own, met, place, (place - (len(planners) - 1) / 2) * 0.006)
            axis.plot([], [], color="#8a9099", linestyle=":", label="at random (flat), in a perfect order")
            axis.set_title("" if len(panels) == 1 else shown(str(robustness)[:_TITLE]), fontsize=8)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, min(1.02, 1.05 * top + 1e-3))
            _percents(axis)
            axis.set_xlabel("share handed over, most entropy first")
            axis.set_ylabel("error rate of the rest")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        legend(axes, 2)

    rows, across = -(-len(panels) // _NARROW), min(_NARROW, len(panels))
    below = 0.2 * -(-len(planners) // 2) / rows
    return svg_of(name, rows, across, draw, width=7.2 if across == 1 else 4.6, height=3.2 + below)


def _curve(axis: Axes, own: pd.DataFrame, points: pd.DataFrame, place: int, aside: float) -> None:
    colour, marker = COLOURS[place], MARKERS[place]
    kind = str(own["distribution"].iloc[0])
    line = "-" if kind == EXACT else "--"
    label = f"{shown(str(own['planner'].iloc[0])[:_TITLE])} ({kind})"
    axis.plot(own["handed"], own["error"], color=colour, linestyle=line, linewidth=1.4, zorder=3)
    axis.plot(own["handed"], own["error_perfect"], color=colour, linestyle=":", linewidth=0.9, zorder=1)
    axis.axhline(float(points["error_random"].iloc[0]), color=colour, linestyle=":", linewidth=0.9, zorder=1)
    bounds = points[["error_low", "error_high"]].to_numpy(np.float64).T
    reach = np.nan_to_num(np.abs(bounds - points["error"].to_numpy(np.float64)))
    axis.errorbar(points["handed"] + aside, points["error"], yerr=reach, color=colour, marker=marker, markersize=3.5,
                  linestyle="none", elinewidth=0.8, capsize=1.5, zorder=4)  # fmt: skip
    axis.plot([], [], color=colour, linestyle=line, marker=marker, markersize=3.5, label=label)


def _percents(axis: Axes) -> None:
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axis.grid(alpha=0.25)

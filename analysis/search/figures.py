"""Figures of searches: anytime curves, sizes of trees, the cost-success frontier; the same bytes for the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from analysis.figures import svg_of
from analysis.search import sizes
from analysis.styles import ACROSS, COLOURS, MARKERS, legend
from grid.text.untrusted import shown

_LINES = {False: "-", True: ":"}
"""By whether the planner asked if cases were resolved: dotted, and hollow markers, for those who did."""
_ASKED = " (asked)"
_OTHER = "#9aa0a6"
_APART = 0.045  # between two names of a frontier, in shares of cases
_SPREAD = 0.5  # octaves over which the planners' points of one limit are spread, so that intervals do not hide another


class _Style(NamedTuple):
    colour: str
    marker: str
    line: str
    filled: bool

    @property
    def face(self) -> str:
        """The marker's inside."""
        return self.colour if self.filled else "white"


def anytime(curve: pd.DataFrame, name: str) -> str:
    """Success, seconds and success per second against the limit of executed calls (figure 3); an SVG element.

    `curve` are the rows of `anytime.curve`; a row of panels for each robustness setting, bars are 95% intervals.
    """
    styles = _styles(curve)
    settings = list(curve["robustness"].unique())
    limits = sorted(curve["limit"].unique())
    panels = {"success": "success, share of cases", "seconds": "seconds a case", "per_second": "success per second"}

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = curve[curve["robustness"] == robustness]
            for axis, (measure, label) in zip(axes[3 * place :], panels.items(), strict=False):
                _curves(axis, own, measure, styles)
                axis.set_xscale("log", base=2)
                axis.xaxis.set_major_locator(FixedLocator(limits))
                axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.xaxis.set_minor_locator(NullLocator())
                axis.set_xlabel("limit of executed calls")
                axis.set_ylabel(label)
                _title(axis, robustness)
                if measure == "success":
                    axis.set_ylim(-0.02, 1.02)
                elif (own[measure] > 0).any():  # planners differ by orders of magnitude
                    axis.set_yscale("log", nonpositive="clip")
                    _plain(axis.yaxis, own.loc[own[measure] > 0, measure])
        legend(axes)

    below = 0.18 * math.ceil(len(styles) / ACROSS) / len(settings)
    return svg_of(name, len(settings), 3, draw, width=3.9, height=3.0 + below)


def trees(quartiles: pd.DataFrame, name: str) -> str:
    """Nodes, executions and rollouts of trees, medians with quartiles (figure 4); an SVG element."""
    settings = list(quartiles["robustness"].unique())
    names = [size for size in sizes.SIZES if size != "pruned" and quartiles[f"{size}_median"].notna().any()]

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = quartiles[quartiles["robustness"] == robustness].reset_index(drop=True)
            for index, (axis, size) in enumerate(zip(axes[len(names) * place :], names, strict=False)):
                low, middle, high = (own[f"{size}_{part}"] for part in sizes.QUARTILES)
                reach = np.array([middle - low, high - middle])
                axis.errorbar(middle, own.index, xerr=reach, color=COLOURS[0], marker="o", linestyle="none", capsize=3)
                labels = [shown(_named(row)) for row in own.to_dict("records")]
                axis.set_yticks(range(len(own)), labels if not index else [""] * len(own))
                axis.set_ylim(len(own) - 0.5, -0.5)
                axis.set_xlim(left=0)
                axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
                axis.set_xlabel(f"{sizes.SIZES[size]} an episode")
                _title(axis, robustness)
                axis.grid(axis="x", alpha=0.3)

    rows = int(quartiles.groupby("robustness").size().max())
    return svg_of(name, len(settings), len(names), draw, height=0.9 + 0.3 * rows)


def frontier(compared: pd.DataFrame, name: str) -> str:
    """Success against tokens and against seconds, on logarithmic axes; an SVG element.

    Undominated planners (`comparing.compared`) are joined by a line and named, the others grey. A planner whose cost is
    0 or not known has no place on such an axis.
    """
    settings = list(compared["robustness"].unique())
    labels = {"tokens": "tokens a case", "seconds": "seconds a case"}

    def draw(axes: Sequence[Axes]) -> None:
        for place, robustness in enumerate(settings):
            own = compared[compared["robustness"] == robustness]
            for axis, (cost, label) in zip(axes[2 * place :], labels.items(), strict=False):
                _frontier(axis, own, cost)
                axis.set_xlabel(label)
                axis.set_ylabel("success, share of cases")
                _title(axis, robustness)

    return svg_of(name, len(settings), 2, draw, width=5.4, height=3.4)


def drawable(compared: pd.DataFrame) -> bool:
    """Whether a frontier's two axes have planners to be told apart."""
    known = compared["success"].notna() & (compared["tokens"] > 0) & (compared["seconds"] > 0)
    return int(known.sum()) > 1


def _styles(rows: pd.DataFrame) -> dict[str, _Style]:
    """A style for each planner: its place among all planners decides."""
    asked = rows.groupby("planner", sort=True)["asked"].any().to_dict()
    return {
        str(planner): _Style(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], _LINES[who], not who)
        for place, (planner, who) in enumerate(asked.items())
    }


def _curves(axis: Axes, own: pd.DataFrame, measure: str, styles: Mapping[str, _Style]) -> None:
    for place, (planner, style) in enumerate(styles.items()):
        line = own[own["planner"] == planner].sort_values("limit")
        known = line[line[measure].notna() if measure == "success" else line[measure] > 0]  # 0 has no logarithm
        if known.empty:
            continue
        move = _SPREAD * ((place + 0.5) / len(styles) - 0.5)
        bounds = known[[f"{measure}_low", f"{measure}_high"]].to_numpy(np.float64).clip(min=0.0)
        if measure == "success":
            bounds = bounds.clip(max=1.0)
        reach = np.nan_to_num(np.abs(bounds.T - known[measure].to_numpy(np.float64)))
        axis.errorbar(known["limit"] * 2.0**move, known[measure], yerr=reach, color=style.colour, marker=style.marker,
                      linestyle=style.line, markerfacecolor=style.face, markersize=4, linewidth=1.2, elinewidth=0.5,
                      label=shown(_named(known.iloc[0])))  # fmt: skip


def _frontier(axis: Axes, own: pd.DataFrame, cost: str) -> None:
    known = own[own["success"].notna() & (own[cost] > 0)]
    for asked, group in known.groupby("asked", sort=True):
        best = group[group[f"undominated_{cost}"]].sort_values(cost)
        axis.plot(best[cost], best["success"], color=_terms(asked), linestyle=_LINES[bool(asked)], linewidth=1,
                  drawstyle="steps-post", zorder=1)  # fmt: skip
        for row in group.to_dict("records"):
            colour = _terms(asked) if row[f"undominated_{cost}"] else _OTHER
            axis.errorbar(row[cost], row["success"], yerr=_reach(row), color=colour, marker="o", markersize=5,
                          markerfacecolor="white" if asked else None, elinewidth=0.7)  # fmt: skip
    axis.set_xscale("log")
    _plain(axis.xaxis, known[cost])
    axis.margins(x=0.1)
    axis.set_ylim(-0.02, 1.02)
    axis.grid(axis="x", alpha=0.3)
    _name(axis, known[known[f"undominated_{cost}"]], cost)


def _name(axis: Axes, best: pd.DataFrame, cost: str) -> None:
    """Names to the right of the panel, in the points' order, each with a line to its point."""
    ordered = best.sort_values(["success", cost], ascending=[True, False])
    heights = ordered["success"].to_numpy(np.float64)
    steps = _APART * np.arange(len(heights))
    heights = np.maximum.accumulate(heights - steps) + steps if len(heights) else heights
    heights = heights - np.maximum(np.max(heights, initial=0.0) - 1.0, 0.0)  # pandas' own array cannot be written to
    for row, height in zip(ordered.to_dict("records"), heights, strict=True):
        colour = _terms(row["asked"])
        axis.annotate(shown(_named(row)), (row[cost], row["success"]), xytext=(1.03, height), fontsize=7, va="center",
                      textcoords=axis.get_yaxis_transform(), color=colour, annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.4, "alpha": 0.6,
                                  "relpos": (0.0, 0.5)})  # fmt: skip


def _terms(asked: object) -> str:
    """The colour of those who asked whether cases were resolved, and of the others."""
    return COLOURS[1] if asked else COLOURS[0]


def _title(axis: Axes, robustness: object) -> None:
    axis.set_title(f"robustness: {shown(str(robustness))}", fontsize=8)


def _plain(axis: Axis, values: pd.Series[float]) -> None:
    """Numbers without powers on a logarithmic axis, no more of them than there is room for."""
    decades = np.log10(values.max() / values.min())
    axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 3.0) if decades > 1 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(NullFormatter())


def _reach(row: Mapping[Any, Any]) -> Any:
    bounds = np.clip([row["success_low"], row["success_high"]], 0.0, 1.0)
    return np.nan_to_num(np.abs(bounds - row["success"]))[:, None]


def _named(row: Any) -> str:
    return f"{row['planner']}{_ASKED if row['asked'] else ''}"

"""Figures of the planning-horizon study as SVG: the same bytes for the same rows.

Colours are Okabe and Ito's, apart for the colour-blind, and planners differ by marker and line too, for print.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from analysis.horizon import FH, PLACE, SH
from analysis.intervals import CLUSTER, Interval, amount, share
from grid.core.untrusted import shown
from grid.store import sql

_STYLE = {FH: ("#0072B2", "o", "-", -1.0), SH: ("#D55E00", "s", "--", 1.0)}
"""Colour, marker, line, and the side to which points are moved so that intervals do not hide one another."""
_ACROSS, _WIDTH, _HEIGHT = 3, 3.1, 2.6  # panels in a row; inches of one
_EXACT, _BINS = 8, 5
"""Up to so many different values each has a point of its own; more are binned, by quantiles."""
_RC: Any = {
    "svg.fonttype": "none",  # text as text: smaller, and it can be searched
    "text.parse_math": False,  # a $ in a label is a $
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Drawing:
    """An SVG element with its title, caption, the query of its numbers, and its section of a page."""

    name: str
    title: str
    caption: str
    svg: str
    query: str
    section: str = ""

    def __post_init__(self) -> None:
        """`query` names what it reads, as a table's does."""
        object.__setattr__(self, "query", sql.joined(self.query))


def success_against(episodes: pd.DataFrame, column: str) -> str:
    """Success by depth or breadth for FH and SH, a panel for each dataset, model and robustness; an SVG element.

    A point is the mean over cases of the case's mean over trials; bars are 95% intervals (`intervals.share`).
    """
    groups = [(key, group) for key, group in episodes.groupby(PLACE, sort=True, observed=True)]

    def draw(axes: Sequence[Axes]) -> None:
        for axis, (key, group) in zip(axes, groups, strict=False):
            _success_panel(axis, group, column)
            axis.set_title(_label(key), fontsize=8)
            axis.set_xlabel(column)
            axis.set_ylabel("success")
        axes[0].legend(frameon=False)
        for axis in axes[len(groups) :]:
            axis.set_visible(False)

    rows = math.ceil(len(groups) / _ACROSS)
    return svg_of(f"success-{column}", rows, min(_ACROSS, len(groups)), draw)


def tokens(comparisons: pd.DataFrame, episodes: pd.DataFrame) -> str:
    """Mean input and output tokens a case for FH and SH; `comparisons` are table 2's rows, the lines; an SVG element.

    Bars are 95% intervals (Student's t over clusters, of the logarithm of the mean).
    """
    places = [tuple(row) for row in comparisons[PLACE].to_numpy()]
    groups = {tuple(map(str, key)): group for key, group in episodes.groupby(PLACE, observed=True)}

    def draw(axes: Sequence[Axes]) -> None:
        for axis, column in zip(axes, ("input_tokens", "output_tokens"), strict=True):
            for planner, (colour, marker, _, side) in _STYLE.items():
                means = [_interval(groups[place], planner, column) for place in places]
                heights = np.arange(len(places), dtype=np.float64) + 0.12 * side
                _points(axis, means, heights, colour, marker, planner)
            axis.set_xlabel(column.replace("_", " ") + " per case")
            axis.set_yticks(range(len(places)), [_label(place) for place in places], fontsize=8)
            axis.set_ylim(len(places) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axis.grid(axis="x", alpha=0.3)
        axes[1].tick_params(labelleft=False)
        axes[0].legend(frameon=False)

    return svg_of("tokens", 1, 2, draw, width=4.2, height=0.9 + 0.5 * len(places))


def _points(
    axis: Axes, means: Sequence[Interval], heights: npt.NDArray[np.float64], colour: str, marker: str, name: str
) -> None:
    centre = np.array([found.mean for found in means])
    reach = np.nan_to_num([[found.mean - found.low, found.high - found.mean] for found in means]).T
    axis.errorbar(centre, heights, xerr=reach, color=colour, marker=marker, linestyle="none", capsize=2, label=name)


def _success_panel(axis: Axes, group: pd.DataFrame, column: str) -> None:
    known = group.dropna(subset=[column, "success"])
    if known.empty:
        return
    bins = _binned(known[column].astype(np.float64))
    centres = known[column].astype(np.float64).groupby(bins).mean()
    step = float(centres.diff().min()) if len(centres) > 1 else 1.0
    for planner, (colour, marker, line, side) in _STYLE.items():
        found = [_interval(known[bins == place], planner, "success") for place in centres.index]
        means = np.array([one.mean for one in found])
        bounds = np.array([[one.low, one.high] for one in found]).T
        reach = np.nan_to_num(np.abs(bounds - means))
        axis.errorbar(centres.to_numpy() + 0.06 * side * step, means, yerr=reach, color=colour, marker=marker,
                      linestyle=line, markersize=4, linewidth=1.2, capsize=2, label=planner)  # fmt: skip
    axis.set_ylim(-0.02, 1.02)
    if len(centres) == 1:  # one value: no scale of hundredths around it
        axis.set_xlim(float(centres.iloc[0]) - 1, float(centres.iloc[0]) + 1)
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=column == "depth", min_n_ticks=1))


def _binned(values: pd.Series[float]) -> pd.Series[Any]:
    if values.nunique() <= _EXACT:
        return values.rank(method="dense").astype(int)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)))
    return pd.Series(np.clip(np.searchsorted(edges, values, side="right"), 1, len(edges) - 1), index=values.index)


def _interval(group: pd.DataFrame, planner: str, column: str) -> Interval:
    own = group[group["planner"].astype(str) == planner]
    cases = own.groupby([CLUSTER, "case_id"], observed=True)[column].mean().dropna()
    return share(cases) if column == "success" else amount(cases)


def _label(place: Any) -> str:
    return "\n".join(shown(str(part)) for part in place)


def svg_of(
    name: str,
    rows: int,
    across: int,
    draw: Callable[[Sequence[Axes]], None],
    width: float = _WIDTH,
    height: float = _HEIGHT,
) -> str:
    """The element that `draw` makes of rows x across panels; `width` and `height` are one panel's, in inches.

    `name` begins its ids: a page may hold it beside figures of other names.
    """
    with mpl.rc_context({**_RC, "svg.hashsalt": name}):
        figure = Figure(figsize=(width * across, height * rows), layout="constrained")
        draw(list(figure.subplots(rows, across, squeeze=False).flat))
        engine = figure.get_layout_engine()
        if engine is not None:  # once, and by itself: saving would draw everything once more for it
            engine.execute(figure)
            figure.set_layout_engine("none")
        out = io.StringIO()
        # As savefig does, which draws everything once more before, for layouts that are not fixed by then.
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(out, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _inlined(out.getvalue(), name)


def _inlined(document: str, name: str) -> str:
    """The element without the XML prologue; its ids are made its own, as a page holds several."""
    element = document[document.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", element)


# How lines of a figure are told apart: colours, markers, and one legend below all panels.


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
ACROSS = 4
"""Columns of a legend."""
_DOWN = 8  # entries of a column, as long as there are columns: panels need the room
_PER_LINE, _PER_CHARACTER = 0.6, 0.075  # inches of an entry's line and gap, and of a character at the usual size
_SMALLEST = 6.0  # points


def legend(axes: Sequence[Axes], across: int = ACROSS) -> None:
    """One legend below all panels, with what any of them shows, in at most so many columns, and no more than fit."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure = axes[0].get_figure()
    if figure is not None and found:
        width = figure.get_figure(root=True).get_size_inches()[0]
        entry = _PER_LINE + _PER_CHARACTER * max(map(len, found))
        columns = min(len(found), across, max(int(width / entry), -(-len(found) // _DOWN)))
        size = max(_SMALLEST, mpl.rcParams["font.size"] * min(1.0, width / (columns * entry)))
        markers, names = list(found.values()), list(found)
        figure.legend(markers, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)

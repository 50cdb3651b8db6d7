"""Figures as SVG, the same bytes for the same rows: what a drawing is, panels, and how lines are told apart.

Colours are Okabe and Ito's, apart for the colour-blind, and lines differ by marker too, for print.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from grid.store import sql

T = TypeVar("T")
_WIDTH, _HEIGHT = 3.1, 2.6  # inches of a panel
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


def each_panel(axes: Sequence[Axes], parts: Sequence[T]) -> Iterator[tuple[Axes, T]]:
    """An axis for each part; those that are left over are not shown."""
    for axis in axes[len(parts) :]:
        axis.set_visible(False)
    return zip(axes, parts, strict=False)


def reach(points: pd.DataFrame, name: str, bounds: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """How far bars reach below and above the values of a column, 0 where it has no bounds; shape (2, n).

    `bounds` are NAME_low and NAME_high, shape (n, 2), unless others are given.
    """
    ends = points[[f"{name}_low", f"{name}_high"]].to_numpy(np.float64) if bounds is None else bounds
    return np.asarray(np.nan_to_num(np.abs(ends.T - points[name].to_numpy(np.float64))))


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

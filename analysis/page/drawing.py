"""Figures as SVG, with the same bytes for the same rows: drawings, panels, and the styles that tell lines apart.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Lines also differ by marker, for
print.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from matplotlib.transforms import Affine2D, Bbox

from grid.core.untrusted import shown
from grid.store import sql

T = TypeVar("T")
_WIDTH, _HEIGHT = 3.1, 2.6  # inches of a panel
_DPI = 72
"""SVG units per inch; a unit is a point."""
_UNTOLD = ("Date", "Creator", "Format", "Type")
_PAD, _LEAST, _TURNS = 3 / _DPI, 1e-3, 3
"""Inches around a panel and its texts; a panel's least share of the figure; how often texts may be measured."""
_ABOUT = {"left": 0.08, "right": 0.98, "bottom": 0.12, "top": 0.92, "wspace": 0.25, "hspace": 0.35}
"""The margins and gaps of panels before their texts are measured, as parts of the figure and of a panel."""
_COLUMN, _TEXT = 3.35, 6.9
"""The widths, in inches, of a paper's column and of a paper's text."""
_LINE = 60  # characters above a panel
_LOWEST = 0.75  # of a figure's height on a page, however much narrower it is
_PAPER: Any = {"svg.fonttype": "path", "pdf.fonttype": 42, "font.size": 7, "xtick.labelsize": 6}
_RC: Any = {
    "svg.fonttype": "none",  # text as text: smaller, and it can be searched
    "text.parse_math": False,  # a $ in a label is a $
    "font.size": 9,
    "axes.titley": 1.0,  # no ticks are above a panel
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, repr=False)
class Drawing:
    """An SVG element with its title, its caption, the query of its numbers, and its section on a page.

    `model` and `dataset` are the only model and data set of the figure; empty if it shows several.
    """

    name: str
    title: str
    caption: str
    svg: str
    query: str
    section: str = ""
    model: str = ""
    dataset: str = ""

    def __post_init__(self) -> None:
        """Make `query` name the columns that it reads, instead of `SELECT *`, as in a table."""
        object.__setattr__(self, "query", sql.joined(self.query))

    def __repr__(self) -> str:
        """The drawing's title and caption."""
        return f"{self.title}\n{self.caption}"

    def _repr_html_(self) -> str:
        """The drawing's HTML for a notebook."""
        return f"<b>{escape(self.title)}</b><br>{self.svg}<p>{escape(self.caption)}</p>"


def each_panel(axes: Sequence[Axes], parts: Sequence[T]) -> Iterator[tuple[Axes, T]]:
    """An axis for each part; axes that are left over are not shown."""
    for axis in axes[len(parts) :]:
        axis.set_visible(False)
    return zip(axes, parts, strict=False)


def headed(axis: Axes, rows: pd.DataFrame) -> None:
    """Write above a panel which model, data set and robustness setting its rows are of, the latter on its own line."""
    model, dataset, robustness = (str(rows[name].iloc[0]) for name in ("model", "dataset", "robustness"))
    lines = (f"{model} on {dataset}", "undisturbed" if robustness == "none" else robustness)
    axis.set_title(
        "\n".join(shown(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…") for line in lines), fontsize=8
    )


def percents(side: Axis, label: str) -> None:
    """Show an axis of shares in %, under this label."""
    side.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=""))
    side.set_label_text(f"{label}, %")


def reach(points: pd.DataFrame, name: str, bounds: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """How far bars reach below and above the values of a column, 0 if a value has no bounds; shape (2, n).

    `bounds` are NAME_low and NAME_high, shape (n, 2), unless others are given.
    """
    ends = points[[f"{name}_low", f"{name}_high"]].to_numpy(np.float64) if bounds is None else bounds
    return np.asarray(np.nan_to_num(np.abs(ends.T - points[name].to_numpy(np.float64))))


class Picture(str):
    """An SVG element; `file` draws the same figure as a separate file, from a form that papers accept and a title."""

    file: Callable[[str, str], bytes]


def svg_of(
    name: str,
    rows: int,
    across: int,
    draw: Callable[[Sequence[Axes]], None],
    width: float = _WIDTH,
    height: float = _HEIGHT,
) -> Picture:
    """The element that `draw` makes from `rows` x `across` panels; `width` and `height` of a panel are in inches.

    The ids in the element begin with `name`, because a page may show several figures.
    """
    with mpl.rc_context({**_RC, "svg.hashsalt": name}):
        figure, out = Figure(figsize=(width * across, height * rows), dpi=_DPI), io.StringIO()
        panels = figure.subplots(rows, across, squeeze=False, gridspec_kw=_ABOUT)
        draw(list(panels.flat))
        canvas: Any = RendererSVG
        renderer = canvas(*(figure.get_size_inches() * _DPI), out, metadata=dict.fromkeys(_UNTOLD))
        _placed(figure, panels, renderer)  # with the renderer that draws, so that each text is measured once
        figure.draw(renderer)
        renderer.finalize()
    found = Picture(_inlined(out.getvalue(), name))
    found.file = partial(_file, name, rows, across, draw, (width, height))
    return found


def _file(
    name: str,
    rows: int,
    across: int,
    draw: Callable[[Sequence[Axes]], None],
    size: tuple[float, float],
    form: str,
    title: str,
) -> bytes:
    """The figure as `pdf` or `svg`, as wide as a paper's column; `title` is in the file's metadata.

    If panels are side by side, the figure is as wide as a paper's text.

    Everything is drawn as lines and letters: a PDF embeds its fonts, an SVG has them as outlines.
    """
    width = _COLUMN if across == 1 else _TEXT
    with mpl.rc_context({**_RC, **_PAPER, "svg.hashsalt": name}):
        height = size[1] * rows * max(width / (size[0] * across), _LOWEST)
        figure, out = Figure(figsize=(width, height), dpi=_DPI), io.BytesIO()
        panels = figure.subplots(rows, across, squeeze=False, gridspec_kw=_ABOUT)
        draw(list(panels.flat))
        canvas: Any = FigureCanvasAgg(figure)  # it only measures
        _placed(figure, panels, canvas.get_renderer())
        untold = ("CreationDate", "Creator", "Producer") if form == "pdf" else _UNTOLD
        figure.savefig(out, format=form, metadata={**dict.fromkeys(untold), "Title": shown(title)})
    return out.getvalue()


def _placed(figure: Figure, panels: npt.NDArray[Any], renderer: Any) -> None:
    """Give all panels one size, and margins with room for ticks, titles and names; the legend is below all panels.

    Matplotlib's constrained layout does the same, but it measures each text many times, and also data, which cannot
    extend beyond a panel.
    """
    size = figure.get_size_inches()
    below = sum(legend.get_window_extent(renderer).height / _DPI + 2 * _PAD for legend in figure.legends)
    for _ in range(_TURNS):  # after the first turn there may be room for other ticks
        ticks = _ticks(panels)
        margins = np.array([[_margins(axis, renderer) for axis in row] for row in panels]) + _PAD
        columns, rows = margins[:, :, :2].max(axis=0), margins[:, :, 2:].max(axis=1)
        width = (size[0] - columns.sum()) / len(columns)
        height = (size[1] - below - rows.sum()) / len(rows)
        for (row, column), axis in np.ndenumerate(panels):
            left = columns[:column].sum() + columns[column, 0] + column * width
            above = rows[:row].sum() + rows[row, 0] + (row + 1) * height
            place = np.array([left, size[1] - above, width, height]) / [*size, *size]
            axis.set_position([*place[:2], *np.maximum(place[2:], _LEAST)])
        if ticks == _ticks(panels):
            break


def _ticks(panels: npt.NDArray[Any]) -> list[list[float]]:
    return [list(side.get_majorticklocs()) for axis in panels.flat for side in (axis.xaxis, axis.yaxis)]


def _margins(axis: Axes, renderer: Any) -> tuple[float, float, float, float]:
    """The inches that a panel's texts need on its left, on its right, above and below it; 0 for a hidden panel.

    The labels of the axes are moved next to the ends of the ticks.
    """
    if not axis.get_visible():
        return 0.0, 0.0, 0.0, 0.0
    inner = axis.get_window_extent(renderer)
    boxes = [inner, *(text.get_window_extent(renderer) for text in axis.texts)]
    reach = []
    for side, corner in ((axis.yaxis, 0), (axis.xaxis, 1)):
        side.label.set_visible(False)
        side.set_label_coords(0, 0)  # matplotlib would measure all ticks once more to find its place
        ticks = side.get_tightbbox(renderer, for_layout_only=True) or inner
        side.label.set_visible(True)
        boxes.append(ticks)
        beyond = max(inner.min[corner] - ticks.min[corner], mpl.rcParams["xtick.major.size"]) + side.labelpad
        x, y = (-beyond, 0) if corner == 0 else (0, -beyond)
        side.set_label_coords(0.5 * corner, 0.5 - 0.5 * corner, transform=axis.transAxes + Affine2D().translate(x, y))
        size = side.label.get_window_extent(renderer).size[corner]
        reach.append(beyond + size if side.label.get_text() else 0.0)
    around = Bbox.union(boxes)
    top = max(around.y1, axis.title.get_window_extent(renderer).y1 if axis.get_title() else 0.0)
    return (
        max(inner.x0 - around.x0, reach[0]) / _DPI,
        (around.x1 - inner.x1) / _DPI,
        (top - inner.y1) / _DPI,
        max(inner.y0 - around.y0, reach[1]) / _DPI,
    )


def _inlined(document: str, name: str) -> str:
    """The element without the XML prologue; `name` is put before each id, because a page has several elements."""
    element = document[document.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", element)


# How lines of a figure are told apart: colours, markers, and one legend below all panels.


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
ACROSS = 4
"""The largest number of columns of a legend."""
_DOWN = 8  # entries of a column, while more columns are allowed: panels need the room
_PER_LINE, _PER_CHARACTER = 0.6, 0.075  # inches of an entry's line and gap, and of a character at the usual size
_SMALLEST = 6.0  # points


def legend(axes: Sequence[Axes], across: int = ACROSS) -> None:
    """Draw one legend below all panels, with the entries of all panels, in as many columns up to `across` as fit."""
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

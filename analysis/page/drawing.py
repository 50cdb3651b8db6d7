"""Figures as SVG, with the same bytes for the same rows: drawings, panels, and the styles that tell lines apart.

The colours come from Okabe and Ito; colour-blind readers can tell them apart. Lines also differ by marker, so that they
can be told apart in print.
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
_WIDTH, _HEIGHT = 3.1, 2.6  # width and height of a panel, in inches
_DPI = 72
"""SVG units per inch; a unit is a point."""
_UNTOLD = ("Date", "Creator", "Format", "Type")
_PAD, _LEAST, _TURNS = 3 / _DPI, 1e-3, 3
"""Padding in inches around a panel and its texts; minimum size of a panel, as a share of the figure; maximum number of
layout passes."""
_ABOUT = {"left": 0.08, "right": 0.98, "bottom": 0.12, "top": 0.92, "wspace": 0.25, "hspace": 0.35}
"""The margins and gaps of panels before their texts are measured, as fractions of the figure and of a panel."""
_COLUMN, _TEXT = 3.35, 6.9
"""The widths, in inches, of a paper's column and of a paper's text."""
_LINE = 60  # maximum length of a line above a panel, in characters
_LOWEST = 0.75  # minimum share of its height on a page that a figure keeps in a file, however narrow it becomes
_PAPER: Any = {"svg.fonttype": "path", "pdf.fonttype": 42, "font.size": 7, "xtick.labelsize": 6}
_RC: Any = {
    "svg.fonttype": "none",  # keep text as text, which is smaller and can be searched
    "text.parse_math": False,  # show a $ in a label as a $
    "font.size": 9,
    "axes.titley": 1.0,  # no ticks are above a panel
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, repr=False)
class Drawing:
    """An SVG element with its title, its caption, the query for its numbers, and its section on a page.

    `model` and `dataset` are the figure's only model and data set; each is empty if the figure shows several.
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
        """Make `query` name the columns that it reads, instead of `SELECT *`, as a `Table` does."""
        object.__setattr__(self, "query", sql.joined(self.query))

    def __repr__(self) -> str:
        """The drawing's title and caption."""
        return f"{self.title}\n{self.caption}"

    def _repr_html_(self) -> str:
        """The drawing's HTML for a notebook."""
        return f"<b>{escape(self.title)}</b><br>{self.svg}<p>{escape(self.caption)}</p>"


def each_panel(axes: Sequence[Axes], parts: Sequence[T]) -> Iterator[tuple[Axes, T]]:
    """Pair each part with an axis; hide the remaining axes."""
    for axis in axes[len(parts) :]:
        axis.set_visible(False)
    return zip(axes, parts, strict=False)


def headed(axis: Axes, rows: pd.DataFrame) -> None:
    """Write above a panel the model, data set and robustness setting of its rows; the setting is on a second line."""
    model, dataset, robustness = (str(rows[name].iloc[0]) for name in ("model", "dataset", "robustness"))
    lines = (f"{model} on {dataset}", "undisturbed" if robustness == "none" else robustness)
    axis.set_title(
        "\n".join(shown(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…") for line in lines), fontsize=8
    )


def percents(side: Axis, label: str) -> None:
    """Show the values of an axis, which are shares, in %, and label the axis."""
    side.set_major_formatter(PercentFormatter(1.0, decimals=None, symbol=""))
    side.set_label_text(f"{label}, %")


def reach(points: pd.DataFrame, name: str, bounds: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """The lengths of the error bars below and above a column's values, 0 if a value has no bounds; shape (2, n).

    `bounds` has shape (n, 2); by default, the bounds are the columns NAME_low and NAME_high.
    """
    ends = points[[f"{name}_low", f"{name}_high"]].to_numpy(np.float64) if bounds is None else bounds
    return np.asarray(np.nan_to_num(np.abs(ends.T - points[name].to_numpy(np.float64))))


class Picture(str):
    """An SVG element; `file(format, title)` draws the figure as a file, in a format that papers accept."""

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

    Everything is vector graphics: a PDF embeds its fonts, and an SVG has text as outlines.
    """
    width = _COLUMN if across == 1 else _TEXT
    with mpl.rc_context({**_RC, **_PAPER, "svg.hashsalt": name}):
        height = size[1] * rows * max(width / (size[0] * across), _LOWEST)
        figure, out = Figure(figsize=(width, height), dpi=_DPI), io.BytesIO()
        panels = figure.subplots(rows, across, squeeze=False, gridspec_kw=_ABOUT)
        draw(list(panels.flat))
        canvas: Any = FigureCanvasAgg(figure)  # used only for measuring
        _placed(figure, panels, canvas.get_renderer())
        untold = ("CreationDate", "Creator", "Producer") if form == "pdf" else _UNTOLD
        figure.savefig(out, format=form, metadata={**dict.fromkeys(untold), "Title": shown(title)})
    return out.getvalue()


def _placed(figure: Figure, panels: npt.NDArray[Any], renderer: Any) -> None:
    """Give all panels the same size, and margins with room for ticks, titles and labels; the legend is at the bottom.

    Matplotlib's constrained layout does the same, but it measures each text many times, and it also measures the data,
    which cannot extend beyond a panel.
    """
    size = figure.get_size_inches()
    below = sum(legend.get_window_extent(renderer).height / _DPI + 2 * _PAD for legend in figure.legends)
    for _ in range(_TURNS):  # a pass can change the ticks, which must then be measured again
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
    """The space in inches that a panel's texts need on its left, on its right, above and below; 0 for a hidden panel.

    The labels of the axes are moved next to the ends of the ticks.
    """
    if not axis.get_visible():
        return 0.0, 0.0, 0.0, 0.0
    inner = axis.get_window_extent(renderer)
    boxes = [inner, *(text.get_window_extent(renderer) for text in axis.texts)]
    reach = []
    for side, corner in ((axis.yaxis, 0), (axis.xaxis, 1)):
        side.label.set_visible(False)
        side.set_label_coords(0, 0)  # otherwise matplotlib measures all ticks once more to place the label
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


# The styles that tell the lines of a figure apart: colours, markers, and one legend below all panels.


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
ACROSS = 4
"""Maximum number of columns of a legend."""
_DOWN = 8  # maximum number of entries per column, as long as more columns are allowed, to leave room for panels
_PER_LINE, _PER_CHARACTER = 0.6, 0.075  # width in inches: of an entry's line and gap, and of a usual character
_SMALLEST = 6.0  # minimum font size, in points


def legend(axes: Sequence[Axes], across: int = ACROSS) -> None:
    """Draw one legend below all panels, with the entries of all panels, in as many columns as fit, at most `across`.

    If a column would have more than `_DOWN` entries, there are more columns, in smaller type if they do not fit.
    """
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

"""How lines of a figure are told apart: colours, markers, and one legend below all panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

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

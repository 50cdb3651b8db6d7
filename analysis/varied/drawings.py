"""A heat map of success over two numbers of a planner, and a curve over each with the other held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from analysis import intervals, planted
from analysis.figures import Drawing, svg_of
from analysis.styles import COLOURS, MARKERS
from analysis.varied import cells, sheets
from analysis.varied.cells import Grid

_COLOURS, _DARK = "Blues", 0.65  # beyond that share of the scale texts are white
_PANEL, _CELL, _FRAME, _LEAST = 4.0, (0.62, 0.4), (0.9, 1.1), 3.0  # inches: widths and heights


def drawings(root: Path) -> list[Drawing]:
    """A figure for each planner of which two numbers vary; none where there is no such sweep.

    Raises:
        StoreError: the folder cannot be read.
    """
    every = cells.read(root)
    told = planted.notice(every) if len(every) else ""
    return [_drawing(root, grid, f"varied-{place}", told) for place, grid in enumerate(cells.grids(every), start=1)]


def _drawing(root: Path, grid: Grid, name: str, told: str) -> Drawing:
    held = [f"{key}={grid.middle(key):g}" for key in (grid.second, grid.first)]
    return Drawing(
        name=name,
        title=sheets.title(grid),
        caption=f"{told}success in % of cases, in brackets and as bars 95% intervals, {intervals.SHARES}; curves: one "
        f"number varies, the other is held at its middle value ({held[0]}, then {held[1]})",
        svg=_svg(grid, name),
        query=sheets.query(root, grid),
        section=sheets.SECTION,
    )


def _svg(grid: Grid, name: str) -> str:
    def draw(axes: Sequence[Axes]) -> None:
        _heat(axes[0], grid)
        _curve(axes[1], grid, grid.first, grid.second)
        _curve(axes[2], grid, grid.second, grid.first)

    width = max(_PANEL, _FRAME[0] + _CELL[0] * len(grid.values(grid.second)))
    height = max(_LEAST, _FRAME[1] + _CELL[1] * len(grid.values(grid.first)))
    return svg_of(name, 1, 3, draw, width=width, height=height)


def _heat(axis: Axes, grid: Grid) -> None:
    """A cell a setting, empty where none ran; the scale is the whole range of shares, so that figures compare."""
    rows, columns = grid.values(grid.first), grid.values(grid.second)
    found = [[grid.at(first, second) for second in columns] for first in rows]
    values = np.array([[one.mean if one else np.nan for one in row] for row in found])
    axis.pcolormesh(values, cmap=_COLOURS, vmin=0.0, vmax=1.0)  # no image: a page loads none
    for place, row in enumerate(found):
        for column, one in enumerate(row):
            if one:
                axis.text(column + 0.5, place + 0.5, _text(one), ha="center", va="center", fontsize=6.5,
                          color="white" if one.mean > _DARK else "black")  # fmt: skip
    axis.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axis.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axis.set_xlabel(grid.second)
    axis.set_ylabel(grid.first)
    axis.set_title("success, %", fontsize=8)
    axis.spines[:].set_visible(False)


def _text(found: intervals.Interval) -> str:
    if np.isnan(found.low):
        return f"{100 * found.mean:.0f}"
    return f"{100 * found.mean:.0f}\n[{100 * found.low:.0f}, {100 * found.high:.0f}]"


def _curve(axis: Axes, grid: Grid, along: str, held: str) -> None:
    fixed, values = grid.middle(held), grid.values(along)
    points = [(value, grid.at(*((value, fixed) if along == grid.first else (fixed, value)))) for value in values]
    known = [(value, one) for value, one in points if one]
    means = np.array([one.mean for _, one in known])
    bounds = np.array([[one.low, one.high] for _, one in known]).reshape(-1, 2).T
    axis.errorbar([value for value, _ in known], means, yerr=np.nan_to_num(np.abs(bounds - means)), color=COLOURS[0],
                  marker=MARKERS[0], markersize=4, linewidth=1.2, capsize=2)  # fmt: skip
    axis.set_ylim(-0.02, 1.02)
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.grid(alpha=0.25)
    axis.set_xlabel(along)
    axis.set_ylabel("success, share of cases")
    axis.set_title(f"{held}={fixed:g}", fontsize=8)

"""Failure classes as stacked bars: the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator, PercentFormatter

from analysis.failures.cells import (
    BUDGET,
    CASCADE,
    CLASSES,
    ERROR,
    GAVE_UP,
    MISSING,
    NO_RETRIEVAL,
    REDUNDANT,
    UNKNOWN,
    UNREADABLE,
    WRONG_ARGUMENT,
    WRONG_TOOL,
)
from analysis.figures import svg_of
from analysis.styles import legend
from grid.core.untrusted import shown

_STYLES = {
    NO_RETRIEVAL: ("#0072B2", ""),
    WRONG_TOOL: ("#D55E00", "//"),
    WRONG_ARGUMENT: ("#E69F00", ""),
    MISSING: ("#56B4E9", ".."),
    REDUNDANT: ("#CC79A7", ""),
    GAVE_UP: ("#F0E442", "\\\\"),
    UNREADABLE: ("#000000", ""),
    BUDGET: ("#009E73", "xx"),
    CASCADE: ("#999999", ""),
    ERROR: ("#ffffff", "++"),
    UNKNOWN: ("#dddddd", "--"),
}
"""Okabe and Ito's colours, told apart for print by hatches too."""
_ACROSS = 4


def bars(own: pd.DataFrame, name: str) -> str:
    """A bar for each setting of one model and data set, of the shares of all its cells; an SVG element.

    `own` are rows of `shares.by_setting`; a panel for each robustness setting.
    """
    settings = list(own["robustness"].unique())
    there = [kind for kind in CLASSES if own[kind].any()]
    most = int(own.groupby("robustness", observed=True).size().max())
    top = min(1.0, np.ceil(10 * float((own["failed"] / own["cells"]).max())) / 10)

    def draw(axes: Sequence[Axes]) -> None:
        for axis, robustness in zip(axes, settings, strict=True):
            _panel(axis, own[own["robustness"] == robustness], there)
            axis.set_xlim(0, top)
            axis.set_title("" if len(settings) == 1 else shown(str(robustness)), fontsize=8)
        axes[-1].set_xlabel("share of cells")
        legend(axes, _ACROSS)

    below = 0.2 * -(-len(there) // _ACROSS) / len(settings)
    return svg_of(name, len(settings), 1, draw, width=7.2, height=0.9 + 0.32 * most + below)


def _panel(axis: Axes, rows: pd.DataFrame, there: Sequence[str]) -> None:
    heights = np.arange(len(rows))
    left = np.zeros(len(rows))
    for kind in there:
        colour, hatch = _STYLES[kind]
        width = rows[f"{kind}_share"].to_numpy(dtype=float)
        there_too = width > 0  # an empty bar has an edge all the same
        axis.barh(heights[there_too], width[there_too], left=left[there_too], height=0.7, color=colour, hatch=hatch,
                  edgecolor="#333333", linewidth=0.5, label=kind.replace("_", " "))  # fmt: skip
        left += width
    axis.set_yticks(heights, [shown(str(planner)) for planner in rows["planner"]], fontsize=8)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.xaxis.set_major_locator(MultipleLocator(0.1))
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)

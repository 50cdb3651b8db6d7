"""The figure of a comparison: each setting's difference in success, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import intervals
from analysis.comparison import queries
from analysis.comparison.measures import HOLM
from analysis.comparison.runs import Matched, Run
from analysis.figures import Drawing, svg_of
from analysis.styles import COLOURS
from grid.core.untrusted import shown

_MOST = 60  # settings of a figure
_LEVEL = 0.05
_CUT = 70


def drawings(runs: tuple[Run, Run], matched: Matched, table: pd.DataFrame) -> list[Drawing]:
    """One figure of all differences that are known; none where there are none, or too many to be read."""
    known = table[table["difference"].notna()]
    if known.empty or len(known) > _MOST:
        return []
    return [
        Drawing(
            name="differences",
            title="difference in success, B − A",
            caption=f"in points, paired over the cases that both runs have; bars: 95% intervals, {intervals.TOLD}; "
            f"filled: Holm's p < {_LEVEL}",
            svg=_differences(known),
            query=queries.cases(runs, matched.pairs),
        )
    ]


def _differences(known: pd.DataFrame) -> str:
    varying = [name for name in ("model", "dataset", "robustness") if known[name].nunique() > 1]

    def draw(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        for place, row in enumerate(known.to_dict("records")):
            reach = np.nan_to_num(np.abs(np.array([row["difference_low"], row["difference_high"]]) - row["difference"]))
            axis.errorbar(100 * row["difference"], place, xerr=100 * reach[:, None], color=COLOURS[0], marker="o",
                          markersize=5, markerfacecolor=COLOURS[0] if row[HOLM] < _LEVEL else "white", capsize=3,
                          linestyle="none")  # fmt: skip
        names = [" · ".join([row["planner"], *(row[name] for name in varying)]) for row in known.to_dict("records")]
        axis.set_yticks(range(len(known)), [shown(name[:_CUT]) for name in names])
        axis.set_ylim(len(known) - 0.5, -0.5)
        axis.axvline(0, color="#4d5560", linewidth=0.8)
        axis.set_xlabel("points of success, B − A")
        axis.grid(axis="x", alpha=0.3)

    return svg_of("differences", 1, 1, draw, width=8.0, height=1.0 + 0.3 * len(known))

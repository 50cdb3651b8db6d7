"""The reliability diagrams, and error rates against shares handed over, with their captions and queries."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import planted
from analysis.calibration import binned, decisions, figures, measures
from analysis.calibration.sheets import SECTION, places
from analysis.figures import Drawing
from analysis.sheets import Place

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
        caption=f"{planted.told(own)}{_RELIABILITY}{figures.left_out(len(found))}",
        svg=figures.reliability(measures.reliability(own), found, name),
        query=decisions.query(root, *place),
        section=SECTION,
    )


def _handed(root: Path, place: Place, own: pd.DataFrame, number: int) -> Drawing:
    name, curves = f"handed-over-{number}", measures.curves(own)
    return Drawing(
        name=name,
        title=f"{place.title}: error rate against the share handed over (risk-coverage)",
        caption=f"{planted.told(own)}{_HANDED}{figures.undrawn(curves['planner'].nunique())}",
        svg=figures.handed_over(curves, measures.handing_over(own), name),
        query=decisions.query(root, *place),
        section=SECTION,
    )

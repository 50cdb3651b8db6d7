"""What a pilot cannot tell, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.power.latent import Floats
from analysis.power.pilot import Counts
from analysis.power.plans import Row

_FEW = 20
"""Clusters; with fewer, variances are known badly."""
_WIDE = 3.0
"""How many times its low end an interval's high end is where the number of cases is hardly known."""
_SHARING = 10
"""Clusters with two cases or more, from which it can be told how alike cases of a cluster are."""
_ALONE = 1.5
"""Cases a cluster, up to which it hardly matters."""


def doubts(pilot: Counts, rows: Sequence[Row], sizes: Floats, icc: float | None) -> list[str]:
    """A line for each.

    Args:
        pilot: its counts.
        rows: the designs that were found.
        sizes: how many cases the clusters have of the design that is recommended.
        icc: what was told of clusters, as in `fitted`.
    """
    found = []
    if pilot.clusters < _FEW:
        found.append(f"the pilot has only {pilot.clusters:,} clusters of cases: variances from so few are rough")
    sharing, each = int((pilot.sizes > 1).sum()), float((sizes**2).sum() / sizes.sum())
    if icc is None and sharing < _SHARING and each > _ALONE:
        found.append(
            f"in the design a case stands in a cluster of {each:.1f} cases on average, and in the pilot only "
            f"{sharing:,} clusters have two or more: {_taken(pilot, sharing)}; a larger pilot tells, or --icc says it"
        )
    wide = [row for row in rows if not row.high <= _WIDE * row.low and not math.isnan(row.low)]
    if wide:
        found.append(
            f"the pilot hardly tells how many cases are needed ({_trials(wide)}: see the intervals); a larger one does"
        )
    if pilot.trials < 2:
        found.append("no case has two trials of both planners: what more trials would gain cannot be told")
    return found


def _taken(pilot: Counts, sharing: int) -> str:
    if sharing or pilot.trials < 2:
        return "how alike cases of a cluster are is hardly known"
    return "all that cases differ by is taken to be their clusters', the worst there can be"


def _trials(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row.trials} trial{'s' * (row.trials > 1)}" for row in rows)

"""What is said of a paired difference beside its interval: p, Holm's correction and its size.

All are of the same error over clusters of cases as the interval (`analysis.intervals`).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy.special import stdtr

from analysis.intervals import effective_clusters, error_of

LEVEL, POWER = 0.05, 0.8
SIZE = (
    "h: Cohen's h, 2 arcsin √p − 2 arcsin √q of the two success rates on these cases (Cohen 1988: 0.2 small, 0.5 "
    "medium, 0.8 large)"
)
"""What a caption says of effect sizes."""


def p_value(differences: pd.Series[float], reach: float) -> float:
    """Two-sided p that cases' mean difference is 0: below 0.05 exactly where `intervals.interval` excludes 0.

    Args:
        differences: by case, over clusters; none below -reach or above it.
        reach: the largest difference that there can be.

    NaN without cases, and where they are of one cluster.
    """
    clusters = effective_clusters(differences) if len(differences) else None
    if clusters is None:
        return math.nan
    mean, error = abs(float(differences.mean())), error_of(differences)
    if error is not None:
        return _two_sided(mean / error.size, error.freedom)
    return _two_sided(math.sqrt(clusters * mean / reach), clusters - 1)


def _two_sided(statistic: float, freedom: float) -> float:
    return 2 * float(stdtr(freedom, -statistic))


def holm(p: pd.Series[float]) -> pd.Series[float]:
    """Values of p by Holm's correction (1979) over all that are known; NaN stays NaN.

    Not by `statsmodels`, which collects all garbage at every call: seconds where a process holds much.
    """
    known = p.dropna().astype(np.float64).sort_values()
    steps = known * np.arange(len(known), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p.index)


def cohens_h(own: float, theirs: float) -> float:
    """The effect size of two shares: the difference of their arcsine transforms, between -π and π (Cohen 1988, §6.2).

    It is of the two rates alone. So pairs and clusters change how exactly it is known, and not what it says.
    """
    own, theirs = (min(max(share, 0.0), 1.0) for share in (own, theirs))  # rounding aside they are
    return 2 * math.asin(math.sqrt(own)) - 2 * math.asin(math.sqrt(theirs))

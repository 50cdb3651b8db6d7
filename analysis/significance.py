"""What is said of a paired difference beside its interval: p, Holm's correction, its size, and cases that settle it.

All are of the same error over clusters of cases as the interval (`analysis.intervals`).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from analysis.intervals import effective_clusters, error_of

LEVEL, POWER = 0.05, 0.8
SIZE = (
    "h: Cohen's h, 2 arcsin √p − 2 arcsin √q of the two success rates on these cases (Cohen 1988: 0.2 small, 0.5 "
    "medium, 0.8 large)"
)
"""What a caption says of effect sizes."""
_ROUNDS = 100


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
    """Values of p by Holm's correction (1979) over all that are known; NaN stays NaN."""
    from statsmodels.stats.multitest import multipletests  # it takes a second to import

    known = p[p.notna()].astype(np.float64)
    corrected = multipletests(known, method="holm")[1] if len(known) else []
    return pd.Series(corrected, index=known.index, dtype=np.float64).reindex(p.index)


def cohens_h(own: float, theirs: float) -> float:
    """The effect size of two shares: the difference of their arcsine transforms, between -π and π (Cohen 1988, §6.2).

    It is of the two rates alone. So pairs and clusters change how exactly it is known, and not what it says.
    """
    own, theirs = (min(max(share, 0.0), 1.0) for share in (own, theirs))  # rounding aside they are
    return 2 * math.asin(math.sqrt(own)) - 2 * math.asin(math.sqrt(theirs))


def cases_needed(
    difference: float, error: float, freedom: float, cases: float, power: float = POWER, level: float = LEVEL
) -> float:
    """How many cases show a mean difference with some power, by a two-sided test over clusters of cases.

    Args:
        difference: what is to be shown, not 0.
        error: the standard error of the mean difference over `cases` cases.
        freedom: its degrees of freedom.
        cases: those of a pilot.
        power: the chance that the difference is shown if it is as large.
        level: of the test.

    More cases are taken to come in clusters like those of the pilot: the error falls with the root of their number, and
    the degrees of freedom grow with it. Student's t is taken for the test and for its power.
    """
    found = cases
    for _ in range(_ROUNDS):
        own = max(freedom * found / cases, 1.0)
        quantiles = float(stdtrit(own, 1 - level / 2) + stdtrit(own, power))
        last, found = found, cases * (quantiles * error / difference) ** 2
        if abs(found - last) < 0.5:  # of a case
            break
    return found


def cases_to_settle(differences: pd.Series[float]) -> float:
    """How many cases would show a mean difference like that of these cases; NaN where nothing can be said.

    That is so without an error (one cluster, or no variation), and where the difference is 0.
    """
    error = error_of(differences) if len(differences) else None
    mean = float(differences.mean()) if len(differences) else 0.0
    if error is None or mean == 0:
        return math.nan
    return cases_needed(mean, error.size, error.freedom, len(differences))

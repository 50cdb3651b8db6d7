"""95% intervals over clusters of cases: cases that share a template are no independent draws.

The standard error is CR2 (Bell and McCaffrey 2002), the quantile Student's t at their degrees of freedom, which are few
where clusters are few or unequal; for a mean both have the closed form below. Where each case is a cluster of its own,
it is Student's t interval over cases.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd
from scipy import stats

CLUSTER = "cluster"
"""The level of an index that holds each case's cluster."""
TOLD = "Student's t over clusters of cases (CR2), each case its mean over trials"
"""What a caption says of these intervals."""
_ROUNDING = 1e-12  # below it a deviation is no variation


class Interval(NamedTuple):
    """A mean and the bounds of its 95% interval."""

    mean: float
    low: float
    high: float


class Error(NamedTuple):
    """The standard error of a mean and its degrees of freedom."""

    size: float
    freedom: float


def interval(values: pd.Series[float]) -> Interval:
    """The mean of cases' values; without bounds (NaN) where they are of one cluster or do not vary."""
    mean, error = float(values.mean()), _error(values)
    if error is None:
        return Interval(mean, math.nan, math.nan)
    half = float(stats.t.ppf(0.975, error.freedom)) * error.size
    return Interval(mean, mean - half, mean + half)


def ratio(above: pd.Series[float], below: pd.Series[float]) -> Interval:
    """The ratio of two means over the same cases, with its interval (delta method on its logarithm).

    NaN where a mean is not positive; without bounds where the cases are of one cluster or do not vary.
    """
    top, bottom = float(above.mean()), float(below.mean())
    if not (top > 0 and bottom > 0):
        return Interval(math.nan, math.nan, math.nan)
    error = _error(above / top - below / bottom)
    if error is None:
        return Interval(top / bottom, math.nan, math.nan)
    half = float(stats.t.ppf(0.975, error.freedom)) * error.size
    return Interval(top / bottom, top / bottom * math.exp(-half), top / bottom * math.exp(half))


def count(values: pd.Series[float] | pd.DataFrame) -> int:
    """How many clusters the cases are of."""
    return int(values.index.get_level_values(CLUSTER).nunique())


def _error(values: pd.Series[float]) -> Error | None:
    """None where there is no error to be told: fewer than two clusters, or no variation between them."""
    deviations = (values - values.mean()).groupby(level=CLUSTER, observed=True)
    sums, shares = deviations.sum(), deviations.size() / len(values)
    if len(sums) < 2:
        return None
    weights = 1 / (1 - shares)
    size = math.sqrt(float((sums**2 * weights).sum())) / len(values)
    if size < _ROUNDING:
        return None
    across = shares**2 * weights
    freedom = 1 / float((shares**2).sum() + across.sum() ** 2 - (across**2).sum())
    return Error(size, freedom)

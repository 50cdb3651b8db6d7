"""95% intervals over clusters of cases, because cases that share a template are not independent draws.

The standard error is CR2 (Bell and McCaffrey 2002). The quantile is Student's t at Bell and McCaffrey's degrees of
freedom, which are few if clusters are few or unequal. For a mean, the error and the degrees of freedom have the closed
form below. Differences have Student's t interval; if each case is its own cluster, this is Student's interval over
cases. Shares have Wilson's interval with the number of cases that corresponds to this error (Franco et al. 2019),
because near 0 and 1 Student's interval contains the truth in as little as 30% of samples.

The rates pass^k and pass@k are about rare events among a case's trials. For these rates, the number of cases in
Wilson's interval is at most the real number of cases if fewer than `FEW` cases had the event, or fewer than `FEW`
lacked it, because so few cases say little about how the rates vary. Without this bound, intervals of pass^k contained
the truth in as little as 78% of 4,000 simulated studies (20 clusters of 4 cases, pass^4 of 8 trials, truth 1.6%). With
this bound, these intervals contained the truth in at least 91% of the studies of each of 236 kinds (8 to 100 clusters,
1 to 8 trials, k to 8, rates of 1 to 99%), and in 96% on average. Intervals of success itself, over the trials of a
case, contain the truth in 91% of the studies at rates of 5 and 95% (40 clusters, 3 trials), and in 94 to 98% at rates
from 20 to 80%.

Amounts that cannot be negative (tokens, seconds, calls, costs) have Student's t interval of the logarithm of their mean
(delta method): no bound is below 0, and for skewed amounts over few clusters the interval contains the truth more
often. For Poisson counts with a mean of 3 in 8 clusters, it contains the truth in 94% of samples; Student's interval of
the mean itself, cut at 0, contains it in 89%.

If no case differs from another, no error can be estimated, but the result is still uncertain. If n clusters all agree,
a share of up to t² / (n + t²) of all possible clusters may disagree (Wilson's bound for 0 out of n; about 3.8 / n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtr, stdtrit

LEVEL, POWER = 0.05, 0.8
# Further figures for a paired difference: its p value, Holm's correction and the effect size.
#
# The p value is based on the same standard error over clusters of cases as the interval (`interval`).


SIZE = (
    "h: Cohen's h, 2 arcsin √p − 2 arcsin √q for the two success rates p and q on these cases (Cohen 1988: 0.2 is "
    "small, 0.5 medium, 0.8 large)"
)
"""The caption about effect sizes."""


def p_value(differences: Values, reach: float) -> float:
    """The two-sided p value for a mean difference of 0; it is below 0.05 exactly if `intervals.interval` excludes 0.

    Args:
        differences: one per case, with clusters; all are between -reach and reach.
        reach: the largest possible difference.

    The result is NaN if there are no cases, or if all cases are in one cluster.
    """
    known = sample(differences)
    if not len(known.values):
        return math.nan
    mean, clusters, error = _over_clusters(known)
    if clusters is None:
        return math.nan
    if error is not None:
        return _two_sided(abs(mean) / error.size, error.freedom)
    return _two_sided(math.sqrt(clusters * abs(mean) / reach), clusters - 1)


def _two_sided(statistic: float, freedom: float) -> float:
    return 2 * float(stdtr(freedom, -statistic))


def holm(p: pd.Series[float]) -> pd.Series[float]:
    """The p values by Holm's correction (1979) over all known values; NaN stays NaN.

    `statsmodels` is not used, because each call of it starts a full garbage collection, which takes seconds in a large
    process.
    """
    known = p.dropna().astype(np.float64).sort_values()
    steps = known * np.arange(len(known), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p.index)


def cohens_h(own: float, theirs: float) -> float:
    """The effect size of two shares: difference of their arcsine transforms, between -π and π (Cohen 1988, §6.2).

    The effect size depends only on the two shares. So pairing and clusters change its precision, but not its value.
    """
    own, theirs = (min(max(share, 0.0), 1.0) for share in (own, theirs))  # rounding may exceed the range
    return 2 * math.asin(math.sqrt(own)) - 2 * math.asin(math.sqrt(theirs))


# 95% intervals over clusters of cases, because cases that share a template are not independent draws.


CLUSTER = "cluster"
"""The name of the index level with each case's cluster."""
TOLD = "Student's t over clusters of cases (CR2), each case averaged over its trials"
"""The caption about the intervals of differences."""
AMOUNTS = (
    "Student's t over clusters of cases (CR2) on the logarithm of the mean (no bound is below 0), each case averaged "
    "over its trials"
)
"""The caption about the intervals of amounts."""
SHARES = (
    "Wilson's score interval over clusters of cases (with the effective number of cases from CR2), each case averaged "
    "over its trials"
)
"""The caption about the intervals of shares."""
BRIEFLY = "over clusters of cases"
"""A terminal's caption about intervals."""
ALIKE = (
    "if the difference is the same in all cases, its interval comes from Wilson's bound for 0 out of n, where n is the "
    "number of clusters"
)
"""The caption about the intervals of differences that do not vary."""
MOST_TIMES = 1000.0
"""If an amount's upper bound is more than this many times the mean, no interval is given, as it would say nothing."""
FEW = 8
"""If fewer cases than this have or lack an event, a rare rate's error is at least its error with one trial per case."""
ROUNDING = 1e-12
"""A deviation below this value counts as no variation."""


class Interval(NamedTuple):
    """A mean and the bounds of its 95% interval."""

    mean: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """The interval as columns of a frame: NAME, NAME_low and NAME_high."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


class Error(NamedTuple):
    """The standard error of a mean and its degrees of freedom."""

    size: float
    freedom: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


class Sample(NamedTuple):
    """The values of cases, and for each case the number of its cluster, from 0."""

    values: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.intp]

    @property
    def known(self) -> Sample:
        """The sample without the cases whose value is NaN."""
        there = ~np.isnan(self.values)
        return self if there.all() else Sample(self.values[there], pd.factorize(self.clusters[there])[0])


Values: TypeAlias = "pd.Series[float] | Sample"
"""The values of cases; a series has the cases' clusters in its index."""


def sample(values: Values) -> Sample:
    """The values of a series with their clusters."""
    return values if isinstance(values, Sample) else Sample(np.asarray(values, np.float64), _clusters(values))


class Group(NamedTuple):
    """A group of cells, summarised by case: for each column, the means over trials for the cases that have a value."""

    key: tuple[Any, ...]
    cells: int
    cases: int
    clusters: int
    samples: dict[str, Sample]


def by_case(cells: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> list[Group]:
    """The groups of cells in order of appearance; a case's value is the mean over its trials that have a value.

    All cells are added up at once, because a data frame for each group would take many times as long. The rows of
    `cells` may also be means of cases; then the column `cells` has the number of cells of each mean. Cells with an
    unknown label are left out.
    """
    if cells.empty:
        return []
    case = cells.groupby([*by, CLUSTER, "case_id"], sort=False, observed=True).ngroup().to_numpy()
    if (case < 0).any():  # cells with unknown labels
        return by_case(cells[case >= 0], by, columns)
    first = np.flatnonzero(~pd.Series(case).duplicated())
    clusters = pd.factorize(cells[CLUSTER].iloc[first])[0]
    group = cells.groupby([*by], sort=False, observed=True).ngroup().to_numpy()
    owner, sizes = group[first], np.bincount(group, cells.get("cells"))
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner))
    places = np.split(order, ends[:-1])
    numbers = [pd.factorize(clusters[place])[0] for place in places]
    found: list[dict[str, Sample]] = [{} for _ in places]
    for name in columns:
        values = cells[name].to_numpy(np.float64, na_value=np.nan)
        there = ~np.isnan(values)
        with np.errstate(invalid="ignore"):  # 0 / 0 for cases without a known value
            means = np.bincount(case, np.where(there, values, 0.0)) / np.bincount(case, there)
        for own, place, number in zip(found, places, numbers, strict=True):
            own[name] = Sample(means[place], number).known
    keys = cells[[*by]].iloc[[first[place[0]] for place in places]].itertuples(index=False, name=None)
    return [
        Group(key, int(size), len(place), int(number.max()) + 1, own)
        for key, size, place, number, own in zip(keys, sizes, places, numbers, found, strict=True)
    ]


def share(values: Values, most: float = 1.0, degrees: float | None = None, rare: bool = False) -> Interval:
    """The mean of cases' values, which are between 0 and `most`, with bounds that are also in this range.

    By default, the `degrees` of freedom follow from the clusters' sizes. The bounds are NaN if the cases are in one
    cluster. If the values do not vary, the number of cases is the effective number of clusters. Set `rare` for the rate
    of an event over several trials of each case (pass^k), if only few cases may have this event. The result is UNKNOWN
    if no value is known.
    """
    known = sample(values)
    if not len(known.values):
        return UNKNOWN
    mean, clusters, error = _over_clusters(known, most)
    if clusters is None:
        return Interval(mean, math.nan, math.nan)
    part = min(max(mean / most, 0.0), 1.0)  # rounding may exceed the range
    spread = part * (1 - part)
    size, freedom = (spread / error.size**2, error.freedom) if error else (clusters, clusters - 1)
    if rare and min((known.values > 0).sum(), (known.values < most).sum()) < FEW:
        size = min(size, len(known.values))
    square = float(stdtrit(degrees or freedom, 0.975)) ** 2 / size
    centre, half = part + square / 2, math.sqrt(spread * square + square**2 / 4)
    low, high = ((centre + side * half) / (1 + square) for side in (-1, 1))
    return Interval(mean, most * max(min(low, part), 0.0), most * min(max(high, part), 1.0))


def interval(values: Values, reach: float | None = None) -> Interval:
    """The mean of cases' differences and its bounds.

    Give `reach` if no difference can be below -reach or above reach.

    The bounds are NaN if the cases are in one cluster. They are also NaN if the differences do not vary and no `reach`
    is given. The result is UNKNOWN if no value is known.
    """
    known = sample(values)
    if not len(known.values):
        return UNKNOWN
    mean, clusters, error = _over_clusters(known)
    if error is not None:
        half, most = float(stdtrit(error.freedom, 0.975)) * error.size, math.inf if reach is None else reach
        return Interval(mean, max(mean - half, -most), min(mean + half, most))
    if clusters is None or reach is None:
        return Interval(mean, math.nan, math.nan)
    square = float(stdtrit(clusters - 1, 0.975)) ** 2
    unseen = square / (clusters + square)
    return Interval(mean, mean - unseen * (reach + mean), mean + unseen * (reach - mean))


def amount(values: Values) -> Interval:
    """The mean of cases' amounts, and bounds above 0, which are computed on the log scale; no amount can be negative.

    The bounds are NaN if the cases are in one cluster or do not vary, or if the upper bound would be too large
    (`MOST_TIMES`). If an amount is negative after all (a cost of a user's own tools), `interval` is used instead. The
    result is UNKNOWN if no value is known.
    """
    known = sample(values)
    if not len(known.values):
        return UNKNOWN
    if (known.values < 0).any():
        return interval(known)
    mean = float(known.values.mean())
    if mean <= 0:  # all amounts are 0, so no bounds can be estimated
        return Interval(0.0, math.nan, math.nan)
    return _bounded(mean, known._replace(values=known.values / mean - 1.0))


def ratio(above: pd.Series[float], below: pd.Series[float]) -> Interval:
    """The ratio of two means over the same cases, with its interval (delta method on its logarithm).

    The result is NaN if a mean is not positive. The bounds are NaN if the cases are in one cluster or do not vary, or
    if the upper bound would be more than `MOST_TIMES` times the ratio.
    """
    top, bottom = float(above.mean()), float(below.mean())
    if not (top > 0 and bottom > 0):
        return UNKNOWN
    return _bounded(top / bottom, above / top - below / bottom)


def _bounded(ratio: float, deviations: Values) -> Interval:
    """A ratio or an amount with its interval; the cases' deviations are given relative to its size."""
    error = error_of(deviations)
    if error is None:
        return Interval(ratio, math.nan, math.nan)
    half = float(stdtrit(error.freedom, 0.975)) * error.size
    if half > math.log(MOST_TIMES):
        return Interval(ratio, math.nan, math.nan)
    return Interval(ratio, ratio * math.exp(-half), ratio * math.exp(half))


def n_clusters(values: pd.Series[float] | pd.DataFrame) -> int:
    """The number of clusters of the cases."""
    return int(values.index.get_level_values(CLUSTER).nunique())


def freedom(shares: npt.NDArray[np.float64]) -> float:
    """Bell and McCaffrey's degrees of freedom of a mean over clusters, from each cluster's share of the cases.

    The degrees of freedom depend only on the clusters' sizes, so they are known before anything is run. At least two
    clusters are needed.
    """
    across = shares**2 / (1 - shares)
    return 1 / float((shares**2).sum() + across.sum() ** 2 - (across**2).sum())


def error_of(values: Values) -> Error | None:
    """The CR2 error of cases' mean; None if there are fewer than two clusters, or no variation between them."""
    known = sample(values)
    return _over_clusters(known)[2] if len(known.values) else None


def _over_clusters(cases: Sample, most: float = 1.0) -> tuple[float, float | None, Error | None]:
    """The mean, the effective number of clusters (Kish 1965), and the mean's standard error in units of `most`.

    The effective number is None if there is only one cluster. The error is None if there is only one cluster or the
    values do not vary.
    """
    known, clusters = cases
    mean, shares = float(known.mean()), np.bincount(clusters) / len(known)
    if len(shares) < 2:
        return mean, None, None
    parts = known / most
    sums = np.bincount(clusters, parts - parts.mean())
    size = math.sqrt(float((sums**2 * (1 / (1 - shares))).sum())) / len(known)
    return mean, 1 / float((shares**2).sum()), None if size < ROUNDING else Error(size, freedom(shares))


def _clusters(values: pd.Series[float]) -> npt.NDArray[np.intp]:
    """The number of each case's cluster; if the index has codes, they are used without making labels from them."""
    index = values.index
    if isinstance(index, pd.MultiIndex):
        return pd.factorize(index.codes[index.names.index(CLUSTER)])[0]
    return pd.factorize(index.codes if isinstance(index, pd.CategoricalIndex) else index)[0]

"""95% intervals over clusters of cases: cases that share a template are not independent draws.

The standard error is CR2 (Bell and McCaffrey 2002), the quantile Student's t at their degrees of freedom, which are few
if clusters are few or unequal; for a mean both have the closed form below. Differences have Student's t interval; if
each case is a cluster of its own, it is Student's over cases. Shares have Wilson's interval with the number of cases
that corresponds to this error (Franco et al. 2019): near 0 and 1 Student's covers as little as 30%. For rates of rare
events among a case's trials, pass^k and pass@k, that number is at most the number of cases if fewer than `FEW` cases
had any such event, or any other: so few cases say little about how the rates vary. Without this bound, intervals of
pass^k contained the truth in as little as 78% of 4,000 drawn studies (20 clusters of 4 cases, pass^4 of 8 trials, truth
1.6%); with it, in 91% or more for each of 236 kinds of studies (8 to 100 clusters, 1 to 8 trials, k to 8, rates of 1 to
99%), and in 96% on average. Success itself, over the trials of a case, is covered in 91% at rates of 5 and 95% (40
clusters, 3 trials), and in 94 to 98% at rates from 20 to 80%.

Amounts that cannot be negative (tokens, seconds, calls, costs) have Student's t interval of the logarithm of their mean
(delta method): no bound is below 0, and skewed amounts over few clusters are covered better. For Poisson counts with a
mean of 3 in 8 clusters it contains the truth in 94% of samples, while Student's of the mean itself, cut at 0, does in
89%.

If no case differs from another, there is no error to be estimated, and yet no certainty: with n clusters that all
agree, a share of up to t² / (n + t²) of all clusters may disagree (Wilson's bound of 0 out of n; near 3.8 / n).
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
# Figures of a paired difference besides its interval: p, Holm's correction and its size.
#
# All rest on the same error over clusters of cases as the interval (`interval`).


SIZE = (
    "h: Cohen's h, 2 arcsin √p − 2 arcsin √q of the two success rates on these cases (Cohen 1988: 0.2 small, 0.5 "
    "medium, 0.8 large)"
)
"""The caption about effect sizes."""


def p_value(differences: Values, reach: float) -> float:
    """Two-sided p that cases' mean difference is 0: below 0.05 exactly if `intervals.interval` excludes 0.

    Args:
        differences: one per case, with clusters; none is below -reach or above reach.
        reach: the largest difference that there can be.

    NaN without cases, and if all cases are of one cluster.
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
    """Values of p by Holm's correction (1979) over all known ones; NaN stays NaN.

    `statsmodels` is not used, because it collects all garbage at every call: this takes seconds if a process holds
    much.
    """
    known = p.dropna().astype(np.float64).sort_values()
    steps = known * np.arange(len(known), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p.index)


def cohens_h(own: float, theirs: float) -> float:
    """The effect size of two shares: the difference of their arcsine transforms, between -π and π (Cohen 1988, §6.2).

    It depends on the two rates alone. So pairs and clusters change how exactly it is known, but not its value.
    """
    own, theirs = (min(max(share, 0.0), 1.0) for share in (own, theirs))  # they are, except for rounding
    return 2 * math.asin(math.sqrt(own)) - 2 * math.asin(math.sqrt(theirs))


# 95% intervals over clusters of cases: cases that share a template are not independent draws.


CLUSTER = "cluster"
"""The level of an index that holds each case's cluster."""
TOLD = "Student's t over clusters of cases (CR2), each case its mean over trials"
"""The caption about the intervals of differences."""
AMOUNTS = (
    "Student's t over clusters of cases (CR2) on the logarithm of the mean, so that no bound is below 0, each case its "
    "mean over trials"
)
"""The caption about the intervals of amounts."""
SHARES = "Wilson's over clusters of cases (their effective number by CR2), each case its mean over trials"
"""The caption about the intervals of shares."""
BRIEFLY = "over clusters of cases"
"""A terminal's caption about intervals."""
ALIKE = "where no case differs from another, what Wilson's bound of 0 out of so many clusters leaves possible"
"""The caption about the intervals of differences that do not vary."""
MOST_TIMES = 1000.0
"""If an amount's upper bound is more than so many times the mean, it says nothing, and there is no interval."""
FEW = 8
"""If fewer cases have an event, or are without one, a rare rate's error is at least that of one trial per case."""
ROUNDING = 1e-12
"""A deviation below it counts as no variation."""


class Interval(NamedTuple):
    """A mean and the bounds of its 95% interval."""

    mean: float
    low: float
    high: float

    def named(self, name: str) -> dict[str, float]:
        """As columns of a frame: NAME, NAME_low and NAME_high."""
        return {name: self.mean, f"{name}_low": self.low, f"{name}_high": self.high}


class Error(NamedTuple):
    """The standard error of a mean and its degrees of freedom."""

    size: float
    freedom: float


UNKNOWN = Interval(math.nan, math.nan, math.nan)


class Sample(NamedTuple):
    """The values of cases, and the number of each one's cluster, from 0."""

    values: npt.NDArray[np.float64]
    clusters: npt.NDArray[np.intp]

    @property
    def known(self) -> Sample:
        """The sample without the cases whose value is NaN."""
        there = ~np.isnan(self.values)
        return self if there.all() else Sample(self.values[there], pd.factorize(self.clusters[there])[0])


Values: TypeAlias = "pd.Series[float] | Sample"
"""Cases' values; a series has their clusters in its index."""


def sample(values: Values) -> Sample:
    """A series' values with their clusters."""
    return values if isinstance(values, Sample) else Sample(np.asarray(values, np.float64), _clusters(values))


class Group(NamedTuple):
    """A group of cells by case: for each column the cases' means over trials, for those cases that have one."""

    key: tuple[Any, ...]
    cells: int
    cases: int
    clusters: int
    samples: dict[str, Sample]


def by_case(cells: pd.DataFrame, by: Sequence[str], columns: Sequence[str]) -> list[Group]:
    """The groups of cells in their order of appearance; each case's value is its mean over the trials that have one.

    All cells are added up at once: to make a data frame of each group takes many times as long. Rows may also be cases'
    means, each over as many cells as its column `cells` says.
    """
    if cells.empty:
        return []
    case = cells.groupby([*by, CLUSTER, "case_id"], sort=False, observed=True).ngroup().to_numpy()
    if (case < 0).any():  # labels that are not known
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
        with np.errstate(invalid="ignore"):  # for cases about which nothing is known
            means = np.bincount(case, np.where(there, values, 0.0)) / np.bincount(case, there)
        for own, place, number in zip(found, places, numbers, strict=True):
            own[name] = Sample(means[place], number).known
    keys = cells[[*by]].iloc[[first[place[0]] for place in places]].itertuples(index=False, name=None)
    return [
        Group(key, int(size), len(place), int(number.max()) + 1, own)
        for key, size, place, number, own in zip(keys, sizes, places, numbers, found, strict=True)
    ]


def share(values: Values, most: float = 1.0, degrees: float | None = None, rare: bool = False) -> Interval:
    """The mean of cases' values between 0 and `most`, with bounds that are also in this range.

    `degrees` of freedom are those of the clusters' sizes, unless others are given. Without bounds (NaN) if the cases
    are of one cluster. If the values do not vary, each cluster counts as one. `rare`: for rates of events that few
    cases may have, over several trials each (pass^k).
    """
    known = sample(values)
    if not len(known.values):
        return UNKNOWN
    mean, clusters, error = _over_clusters(known, most)
    if clusters is None:
        return Interval(mean, math.nan, math.nan)
    part = min(max(mean / most, 0.0), 1.0)  # it is, except for rounding
    spread = part * (1 - part)
    size, freedom = (spread / error.size**2, error.freedom) if error else (clusters, clusters - 1)
    if rare and min((known.values > 0).sum(), (known.values < most).sum()) < FEW:
        size = min(size, len(known.values))
    square = float(stdtrit(degrees or freedom, 0.975)) ** 2 / size
    centre, half = part + square / 2, math.sqrt(spread * square + square**2 / 4)
    low, high = ((centre + side * half) / (1 + square) for side in (-1, 1))
    return Interval(mean, most * max(min(low, part), 0.0), most * min(max(high, part), 1.0))


def interval(values: Values, reach: float | None = None) -> Interval:
    """The mean of cases' differences and its bounds; `reach` is given if none can be below -reach or above reach.

    Without bounds (NaN) if the cases are of one cluster and, without a `reach`, if they do not vary.
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
    """The mean of cases' amounts, none of which can be negative, and bounds that are above 0, on the log scale.

    Without bounds (NaN) if the cases are of one cluster or do not vary, and if there are too few clusters for bounds
    (`MOST_TIMES`). If some amounts are negative after all (costs of a user's own tools), the bounds are those of
    `interval`.
    """
    known = sample(values)
    if not len(known.values):
        return UNKNOWN
    if (known.values < 0).any():
        return interval(known)
    mean = float(known.values.mean())
    if mean <= 0:  # nothing says what else it could be
        return Interval(0.0, math.nan, math.nan)
    return _bounded(mean, known._replace(values=known.values / mean - 1.0))


def ratio(above: pd.Series[float], below: pd.Series[float]) -> Interval:
    """The ratio of two means over the same cases, with its interval (delta method on its logarithm).

    NaN if a mean is not positive; without bounds if the cases are of one cluster or do not vary, and if the upper bound
    would be more than `MOST_TIMES` the ratio.
    """
    top, bottom = float(above.mean()), float(below.mean())
    if not (top > 0 and bottom > 0):
        return UNKNOWN
    return _bounded(top / bottom, above / top - below / bottom)


def _bounded(ratio: float, deviations: Values) -> Interval:
    """A ratio or an amount with its interval, from the cases' deviations, which are given as parts of it."""
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

    They depend on the clusters' sizes alone, so they are known before anything is run. Needs two clusters.
    """
    across = shares**2 / (1 - shares)
    return 1 / float((shares**2).sum() + across.sum() ** 2 - (across**2).sum())


def error_of(values: Values) -> Error | None:
    """The CR2 error of cases' mean; None if there are fewer than two clusters, or no variation between them."""
    known = sample(values)
    return _over_clusters(known)[2] if len(known.values) else None


def _over_clusters(cases: Sample, most: float = 1.0) -> tuple[float, float | None, Error | None]:
    """The mean, the number of equal clusters that count as much (Kish 1965), and the error of the mean / `most`.

    The number is None for a single cluster; the error is None then, and also if the values do not vary.
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
    """The number of each case's cluster; if the index has codes, from these, without making them into labels."""
    index = values.index
    if isinstance(index, pd.MultiIndex):
        return pd.factorize(index.codes[index.names.index(CLUSTER)])[0]
    return pd.factorize(index.codes if isinstance(index, pd.CategoricalIndex) else index)[0]

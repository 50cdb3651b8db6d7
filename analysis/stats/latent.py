"""A model of two planners' successes over clusters, cases and trials, and the variances that follow from this model.

A cell succeeds if a normally distributed number is below a threshold, which the rate of the cell's planner sets. That
number is the sum of an effect of the cluster, an effect of the case and the trial's luck. The effects of the two
planners are correlated, because both planners find the same cases difficult (a probit-normal model). Every covariance
of two cells is then a bivariate normal integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from analysis.errors import AnalysisError
from analysis.stats.intervals import CLUSTER, freedom

Floats = npt.NDArray[np.float64]
Rates = tuple[float, float]
"""The success rates of the reference and of the other planner, between 0 and 1."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_LOGISTIC = math.pi**2 / 3
"""The variance of a trial's luck on the logit scale."""
EDGE = 1e-9
"""Minimum distance of rates from 0 and 1, because at 0 and 1 there is no threshold."""


class Latent(NamedTuple):
    """Correlations, each between -1 and 1, between the normal numbers of two cells.

    `own_case`: one planner in two trials of a case; `own_cluster`: one planner in two cases of a cluster; `other_case`
    and `other_cluster`: the same, but for cells of two different planners.
    """

    own_case: float
    own_cluster: float
    other_case: float
    other_cluster: float


class Components(NamedTuple):
    """Variances of the difference in success between two planners, in squared shares.

    `clusters`: the variance of the clusters' true differences. `cases`: the variance of the cases' true differences
    around their clusters' true differences. `trial`: the variance that the luck of one trial of each planner adds.
    """

    clusters: float
    cases: float
    trial: float


def planted(case_sd: float, difference_sd: float, icc: float) -> Latent:
    """The model to use if there is no pilot.

    Args:
        case_sd: standard deviation of the cases' difficulty that both planners share, in logits.
        difference_sd: standard deviation of the planners' difference from case to case, in logits.
        icc: the share of both variances that is between clusters.
    """
    shared, own = case_sd**2, case_sd**2 + difference_sd**2 / 2
    total = own + _LOGISTIC
    return Latent(own / total, icc * own / total, shared / total, icc * shared / total)


def covariance(first: float, second: float, correlation: float) -> float:
    """The covariance of two binary outcomes with these rates and this correlation of normal numbers (Plackett 1954)."""
    h, k = (float(ndtri(min(max(rate, EDGE), 1 - EDGE))) for rate in (first, second))
    end = math.asin(correlation)
    sine = np.sin(end / 2 * (_NODES + 1))
    values = np.exp(-(h * h + k * k - 2 * h * k * sine) / (2 * (1 - sine**2)))
    return float(end / 2 * (_WEIGHTS @ values) / (2 * math.pi))


def components(latent: Latent, rates: Rates) -> Components:
    """The variances of the difference between planners with these rates."""

    def of(own: float, other: float) -> float:
        first, second = rates
        return covariance(first, first, own) + covariance(second, second, own) - 2 * covariance(first, second, other)

    clusters = max(of(latent.own_cluster, latent.other_cluster), 0.0)
    cases = max(of(latent.own_case, latent.other_case) - clusters, 0.0)
    luck = sum(rate * (1 - rate) - covariance(rate, rate, latent.own_case) for rate in rates)
    return Components(clusters, cases, max(luck, 0.0))


# The power of a design by formula.
#
# The test is the same as in the report: the mean of the cases' differences over its CR2 error is compared with
# Student's t at Bell and McCaffrey's degrees of freedom (`intervals`), which the planned clusters' sizes determine. If
# there is a difference, and cases' sums are normal, the ratio has a noncentral t distribution. If successes are rare or
# common, the sums are not normal, and the error is small in studies whose mean is small. This effect, in probits, is
# the difference between the normal approximations with and without the third and fourth moments.


_TINY = 1e-12
_LEAST = 0.05  # minimum variance, for cases in which the expansion fails


@dataclass(frozen=True)
class Claim:
    """A number of cases, the number of their clusters, and the power of such a design by the formula, as a share."""

    cases: int
    clusters: int
    power: float


class Design:
    """Two planners that run the same cases with the same number of trials; only the number of cases is open.

    Args:
        latent: the correlations between cells.
        rates: the success of the reference and of the other planner, as shares.
        trials: the trials of each case and planner.
        alpha: the level of the two-sided test.
        order: the cluster of each available case, as whole numbers from 0, in the order in which cases are added.
    """

    def __init__(self, latent: Latent, rates: Rates, trials: int, alpha: float, order: npt.NDArray[np.int64]) -> None:
        self.latent, self.rates, self.trials, self.alpha, self.order = latent, rates, trials, alpha, order
        self.parts: Components = components(latent, rates)
        self.shift = 0.0
        """The correction that simulation adds to the formula's power, in probits."""
        self._moments = Moments(latent, rates, trials)

    def sizes(self, cases: int) -> Floats:
        """How many of the first `cases` cases are in each cluster; clusters without any of these cases are left out."""
        counts = np.bincount(self.order[:cases])
        return counts[counts > 0].astype(np.float64)

    def error(self, sizes: Floats) -> float:
        """The standard error of the mean difference over clusters of these sizes, as a share."""
        return math.sqrt(float(self._variances(sizes).sum())) / float(sizes.sum())

    def _variances(self, sizes: Floats) -> Floats:
        """The variance of each cluster's sum of differences."""
        return self.parts.clusters * sizes**2 + (self.parts.cases + self.parts.trial / self.trials) * sizes

    def skewness(self, cases: int) -> float:
        """The skewness of the mean difference over the first `cases` cases."""
        return self._moments.of(self.sizes(cases))[0]

    def claim(self, cases: int) -> Claim:
        """The power with the first `cases` cases: 0 if all are in one cluster, else 1 if the mean has no variance."""
        sizes = self.sizes(cases)
        if len(sizes) < 2:
            return Claim(cases, len(sizes), 0.0)
        difference = self.rates[1] - self.rates[0]
        error = self.error(sizes)
        if error < _TINY:
            return Claim(cases, len(sizes), 1.0)
        skewness, kurtosis = self._moments.of(sizes)
        found = freedom(sizes / sizes.sum())
        quantile = float(stdtrit(found, 1 - self.alpha / 2))
        sides = ((difference / error, skewness), (-difference / error, -skewness))
        power = sum(_beyond(found, quantile, *side, kurtosis) for side in sides)
        return Claim(cases, len(sizes), float(ndtr(probit(power) + self.shift)))


def probit(share: float) -> float:
    """The normal quantile of a share; a share at 0 or 1 is first moved slightly inwards."""
    return float(ndtri(np.clip(share, _TINY, 1 - _TINY)))


def _beyond(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The chance that the test's ratio exceeds the quantile; the numerator's mean is `shift` standard errors."""
    normal = probit(1 - float(nctdtr(degrees, shift, quantile)))
    added = _expanded(degrees, quantile, shift, skewness, kurtosis) - _expanded(degrees, quantile, shift, 0.0, 0.0)
    return float(ndtr(normal + added))


def _expanded(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The mean of the difference "numerator − quantile · error", in standard deviations of this difference.

    The relative variance of the squared error is 2 / degrees plus the excess kurtosis. The covariance of the squared
    error with the mean is the skewness.
    """
    spread = 2 / degrees + kurtosis
    variance = 1 + quantile**2 * spread / 4 - quantile * skewness
    return (shift - quantile * (1 - spread / 8)) / math.sqrt(max(variance, _LEAST))


# The third and fourth moments of a mean difference, because with rare successes the test's error depends on the mean.


_CLAIMS_NODES, _CLAIMS_WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_PLANE = np.stack(np.meshgrid(_CLAIMS_NODES, _CLAIMS_NODES, indexing="ij")).reshape(2, -1)
_MASS = np.outer(_CLAIMS_WEIGHTS, _CLAIMS_WEIGHTS).ravel() / _CLAIMS_WEIGHTS.sum() ** 2


class Moments:
    """Cumulants of a case's difference given the effects of its cluster (quadrature).

    The difference is a mean over `trials` trials.
    """

    def __init__(self, latent: Latent, rates: Rates, trials: int) -> None:
        clusters, self._mass = _effects(latent.own_cluster, latent.other_cluster)
        cases, mass = _effects(latent.own_case - latent.own_cluster, latent.other_case - latent.other_cluster)
        start = ndtri(np.clip(rates, EDGE, 1 - EDGE))[:, None, None]
        scale = math.sqrt(max(1 - latent.own_case, EDGE))
        theirs, own = ndtr((start + clusters[:, :, None] + cases[:, None, :]) / scale)
        luck, other = own * (1 - own), theirs * (1 - theirs)
        first = own - theirs
        second = (luck + other) / trials
        third = (luck * (1 - 2 * own) - other * (1 - 2 * theirs)) / trials**2
        fourth = (luck * (1 - 6 * luck) + other * (1 - 6 * other)) / trials**3
        raw = (moment @ mass for moment in _raw(first, second, third, fourth))
        self._cumulants = _cumulants(*raw)

    def of(self, sizes: Floats) -> tuple[float, float]:
        """Skewness and excess kurtosis of the mean difference over clusters of these sizes."""
        size, count = np.unique(sizes, return_counts=True)
        first, second, third, fourth = (size[:, None] * cumulant for cumulant in self._cumulants)
        centred = first - size[:, None] * float(self._cumulants[0] @ self._mass)
        _, square, cube, power = (moment @ self._mass for moment in _raw(centred, second, third, fourth))
        variance = float(count @ square)
        if variance <= 0:
            return 0.0, 0.0
        return float(count @ cube) / variance**1.5, float(count @ (power - 3 * square**2)) / variance**2


def _effects(own: float, other: float) -> tuple[Floats, Floats]:
    """Nodes of both planners' effects (2, nodes), and their weights; `own` is the variance, `other` the covariance."""
    if own <= 0:
        return np.zeros((2, 1)), np.ones(1)
    shared = other / own
    rest = math.sqrt(max(1 - shared**2, 0.0))
    return math.sqrt(own) * np.stack([_PLANE[0], shared * _PLANE[0] + rest * _PLANE[1]]), _MASS


def _raw(first: Floats, second: Floats, third: Floats, fourth: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Moments about 0, from cumulants."""
    return (
        first,
        second + first**2,
        third + 3 * second * first + first**3,
        fourth + 4 * third * first + 3 * second**2 + 6 * second * first**2 + first**4,
    )


def _cumulants(first: Floats, second: Floats, third: Floats, fourth: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Cumulants, from moments about 0."""
    return (
        first,
        second - first**2,
        third - 3 * first * second + 2 * first**3,
        fourth - 4 * first * third - 3 * second**2 + 12 * first**2 * second - 6 * first**4,
    )


# Estimates from a pilot for two planners on the same cases: their rates, and the correlations between cells.
#
# Products of two cells' outcomes, averaged over all pairs of a kind (one case, one cluster, two clusters), estimate the
# covariances without bias whatever the clusters' sizes; the model's correlations are chosen to give the same
# covariances.


_MOST = 1 - 1e-6  # maximum correlation, because 1 leaves no luck to a trial


@dataclass(frozen=True)
class Counts:
    """Cases that both planners ran, one row each.

    `cluster`: a whole number from 0. `won` and `tried`: (cases, 2), the successes and the trials with known success, of
    the reference and of the other planner.
    """

    cluster: npt.NDArray[np.int64]
    won: Floats
    tried: Floats

    @property
    def clusters(self) -> int:
        """The number of clusters of the cases."""
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of cases of each cluster."""
        return np.bincount(self.cluster)

    @property
    def rates(self) -> Rates:
        """Each planner's success: the mean over cases of each case's mean over trials."""
        first, second = (self.won / self.tried).mean(axis=0)
        return float(first), float(second)

    @property
    def trials(self) -> int:
        """Maximum number of trials that both planners have of the same case."""
        return int(self.tried.min(axis=1).max())

    @property
    def differences(self) -> pd.Series[float]:
        """The difference of each case, in the form that the report's intervals use."""
        means = self.won / self.tried
        return pd.Series(means[:, 1] - means[:, 0], index=pd.Index(self.cluster, name=CLUSTER))

    def drawn(self, rng: np.random.Generator) -> Counts:
        """A resample with the same number of clusters, drawn with replacement (a bootstrap over clusters)."""
        rows = np.argsort(self.cluster, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        picked = rng.integers(0, self.clusters, self.clusters)
        parts = [rows[starts[cluster] : starts[cluster + 1]] for cluster in picked]
        taken = np.concatenate(parts)
        cluster = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return Counts(cluster, self.won[taken], self.tried[taken])


def counts(episodes: pd.DataFrame, reference: str, other: str) -> Counts:
    """The cases for which both planners have known successes.

    Args:
        episodes: rows of one model, dataset and robustness setting: `planner`, `case_id`, `cluster`, `success`.
        reference: the label of one planner.
        other: the label of the other planner.
    """
    known = episodes[episodes["planner"].isin([reference, other]) & episodes["success"].notna()]
    keys = [known[name].astype(str) for name in (CLUSTER, "case_id", "planner")]
    frame = known["success"].groupby(keys, sort=False).agg(["sum", "count"]).unstack("planner").dropna()
    if frame.empty or frame.shape[1] < 4:
        return Counts(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros((0, 2)))
    cluster = frame.index.get_level_values(CLUSTER)
    codes = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
    won, tried = (frame[name][[reference, other]].to_numpy(np.float64) for name in ("sum", "count"))
    return Counts(codes, won, tried)


class Covariances(NamedTuple):
    """Covariances of two cells of one planner, added up over both planners, and of two cells of different planners.

    A covariance is NaN if there are no such pairs of cells.

    The names are the same as in `Latent`.
    """

    own_case: float
    own_cluster: float
    other_case: float
    other_cluster: float


def covariances(found: Counts) -> Covariances:
    """The covariances, estimated from all pairs of cells. At least two clusters are needed."""
    means = found.won / found.tried
    sums = np.stack([np.bincount(found.cluster, column) for column in means.T], axis=1)
    sizes, cases = found.sizes.astype(np.float64), len(means)
    with np.errstate(invalid="ignore", divide="ignore"):
        again = found.won * (found.won - 1) / (found.tried * (found.tried - 1))
    same = np.einsum("ci,cj->ij", means, means)
    clusters = np.einsum("ci,cj->ij", sums, sums)
    apart = (np.outer(means.sum(axis=0), means.sum(axis=0)) - clusters) / (cases**2 - (sizes**2).sum())
    pairs = float((sizes * (sizes - 1)).sum())
    within = (clusters - same) / pairs - apart if pairs else np.full((2, 2), np.nan)
    several = np.isfinite(again).any(axis=0).all()
    repeated = float(np.nanmean(again, axis=0).sum()) - float(np.trace(apart)) if several else np.nan
    return Covariances(repeated, float(np.trace(within)), float((same / cases - apart)[0, 1]), float(within[0, 1]))


def fitted(found: Counts, icc: float | None = None) -> Latent:
    """The model whose covariances, at the pilot's rates, equal the estimates as closely as possible.

    If no case has two trials of each planner, a trial's luck cannot be separated from the case's own effect. Then all
    variation that can be luck counts as luck, which is right only for designs with one trial. If no two cases share a
    cluster, all differences between cases count as differences between clusters, which is the worst case if luck is
    known.

    Args:
        found: the pilot's counts.
        icc: the share of the cases' variances that is between clusters; None: the estimated share.

    Raises:
        AnalysisError: all cases are in one cluster.
    """
    if found.clusters < 2:
        raise AnalysisError(
            f"the pilot has {found.clusters:,} clusters of cases, but standard errors over clusters need 2 or more"
        )
    first, second = found.rates
    told = covariances(found)

    def own(correlation: float) -> float:
        return covariance(first, first, correlation) + covariance(second, second, correlation)

    def other(correlation: float) -> float:
        return covariance(first, second, correlation)

    other_case = _solved(other, told.other_case, -_MOST, _MOST)
    one_trial = np.isnan(told.own_case)
    own_case = abs(other_case) if one_trial else _solved(own, told.own_case, 0.0, _MOST)
    other_case = min(max(other_case, -own_case), own_case)
    if icc is None and np.isnan(told.own_cluster):
        icc = 1.0
    if icc is not None:
        return Latent(own_case, icc * own_case, other_case, icc * other_case)
    own_cluster = _solved(own, told.own_cluster, 0.0, _MOST)
    if one_trial:
        own_case = max(own_case, own_cluster)
    own_cluster = min(own_cluster, own_case)
    other_cluster = _solved(other, told.other_cluster, -own_cluster, own_cluster)
    rest = own_case - own_cluster
    return Latent(
        own_case, own_cluster, min(max(other_case, other_cluster - rest), other_cluster + rest), other_cluster
    )


def _solved(of: Callable[[float], float], value: float, low: float, high: float) -> float:
    """The point between `low` and `high` at which an increasing function has the value, or the nearer end."""
    if low >= high or value <= of(low):
        return low
    from scipy.optimize import brentq  # imported late, as it takes half of a screen's import time

    return high if value >= of(high) else float(brentq(lambda x: of(x) - value, low, high, xtol=1e-6))

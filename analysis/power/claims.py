"""The power of a design by formula.

The test is the report's: the mean of the cases' differences over its CR2 error, beside Student's t at Bell and
McCaffrey's degrees of freedom (`analysis.intervals`), which the planned clusters' sizes fix. Under a difference the
ratio has a noncentral t distribution where cases' sums are normal. They are not where successes are rare or common:
then the error is small in the studies whose mean is small. A normal approximation with the third and fourth moments,
and the same without them, tell what that adds (in probits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from analysis.intervals import freedom
from analysis.power.latent import EDGE, Components, Floats, Latent, Rates, components

_TINY = 1e-12
_LEAST = 0.05  # of a variance, where the expansion fails


@dataclass(frozen=True)
class Claim:
    """What a design of so many cases is said to have: power as a share, and the clusters its cases are of."""

    cases: int
    clusters: int
    power: float


class Design:
    """Two planners that run the same cases so many times; only the number of cases is open.

    Args:
        latent: how alike cells are.
        rates: of the reference and of the other planner, shares.
        trials: of each case and planner.
        alpha: the level of the two-sided test.
        order: the cluster of each further case that there is, as whole numbers from 0.
    """

    def __init__(self, latent: Latent, rates: Rates, trials: int, alpha: float, order: npt.NDArray[np.int64]) -> None:
        self.latent, self.rates, self.trials, self.alpha, self.order = latent, rates, trials, alpha, order
        self.parts: Components = components(latent, rates)
        self.shift = 0.0
        """What simulation adds to the formula's power, in probits."""
        self._moments = Moments(latent, rates, trials)

    def sizes(self, cases: int) -> Floats:
        """How many of the first cases each cluster has; clusters without any are left out."""
        counts = np.bincount(self.order[:cases])
        return counts[counts > 0].astype(np.float64)

    def error(self, sizes: Floats) -> float:
        """The standard error of the mean difference over such clusters, a share."""
        return math.sqrt(float(self._variances(sizes).sum())) / float(sizes.sum())

    def _variances(self, sizes: Floats) -> Floats:
        """Of each cluster's sum of differences."""
        return self.parts.clusters * sizes**2 + (self.parts.cases + self.parts.trial / self.trials) * sizes

    def skewness(self, cases: int) -> float:
        """Of the mean difference over the first so many cases."""
        return self._moments.of(self.sizes(cases))[0]

    def claim(self, cases: int) -> Claim:
        """The power of the first so many cases; 0 where they are of one cluster."""
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
    """The normal quantile of a share, short of the ends."""
    return float(ndtri(np.clip(share, _TINY, 1 - _TINY)))


def _beyond(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The chance that the test's ratio, whose mean numerator is `shift` errors, lies above the quantile."""
    normal = probit(1 - float(nctdtr(degrees, shift, quantile)))
    added = _expanded(degrees, quantile, shift, skewness, kurtosis) - _expanded(degrees, quantile, shift, 0.0, 0.0)
    return float(ndtr(normal + added))


def _expanded(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The numerator less the quantile's errors, in standard deviations.

    The squared error's relative variance is 2 / degrees and the excess kurtosis; its covariance with the mean is the
    skewness.
    """
    spread = 2 / degrees + kurtosis
    variance = 1 + quantile**2 * spread / 4 - quantile * skewness
    return (shift - quantile * (1 - spread / 8)) / math.sqrt(max(variance, _LEAST))


# The third and fourth moments of a mean difference: rare successes make the test's own error depend on its mean.


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(8)
_PLANE = np.stack(np.meshgrid(_NODES, _NODES, indexing="ij")).reshape(2, -1)
_MASS = np.outer(_WEIGHTS, _WEIGHTS).ravel() / _WEIGHTS.sum() ** 2


class Moments:
    """Cumulants of a case's difference, the mean over so many trials, given the effects of its cluster (quadrature)."""

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
        """Skewness and excess kurtosis of the mean difference over clusters of so many cases each."""
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

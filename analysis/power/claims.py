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
from analysis.power.latent import Components, Floats, Latent, Rates, components
from analysis.power.moments import Moments

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

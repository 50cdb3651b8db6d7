"""The power of a design by formula.

The test is the report's: the mean of the cases' differences over its CR2 error, beside Student's t at Bell and
McCaffrey's degrees of freedom (`analysis.intervals`), which the planned clusters' sizes fix. Under a difference the
ratio has a noncentral t distribution where cases' sums are normal. They are not where successes are rare or common:
then the error is small in the studies whose mean is small. A normal approximation with the third and fourth moments,
and the same without them, tell what that adds (in probits).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        return Claim(cases, len(sizes), min(sum(_beyond(found, quantile, *side, kurtosis) for side in sides), 1.0))


def _beyond(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The chance that the test's ratio, whose mean numerator is `shift` errors, lies above the quantile."""
    normal = float(np.clip(1 - nctdtr(degrees, shift, quantile), _TINY, 1 - _TINY))
    probit = float(ndtri(normal)) + _probit(degrees, quantile, shift, skewness, kurtosis)
    return float(ndtr(probit - _probit(degrees, quantile, shift, 0.0, 0.0)))


def _probit(degrees: float, quantile: float, shift: float, skewness: float, kurtosis: float) -> float:
    """The numerator less the quantile's errors, in standard deviations.

    The squared error's relative variance is 2 / degrees and the excess kurtosis; its covariance with the mean is the
    skewness.
    """
    spread = 2 / degrees + kurtosis
    variance = 1 + quantile**2 * spread / 4 - quantile * skewness
    return (shift - quantile * (1 - spread / 8)) / math.sqrt(max(variance, _LEAST))


def needed(design: Design, power: float, least: int = 2) -> Claim:
    """The smallest number of cases that has the power; of all there are, where that is not enough."""
    most = len(design.order)
    high = min(max(least, 8), most)
    found = design.claim(high)
    low = least - 1
    while found.power < power and high < most:
        low, high = high, min(2 * high, most)
        found = design.claim(high)
    if found.power < power:
        return found
    while high - low > 1:
        middle = (low + high) // 2
        claim = design.claim(middle)
        if claim.power >= power:
            high, found = middle, claim
        else:
            low = middle
    return found


def endless(sizes: Sequence[int], most: int) -> npt.NDArray[np.int64]:
    """An order of cases where each further cluster has as many cases as one of these."""
    rng = np.random.default_rng(0)
    each = np.array(sizes)
    rounds = math.ceil(most / int(each.sum()))
    drawn = np.concatenate([rng.permutation(each) for _ in range(rounds)])
    return np.repeat(np.arange(len(drawn)), drawn)[:most]

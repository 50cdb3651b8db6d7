"""The third and fourth moments of a mean difference: rare successes make the test's own error depend on its mean."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from analysis.power.latent import EDGE, Floats, Latent, Rates

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

"""A model of two planners' successes over clusters, cases and trials, and the variances that follow from it.

A cell succeeds where a normal number falls below the threshold that its planner's rate sets. That number is the sum of
an effect of the cluster, one of the case and the trial's luck; effects of the two planners are correlated, as planners
share what is difficult (a probit-normal model). Every covariance of two cells is then a bivariate normal integral.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

Floats = npt.NDArray[np.float64]
Rates = tuple[float, float]
"""Of the reference and of the other planner, between 0 and 1."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_LOGISTIC = math.pi**2 / 3
"""The variance of a trial's luck on the logit scale."""
EDGE = 1e-9
"""How near rates come to 0 and 1, where there is no threshold."""


class Latent(NamedTuple):
    """Correlations of the normal numbers of two cells, each between -1 and 1.

    `own_case`: of one planner in two trials of a case; `own_cluster`: in two cases of a cluster; `other_case` and
    `other_cluster`: of one planner and the other.
    """

    own_case: float
    own_cluster: float
    other_case: float
    other_cluster: float


class Components(NamedTuple):
    """Variances of the difference in success between two planners, in squared shares.

    `clusters`: of clusters' true differences; `cases`: of cases' around their cluster's; `trial`: what one trial of
    each planner adds by luck.
    """

    clusters: float
    cases: float
    trial: float


def planted(case_sd: float, difference_sd: float, icc: float) -> Latent:
    """The model without a pilot.

    Args:
        case_sd: standard deviation of the cases' difficulty that both planners share, in logits.
        difference_sd: that of the planners' difference from case to case, in logits.
        icc: the share of both variances that lies between clusters.
    """
    shared, own = case_sd**2, case_sd**2 + difference_sd**2 / 2
    total = own + _LOGISTIC
    return Latent(own / total, icc * own / total, shared / total, icc * shared / total)


def covariance(first: float, second: float, correlation: float) -> float:
    """Of two binary outcomes with these rates, whose normal numbers correlate so (Plackett 1954)."""
    h, k = (float(ndtri(min(max(rate, EDGE), 1 - EDGE))) for rate in (first, second))
    end = math.asin(correlation)
    sine = np.sin(end / 2 * (_NODES + 1))
    values = np.exp(-(h * h + k * k - 2 * h * k * sine) / (2 * (1 - sine**2)))
    return float(end / 2 * (_WEIGHTS @ values) / (2 * math.pi))


def components(latent: Latent, rates: Rates) -> Components:
    """The variances of the difference between planners of these rates."""

    def of(own: float, other: float) -> float:
        first, second = rates
        return covariance(first, first, own) + covariance(second, second, own) - 2 * covariance(first, second, other)

    clusters = max(of(latent.own_cluster, latent.other_cluster), 0.0)
    cases = max(of(latent.own_case, latent.other_case) - clusters, 0.0)
    luck = sum(rate * (1 - rate) - covariance(rate, rate, latent.own_case) for rate in rates)
    return Components(clusters, cases, max(luck, 0.0))

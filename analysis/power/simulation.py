"""Studies drawn from the model, and how often the report's own test finds a difference in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from analysis.intervals import ROUNDING, freedom
from analysis.power.latent import EDGE, Floats, Latent, Rates

_CELLS = 2_000_000
"""Cases drawn at once."""


class Found(NamedTuple):
    """The share of studies in which the test found a difference, and its Monte Carlo standard error."""

    share: float
    error: float


def simulated(
    latent: Latent, rates: Rates, sizes: Floats, trials: int, alpha: float, studies: int, seed: Sequence[int]
) -> Found:
    """Draw studies over clusters of so many cases each, and test each."""
    rng = np.random.default_rng(seed)
    at_once = max(int(_CELLS / sizes.sum()), 1)
    found, left = 0, studies
    while left:
        part = min(at_once, left)
        found += int(rejected(differences(rng, latent, rates, sizes, trials, part), sizes, alpha).sum())
        left -= part
    share = found / studies
    return Found(share, math.sqrt(share * (1 - share) / studies))


def differences(
    rng: np.random.Generator, latent: Latent, rates: Rates, sizes: Floats, trials: int, studies: int
) -> Floats:
    """The other planner's success less the reference's, a mean over trials: (studies, cases), cluster by cluster."""
    whole = sizes.astype(np.int64)
    of_clusters = _effects(rng, latent.own_cluster, latent.other_cluster, (studies, len(whole)))
    own, other = latent.own_case - latent.own_cluster, latent.other_case - latent.other_cluster
    effects = np.repeat(of_clusters, whole, axis=2) + _effects(rng, own, other, (studies, int(whole.sum())))
    start = ndtri(np.clip(rates, EDGE, 1 - EDGE))[:, None, None]
    won = rng.binomial(trials, ndtr((start + effects) / math.sqrt(max(1 - latent.own_case, EDGE))))
    found: Floats = (won[1] - won[0]) / trials
    return found


def _effects(rng: np.random.Generator, own: float, other: float, shape: tuple[int, int]) -> Floats:
    """Both planners' effects (2, *shape) of variance `own` and covariance `other`."""
    if own <= 0:
        return np.zeros((2, *shape))
    first, second = rng.standard_normal((2, *shape))
    shared = other / own
    return math.sqrt(own) * np.stack([first, shared * first + math.sqrt(max(1 - shared**2, 0.0)) * second])


def rejected(differences: Floats, sizes: Floats, alpha: float) -> npt.NDArray[np.bool_]:
    """Of each study (a row), whether the interval of `analysis.intervals.interval` with reach 1 leaves out 0.

    Args:
        differences: (studies, cases), the cases of a cluster side by side.
        sizes: how many cases each of at least two clusters has.
        alpha: 0.05 for the 95% interval.
    """
    cases = float(sizes.sum())
    shares = sizes / cases
    mean = differences.mean(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    sums = np.add.reduceat(differences, starts, axis=1) - sizes * mean[:, None]
    errors = np.sqrt((sums**2 / (1 - shares)).sum(axis=1)) / cases
    quantile = stdtrit(freedom(shares), 1 - alpha / 2)
    alike = 1 / float((shares**2).sum())  # clusters of one size that count as much
    square = float(stdtrit(alike - 1, 1 - alpha / 2)) ** 2
    certain = np.abs(mean) > square / (alike + square) * (1 + np.abs(mean))
    return np.where(errors < ROUNDING, certain, np.abs(mean) > quantile * errors)

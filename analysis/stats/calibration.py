"""Expected calibration error: confidences against shares of right choices, bin by bin, with an interval.

The plain estimate Σ |share right − mean confidence| · share of decisions (Naeini et al. 2015; Guo et al. 2017) is too
high where decisions are few: in every bin noise counts as error, whatever its sign. So its distribution is worked out:
each bin's signed gap has a cluster-robust normal error (CR2, with Student's degrees of freedom), and where the true
error is `scale` times the one seen, gaps are scale · gap plus noise. By Anderson's theorem every quantile of the sum of
absolute gaps then grows with `scale`. The interval holds the scales under which what was seen is neither too high nor
too low (2.5% either side); the corrected estimate is the scale under which it is the median. Both may be 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER

BINS = 10
_DRAWS, _HALVINGS = 4_000, 20
_TINY = 1e-9

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class CalibrationError(NamedTuple):
    """Of one setting: the plain estimate, the corrected one with its 95% interval, and what noise alone gives."""

    plain: float
    corrected: float
    low: float
    high: float
    noise: float


def equal_widths(confidence: Numbers) -> Places:
    """The bin of each confidence: BINS bins of equal width, each with its upper edge; votes of 10 have one each."""
    return np.asarray(np.clip(np.ceil(confidence * BINS - _TINY) - 1, 0, BINS - 1), dtype=np.intp)


def equal_masses(confidence: Numbers) -> Places:
    """The bin of each confidence: at most BINS bins of as many decisions each, equal confidences in one bin."""
    below = pd.Series(confidence).rank(method="min").to_numpy() - 1
    return np.asarray(below * BINS // len(confidence), dtype=np.intp)


def error(decisions: pd.DataFrame, bins: Places) -> CalibrationError:
    """The expected calibration error of decisions (`confidence`, `right`, `cluster`) in these bins.

    Without bounds (NaN) where all are of one cluster.
    """
    gaps = (decisions["right"] - decisions["confidence"]).to_numpy(np.float64)
    clusters, cluster = np.unique(decisions[CLUSTER].astype(str).to_numpy(), return_inverse=True)
    sums = np.zeros((len(clusters), int(bins.max()) + 1))
    np.add.at(sums, (cluster, bins), gaps)
    gap = sums.sum(axis=0) / len(gaps)
    plain = float(np.abs(gap).sum())
    if len(clusters) < 2:
        return CalibrationError(plain, np.nan, np.nan, np.nan, np.nan)
    shares = np.bincount(cluster) / len(gaps)
    residuals = (sums / len(gaps) - shares[:, None] * gap) / np.sqrt(1 - shares)[:, None]
    met, freedom = residuals.T @ residuals, intervals.freedom(shares)
    unseen = np.diag(_unseen(decisions["right"].to_numpy(np.float64), bins))
    own, wider = _noise(met, freedom), _noise(met + unseen, freedom)
    # More noise moves either bound either way: where a gap is small, noise of any sign makes the error larger.
    low = min(_scale(gap, noise, 0.975) for noise in (own, wider)) * plain
    return CalibrationError(plain, _scale(gap, own, 0.5) * plain, low, _high(gap, own, wider), _sizes(wider).mean())


def _high(gap: Numbers, own: Numbers, wider: Numbers) -> float:
    """The upper bound. Where less was seen than even a true error of 0 would show, what noise alone would."""
    plain, scale = float(np.abs(gap).sum()), _scale(gap, wider, 0.025)
    high = max(scale, _scale(gap, own, 0.025)) * plain
    return float(min(max(high, plain, 0.0 if scale else np.quantile(_sizes(wider), 0.975)), 1.0))


def _unseen(right: Numbers, bins: Places) -> Numbers:
    """What each bin's covariance lacks where all choices of a bin were right, or all wrong: the next may not be.

    The variance of a share of (k + 1) of (n + 2); only of bins without any variation: others show theirs.
    """
    count, hits = np.bincount(bins).astype(np.float64), np.bincount(bins, weights=right)
    part = (hits + 1) / (count + 2)
    alike = (count > 0) & ((hits == 0) | (hits == count))
    return np.asarray(np.where(alike, count * part * (1 - part), 0.0) / len(right) ** 2)


def _noise(covariance: Numbers, freedom: float) -> Numbers:
    """Draws (rows) of what gaps differ by from the true ones, each with its opposite; the same in every run."""
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(covariance)
    draws = rng.standard_normal((_DRAWS // 2, len(values))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    draws *= np.sqrt(freedom / rng.chisquare(freedom, len(draws)))[:, None]
    return np.concatenate([draws, -draws])


def _sizes(gaps: Numbers) -> Numbers:
    """The sum of absolute gaps of each draw."""
    return np.asarray(np.abs(gaps).sum(axis=1))


def _scale(gap: Numbers, noise: Numbers, part: float) -> float:
    """The scale of the gaps under which this part of all draws has at most the error that was seen; 0 at least."""
    seen = float(np.abs(gap).sum())

    def too_high(scale: float) -> bool:
        return float((_sizes(scale * gap + noise) <= seen).mean()) < part

    if seen < _TINY or too_high(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not too_high(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if too_high(middle) else (middle, high)
    return low

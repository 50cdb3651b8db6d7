"""Expected calibration error: confidences against shares of right choices, bin by bin, with an interval.

The plain estimate Σ |share right − mean confidence| · share of decisions (Naeini et al. 2015; Guo et al. 2017) is too
high if decisions are few, because in every bin noise of either sign counts as error. So the distribution of the
estimate is computed. Each bin's signed gap has a cluster-robust normal error (CR2, with Student's degrees of freedom);
if the true error is `scale` times the observed error, gaps are scale · gap plus noise. By Anderson's theorem every
quantile of the sum of absolute gaps then grows with `scale`. The interval contains the scales under which the observed
error is neither too high nor too low (2.5% on either side). The corrected estimate is at the scale under which the
observed error is the median. The lower bound and the corrected estimate may be 0.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, Interval, Sample, share

BINS = 10
_DRAWS, _HALVINGS = 4_000, 20
_TINY = 1e-9
Clusters: TypeAlias = "npt.NDArray[np.intp] | pd.Series[str]"
"""The cluster of each decision's case, by number or by name."""

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class CalibrationError(NamedTuple):
    """The error of one setting: plain estimate, corrected estimate, 95% interval, and mean error from noise alone."""

    plain: float
    corrected: float
    low: float
    high: float
    noise: float


def equal_widths(confidence: Numbers) -> Places:
    """Each confidence's bin, among BINS equally wide bins that include their upper edges.

    So each possible share of 10 votes has its own bin.
    """
    return np.asarray(np.clip(np.ceil(confidence * BINS - _TINY) - 1, 0, BINS - 1), dtype=np.intp)


def equal_masses(confidence: Numbers) -> Places:
    """Each confidence's bin, among at most BINS bins of about equal size; equal confidences share a bin."""
    below = pd.Series(confidence).rank(method="min").to_numpy() - 1
    return np.asarray(below * BINS // len(confidence), dtype=np.intp)


def error(decisions: pd.DataFrame, bins: Places) -> CalibrationError:
    """The expected calibration error of decisions (`confidence`, `right`, `cluster`) in these bins.

    All figures except the plain estimate are NaN if all decisions are in one cluster.
    """
    gaps = (decisions["right"] - decisions["confidence"]).to_numpy(np.float64)
    clusters, cluster = np.unique(decisions[CLUSTER].to_numpy(), return_inverse=True)
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
    # More noise can move either bound in either direction, because noise of any sign enlarges the error of a small gap.
    low = min(_scale(gap, noise, 0.975) for noise in (own, wider)) * plain
    return CalibrationError(plain, _scale(gap, own, 0.5) * plain, low, _high(gap, own, wider), _sizes(wider).mean())


def _high(gap: Numbers, own: Numbers, wider: Numbers) -> float:
    """The upper bound; it is based on noise alone if a true error of 0 would look larger than the observed error."""
    plain, scale = float(np.abs(gap).sum()), _scale(gap, wider, 0.025)
    high = max(scale, _scale(gap, own, 0.025)) * plain
    return float(min(max(high, plain, 0.0 if scale else np.quantile(_sizes(wider), 0.975)), 1.0))


def _unseen(right: Numbers, bins: Places) -> Numbers:
    """The variance that is missing in a bin's covariance if all its choices were right, or all wrong.

    It is needed because the next choice in such a bin may be different.

    It is the variance of the share (k + 1) / (n + 2), for k right choices out of n. Other bins get 0, because their
    covariance already includes their variance.
    """
    count, hits = np.bincount(bins).astype(np.float64), np.bincount(bins, weights=right)
    part = (hits + 1) / (count + 2)
    alike = (count > 0) & ((hits == 0) | (hits == count))
    return np.asarray(np.where(alike, count * part * (1 - part), 0.0) / len(right) ** 2)


def _noise(covariance: Numbers, freedom: float) -> Numbers:
    """Draws (columns) of the noise in the gaps; each draw comes with its negative. Every run has the same draws."""
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(covariance)
    draws = rng.standard_normal((_DRAWS // 2, len(values))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    draws *= np.sqrt(freedom / rng.chisquare(freedom, len(draws)))[:, None]
    columns = np.ascontiguousarray(draws.T)
    return np.concatenate([columns, -columns], axis=1)


def _sizes(gaps: Numbers) -> Numbers:
    """The sum of absolute gaps of each draw."""
    return np.asarray(np.abs(gaps).sum(axis=0))


def _scale(gap: Numbers, noise: Numbers, part: float) -> float:
    """The scale of the gaps at which a share `part` of all draws has at most the observed error; at least 0.

    A draw's error changes by at most the observed error times the change of the scale. So a draw is not computed again
    if its error is farther from the observed error than the remaining range of scales can move it.
    """
    seen, draws, settled = float(np.abs(gap).sum()), noise.shape[1], 0
    signed = gap[:, None]

    def too_high(errors: Numbers) -> bool:
        return bool((settled + np.count_nonzero(errors <= seen)) / draws < part)

    if seen < _TINY or too_high(_sizes(noise)):
        return 0.0
    low, high = 0.0, 1.0
    while not too_high(_sizes(high * signed + noise)):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        errors = _sizes(middle * signed + noise)
        low, high = (low, middle) if too_high(errors) else (middle, high)
        near = np.abs(errors - seen) < seen * (high - low) + _TINY
        settled += int(np.count_nonzero(errors[~near] <= seen))
        noise = noise[:, near]
    return low


# Selective prediction: the decisions with the lowest entropy are kept, and the others are handed over to a person.
#
# Decisions with equal entropy, which votes often give, have no order among themselves: every figure is averaged over
# all their orders. Each of the two areas is given as one value per decision; the values' mean is the area, and their
# deviations are the area's influence function. So the areas have the same intervals over clusters as any share
# (`intervals.share`, Wilson's with the number of clusters that corresponds to this error; Kottas et al. 2014 for areas
# under curves).


LEAST = 5
"""Minimum number of clusters with a wrong choice, and of clusters with a right choice, for an interval of AUROC."""
HANDED = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Maximum shares of decisions to hand over."""


class Risks(NamedTuple):
    """For the k surest of n decisions, k = 1 to n: the expected error rate, and the rate if all errors come last."""

    kept: Numbers
    perfect: Numbers


class HandedOver(NamedTuple):
    """The figures if all decisions above an entropy, in nats, are handed over.

    `share` is the share of decisions handed over, `caught` the share of all errors that these decisions contain, and
    `error` the error rate of the decisions that are kept.

    `perfect` is the error rate of the kept decisions if the order were perfect, with all errors last; `caught` is NaN
    if there is no error.
    """

    above: float
    share: float
    caught: float
    error: Interval
    perfect: float


def risks(entropy: Numbers, wrong: Numbers) -> Risks:
    """The risk-coverage curve (El-Yaniv and Wiener 2010); arrays have one value per decision; `wrong` is 0 or 1."""
    _, block, size = np.unique(entropy, return_inverse=True, return_counts=True)
    expected = np.repeat(np.bincount(block, weights=wrong) / size, size)
    kept = np.arange(1, len(wrong) + 1)
    return Risks(np.cumsum(expected) / kept, np.cumsum(np.sort(wrong)) / kept)


def area(entropy: Numbers, wrong: Numbers) -> Numbers:
    """The area under the risk-coverage curve: mean error rate over all numbers of kept decisions (Geifman et al. 2019).

    Returns: one value per decision. The mean of these values is the area. The values differ by each decision's
    contribution to the area, which depends on its place in the order and, if it is wrong, on the numbers of kept
    decisions that include it.
    """
    kept = risks(entropy, wrong).kept
    _, block, size = np.unique(entropy, return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    first = last - size
    inverse = 1 / np.arange(1, len(wrong) + 1)
    within = (np.arange(len(wrong)) - np.repeat(first, size) + 1) / np.repeat(size, size)  # chance to be in the first k

    def kept_by(values: Numbers) -> Numbers:
        """The sum of values over all k, weighted by the chance that a decision of the block is among the first k."""
        behind = np.append(np.cumsum(values[::-1])[::-1], 0.0)[last]
        return np.asarray(np.add.reduceat(within * values, first) + behind)

    own = np.add.reduceat(kept, first) / size - kept_by(kept * inverse)
    return np.asarray(own[block] + wrong * kept_by(inverse)[block])


def separation(entropy: Numbers, wrong: Numbers) -> Numbers:
    """AUROC: the chance that a wrong choice has higher entropy than a right choice; ties count half (Obuchowski 1997).

    Returns: one value per decision; the values' mean is the AUROC. NaN unless there are both wrong and right choices.
    """
    failed = wrong == 1
    if failed.all() or not failed.any():
        return np.full(len(wrong), np.nan)
    counts = np.where(failed, failed.sum(), (~failed).sum())
    ranks, within = pd.Series(entropy).rank().to_numpy(), np.empty(len(wrong))
    for part in (failed, ~failed):
        within[part] = pd.Series(entropy[part]).rank().to_numpy()
    beyond = (ranks - within) / (len(wrong) - counts)  # share of the other kind that ranks lower
    found = float(beyond[failed].mean())
    return np.asarray(found + (np.where(failed, beyond, 1 - beyond) - found) * len(wrong) / counts)


def telling(wrong: Numbers, cluster: Clusters) -> int:
    """The number of clusters with an error, or of those with a right choice if these are fewer; AUROC rests on them."""
    return min(len(pd.unique(cluster[wrong == kind])) for kind in (0, 1))


def handed_over(entropy: Numbers, wrong: Numbers, cluster: Clusters) -> list[HandedOver]:
    """For each share in HANDED, the figures at the lowest entropy above which at most this share of decisions lies."""
    found = []
    perfect = risks(entropy, wrong).perfect
    for most in HANDED:
        above = float(np.quantile(entropy, 1 - most, method="inverted_cdf"))
        kept = entropy <= above
        error = share(over_clusters(wrong[kept], cluster[kept]))
        caught = float(wrong[~kept].sum() / wrong.sum()) if wrong.any() else np.nan
        found.append(HandedOver(above, float(1 - kept.mean()), caught, error, float(perfect[kept.sum() - 1])))
    return found


def over_clusters(values: Numbers, cluster: Clusters) -> Sample:
    """Values, one per decision, in the form that intervals use."""
    return Sample(values, pd.factorize(cluster)[0])

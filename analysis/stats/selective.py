"""Selective prediction: the decisions of least entropy are kept, the others handed over to a person.

Decisions of one entropy, of which votes have many, stand in no order among themselves: every figure is its mean over
their orders. The two areas come as one value a decision, whose mean is the area and whose deviations are its influence
function: so they have the same intervals over clusters as any share (`intervals.share`, Wilson's with the number of
clusters that this error stands for; Kottas et al. 2014 for areas under curves).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.stats.intervals import CLUSTER, Interval, share

LEAST = 5
"""Clusters with an error, and with none, that an interval of AUROC needs."""
HANDED = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of the decisions that are handed over, at most."""

from analysis.stats.calibration import Numbers


class Risks(NamedTuple):
    """Of the k surest decisions of n, k = 1 to n: the expected error rate, and that of a perfect order."""

    kept: Numbers
    perfect: Numbers


class HandedOver(NamedTuple):
    """Above an entropy in nats: the share handed over, the share of all errors among them, and the rest's error rate.

    `perfect` is that rate in a perfect order; `caught` is NaN where there is no error.
    """

    above: float
    share: float
    caught: float
    error: Interval
    perfect: float


def risks(entropy: Numbers, wrong: Numbers) -> Risks:
    """The risk-coverage curve (El-Yaniv and Wiener 2010); arrays of one value a decision, `wrong` 0 or 1."""
    _, block, size = np.unique(entropy, return_inverse=True, return_counts=True)
    expected = np.repeat(np.bincount(block, weights=wrong) / size, size)
    kept = np.arange(1, len(wrong) + 1)
    return Risks(np.cumsum(expected) / kept, np.cumsum(np.sort(wrong)) / kept)


def area(entropy: Numbers, wrong: Numbers) -> Numbers:
    """The area under the risk-coverage curve: the error rate, averaged over all shares kept (Geifman et al. 2019).

    Returns: one value a decision. Their mean is the area; they differ by what each decision does to it, by its place in
    the order and by its error at all shares that keep it.
    """
    kept = risks(entropy, wrong).kept
    _, block, size = np.unique(entropy, return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    first = last - size
    inverse = 1 / np.arange(1, len(wrong) + 1)
    within = (np.arange(len(wrong)) - np.repeat(first, size) + 1) / np.repeat(size, size)  # the chance to be kept by k

    def kept_by(values: Numbers) -> Numbers:
        """The sum over all k, each by the chance that a decision of the block is among the first k."""
        behind = np.append(np.cumsum(values[::-1])[::-1], 0.0)[last]
        return np.asarray(np.add.reduceat(within * values, first) + behind)

    own = np.add.reduceat(kept, first) / size - kept_by(kept * inverse)
    return np.asarray(own[block] + wrong * kept_by(inverse)[block])


def separation(entropy: Numbers, wrong: Numbers) -> Numbers:
    """AUROC: the chance that a wrong choice has more entropy than a right one, ties half (Obuchowski 1997).

    Returns: one value a decision, whose mean it is; NaN without both kinds.
    """
    failed = wrong == 1
    if failed.all() or not failed.any():
        return np.full(len(wrong), np.nan)
    counts = np.where(failed, failed.sum(), (~failed).sum())
    ranks, within = pd.Series(entropy).rank().to_numpy(), np.empty(len(wrong))
    for part in (failed, ~failed):
        within[part] = pd.Series(entropy[part]).rank().to_numpy()
    beyond = (ranks - within) / (len(wrong) - counts)  # the share of the other kind below each
    found = float(beyond[failed].mean())
    return np.asarray(found + (np.where(failed, beyond, 1 - beyond) - found) * len(wrong) / counts)


def telling(wrong: Numbers, cluster: pd.Series[str]) -> int:
    """How many clusters tell of AUROC: those with an error, or those with a right choice, whichever are fewer."""
    return min(int(cluster[wrong == kind].nunique()) for kind in (0, 1))


def handed_over(entropy: Numbers, wrong: Numbers, cluster: pd.Series[str]) -> list[HandedOver]:
    """For each of HANDED the least entropy above which at most that share lies, and what is kept."""
    found = []
    perfect = risks(entropy, wrong).perfect
    for most in HANDED:
        above = float(np.quantile(entropy, 1 - most, method="inverted_cdf"))
        kept = entropy <= above
        error = share(over_clusters(wrong[kept], cluster[kept]))
        caught = float(wrong[~kept].sum() / wrong.sum()) if wrong.any() else np.nan
        found.append(HandedOver(above, float(1 - kept.mean()), caught, error, float(perfect[kept.sum() - 1])))
    return found


def over_clusters(values: Numbers, cluster: pd.Series[str]) -> pd.Series[float]:
    """One value a decision, as intervals take them."""
    return pd.Series(values, index=pd.Index(cluster, name=CLUSTER))

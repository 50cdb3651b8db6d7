"""Scores with a planted AUC: the probability that a right call scores higher than a wrong one, ties counted half.

A right call's hidden score is normal around `d`, a wrong one's around 0, both of variance 1; ten thresholds around d/2
make eleven numbers of it, and d is such that the AUC of those is what was asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist

from grid.core.types import MAX_SCORE

_STEP = 0.5  # between two thresholds
_FARTHEST = 20.0  # of d; no AUC that a double tells from 1 needs more
_HALVINGS = 60


def score(auc: float, right: bool, uniform: float) -> int:
    """The score, 0 to MAX_SCORE, that a uniform number stands for."""
    wrong_shares, right_shares = shares(auc)
    return min(bisect_right(list(accumulate(right_shares if right else wrong_shares)), uniform), MAX_SCORE)


@lru_cache(maxsize=64)
def shares(auc: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The probability of each score of a wrong and of a right call."""
    if auc == 1:
        last = (0.0,) * MAX_SCORE
        return (1.0, *last), (*last, 1.0)
    low, high = 0.0, _FARTHEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if area(*_of_distance(middle)) < auc else (low, middle)
    return _of_distance(high)


def _of_distance(distance: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    cuts = [distance / 2 + _STEP * (place - (MAX_SCORE - 1) / 2) for place in range(MAX_SCORE)]

    def shares(mean: float) -> tuple[float, ...]:
        below = [0.0, *(NormalDist(mean).cdf(cut) for cut in cuts), 1.0]
        return tuple(after - before for before, after in pairwise(below))

    return shares(0.0), shares(distance)


def area(wrong: tuple[float, ...], right: tuple[float, ...]) -> float:
    """The AUC of two distributions over scores."""
    return sum(share * (sum(wrong[:score]) + wrong[score] / 2) for score, share in enumerate(right))

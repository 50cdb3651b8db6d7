"""Scores with a planted AUC: the probability that a right call scores higher than a wrong one, ties counted half.

A right call's hidden score is normal around `d`, a wrong one's around 0, both of variance 1; ten thresholds around d/2
make eleven numbers of it, and d is such that the AUC of those is what was asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist

from grid.engines.base import Prompt
from grid.engines.simulated.places import Places
from grid.text.untrusted import loads
from grid.types import FINISH, MAX_SCORE

_FINISH = f'{{"tool": "{FINISH}"'
_STEP = 0.5  # between two thresholds
_FARTHEST = 20.0  # of d; no AUC that a double tells from 1 needs more
_HALVINGS = 60


def score(auc: float, right: bool, uniform: float) -> int:
    """The score, 0 to MAX_SCORE, that a uniform number stands for."""
    wrong_shares, right_shares = shares(auc)
    return min(bisect_right(list(accumulate(right_shares if right else wrong_shares)), uniform), MAX_SCORE)


def is_right(prompt: Prompt, places: Places) -> bool:
    """Whether the call that a judge is shown is the reference's.

    Of all steps together: whether none that is needed went wrong. After the call: whether it is the tool of one of the
    reference's calls and returned something. Before it: whether it is the call at the prompt's point.
    """
    proposal, outcome = prompt.entries("proposal"), prompt.entries("outcome")
    if len(proposal) == 1:
        return places.failed(prompt) is None
    call = proposal[-1] if proposal else ""
    if outcome:
        found = loads(call) if call.startswith("{") else {}
        tools = {known.tool for known in places.calls.values()}
        return "failed" not in outcome[0] and isinstance(found, dict) and found.get("tool") in tools
    at = places.left(prompt, 1)
    if not at:
        return False
    here = at[0]
    if here.call:
        return call == here.call.text()
    return call.startswith(_FINISH) if here.step is None else call == "none"


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

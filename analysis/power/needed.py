"""The cases that a wanted power needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.power.claims import Claim, Design, probit
from analysis.power.simulation import Found, simulated

_SKEWED = 0.2
"""The skewness of a mean difference from which the formula is 1 to 4 points too low, and simulation corrects it."""
_STUDIES, _CASES_DRAWN, _LEAST_STUDIES = 8_000, 10_000_000, 200


def needed(design: Design, power: float, least: int = 2) -> Claim:
    """The smallest number of cases that has the power; of all there are, where that is not enough."""
    most = len(design.order)
    high = min(max(least, 8), most)
    found, low = design.claim(high), least - 1
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


def checked(design: Design, cases: int, studies: int, seed: Sequence[int]) -> Found:
    """The power of the first so many cases in simulated studies; of large ones fewer are drawn."""
    drawn = max(min(studies, _CASES_DRAWN // cases), _LEAST_STUDIES)
    return simulated(design.latent, design.rates, design.sizes(cases), design.trials, design.alpha, drawn, seed)


def corrected(design: Design, power: float, seed: Sequence[int]) -> Claim:
    """As `needed`; where the mean difference is skewed, the formula is first set right by simulated studies.

    What they add to it, in probits, stays with the design (`shift`).
    """
    claim = needed(design, power)
    if abs(design.skewness(claim.cases)) < _SKEWED:
        return claim
    found = checked(design, claim.cases, _STUDIES, seed)
    design.shift += probit(found.share) - probit(claim.power)
    return needed(design, power)

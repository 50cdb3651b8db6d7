"""The designs that would do: for each number of trials the cases needed, how sure that number is, and its power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.power.claims import Claim, Design, endless, needed
from analysis.power.latent import Latent
from analysis.power.pilot import Counts, fitted
from analysis.power.simulation import Found, simulated

MOST = 200_000
"""Cases, where nothing else says how many there are."""
_RESAMPLES = 200
_CASES_DRAWN = 5_000_000
"""Over all simulated studies of a design; fewer studies are drawn where they are large."""
_LEAST_STUDIES = 200


@dataclass(frozen=True)
class Wanted:
    """What is asked: a difference (a share, below 0 for a worse planner), a power, and the test's level.

    `alpha` is each test's own, after what several comparisons take of it; `studies` are drawn to check each design.
    """

    difference: float
    power: float
    alpha: float
    trials: Sequence[int]
    studies: int
    seed: int


@dataclass(frozen=True)
class Row:
    """A number of trials with the cases that it needs.

    `enough`: the cases reach the power; else they are all there are, and `beyond` says how many it would take if there
    were more like these (None: more than `MOST`). `low` and `high` are the bounds of the number's 95% interval, NaN
    without a pilot and infinite where even all cases would be too few. `found`: the power in simulated studies.
    """

    trials: int
    claim: Claim
    enough: bool
    beyond: int | None
    low: float
    high: float
    found: Found

    @property
    def cells(self) -> int:
        """Of both planners."""
        return 2 * self.claim.cases * self.trials


def rows(
    latent: Latent, rate: float, order: npt.NDArray[np.int64], wanted: Wanted, pilot: Counts | None, icc: float | None
) -> list[Row]:
    """A row for each number of trials.

    Args:
        latent: how alike cells are.
        rate: the reference's success, a share.
        order: the cluster of each further case that there is.
        wanted: the question.
        pilot: what `latent` was estimated from, for the interval; None: it was given.
        icc: what `latent` was told, as in `fitted`.
    """
    rates = (rate, rate + wanted.difference)
    bounds = _bounds(pilot, icc, order, wanted) if pilot else {}
    found = []
    for trials in wanted.trials:
        design = Design(latent, rates, trials, wanted.alpha, order)
        claim = needed(design, wanted.power)
        enough = claim.power >= wanted.power
        beyond = None if enough else _beyond(design, wanted.power)
        low, high = bounds.get(trials, (math.nan, math.nan))
        found.append(Row(trials, claim, enough, beyond, low, high, _checked(design, claim, wanted)))
    return found


def false_alarms(latent: Latent, rate: float, order: npt.NDArray[np.int64], row: Row, wanted: Wanted) -> Found:
    """In how many simulated studies of a row's design the test finds a difference where there is none."""
    return _checked(Design(latent, (rate, rate), row.trials, wanted.alpha, order), row.claim, wanted)


def _checked(design: Design, claim: Claim, wanted: Wanted) -> Found:
    sizes = design.sizes(claim.cases)
    studies = max(min(wanted.studies, _CASES_DRAWN // claim.cases), _LEAST_STUDIES)
    return simulated(design.latent, design.rates, sizes, design.trials, wanted.alpha, studies, wanted.seed)


def _beyond(design: Design, power: float) -> int | None:
    """The cases that would be needed if further clusters were like those there are."""
    more = endless([int(size) for size in design.sizes(len(design.order))], MOST)
    claim = needed(Design(design.latent, design.rates, design.trials, design.alpha, more), power)
    return claim.cases if claim.power >= power else None


def _bounds(
    pilot: Counts, icc: float | None, order: npt.NDArray[np.int64], wanted: Wanted
) -> dict[int, tuple[float, float]]:
    """By trials the 2.5th and 97.5th percentile of the cases needed, over pilots of clusters drawn with replacement.

    Resamples in which the difference cannot be, or where nothing varies, are drawn again.
    """
    rng = np.random.default_rng(wanted.seed)
    found: dict[int, list[float]] = {trials: [] for trials in wanted.trials}
    for _ in range(2 * _RESAMPLES):
        drawn = pilot.drawn(rng)
        rate = drawn.rates[0]
        if not (0 < rate < 1 and 0 < rate + wanted.difference < 1):
            continue
        latent = fitted(drawn, icc)
        for trials, values in found.items():
            design = Design(latent, (rate, rate + wanted.difference), trials, wanted.alpha, order)
            claim = needed(design, wanted.power)
            values.append(claim.cases if claim.power >= wanted.power else math.inf)
        if all(len(values) == _RESAMPLES for values in found.values()):
            break
    return {trials: _percentiles(values) for trials, values in found.items() if values}


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)

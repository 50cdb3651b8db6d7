"""The designs that would do: for each number of trials the cases needed, how sure that number is, and its power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analysis.intervals import ROUNDING, error_of
from analysis.power.claims import Claim, Design
from analysis.power.latent import Latent
from analysis.power.needed import checked, corrected, endless, needed
from analysis.power.pilot import Counts, fitted
from analysis.power.simulation import Found
from analysis.significance import LEVEL, POWER

MOST = 200_000
"""Cases, where nothing else says how many there are."""
_RESAMPLES = 200
_CORRECTING, _CHECKING = 1, 2
"""What tells the studies that correct a formula from those that check it."""


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
    designs = [Design(latent, rates, trials, wanted.alpha, order) for trials in wanted.trials]
    claims = [corrected(design, wanted.power, [wanted.seed, _CORRECTING]) for design in designs]
    bounds = _bounds(pilot, icc, designs, wanted) if pilot else [(math.nan, math.nan)] * len(designs)
    found = []
    for design, claim, (low, high) in zip(designs, claims, bounds, strict=True):
        enough = claim.power >= wanted.power
        beyond = None if enough else _beyond(design, wanted.power)
        power = checked(design, claim.cases, wanted.studies, [wanted.seed, _CHECKING])
        found.append(Row(design.trials, claim, enough, beyond, low, high, power))
    return found


def false_alarms(latent: Latent, rate: float, order: npt.NDArray[np.int64], row: Row, wanted: Wanted) -> Found:
    """In how many simulated studies of a row's design the test finds a difference where there is none."""
    design = Design(latent, (rate, rate), row.trials, wanted.alpha, order)
    return checked(design, row.claim.cases, wanted.studies, [wanted.seed, _CHECKING])


def settling(pilot: Counts) -> float:
    """How many cases would show a difference like the pilot's, by the formula of `rows` without simulated studies.

    These are cases in all, with as many trials and in clusters like the pilot's; POWER and LEVEL are those of a single
    test. Infinite beyond MOST; NaN where nothing can be said: without cases, of one cluster, where no case differs from
    another, and where the difference is 0.
    """
    difference = pilot.rates[1] - pilot.rates[0] if pilot.clusters > 1 else 0.0
    if abs(difference) < ROUNDING or error_of(pilot.differences) is None:
        return math.nan
    order = _further(tuple(int(size) for size in pilot.sizes))
    claim = needed(Design(fitted(pilot), pilot.rates, pilot.trials, LEVEL, order), POWER)
    return claim.cases if claim.power >= POWER else math.inf


@lru_cache(maxsize=8)
def _further(sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """MOST cases in clusters of such sizes: planners of one report have the same, and it takes a while."""
    return endless(sizes, MOST)


def _beyond(design: Design, power: float) -> int | None:
    """The cases that would be needed if further clusters were like those there are."""
    more = _further(tuple(int(size) for size in design.sizes(len(design.order))))
    claim = needed(Design(design.latent, design.rates, design.trials, design.alpha, more), power)
    return claim.cases if claim.power >= power else None


def _bounds(pilot: Counts, icc: float | None, designs: Sequence[Design], wanted: Wanted) -> list[tuple[float, float]]:
    """The 2.5th and 97.5th percentile of the cases each needs, over pilots of clusters drawn with replacement.

    Resamples in which the difference cannot be are drawn again; NaN where most are such.
    """
    rng = np.random.default_rng(wanted.seed)
    found: list[list[float]] = []
    for _ in range(2 * _RESAMPLES):
        drawn = pilot.drawn(rng)
        rates = (drawn.rates[0], drawn.rates[0] + wanted.difference)
        if len(found) == _RESAMPLES or not all(0 < rate < 1 for rate in rates):
            continue
        latent = fitted(drawn, icc)
        found.append([_cases(design, Design(latent, rates, design.trials, design.alpha, design.order), wanted.power)
                      for design in designs])  # fmt: skip
    if len(found) < _RESAMPLES:
        return [(math.nan, math.nan)] * len(designs)
    low, high = np.quantile(found, [0.025, 0.975], axis=0, method="inverted_cdf")
    return [(float(one), float(other)) for one, other in zip(low, high, strict=True)]


def _cases(design: Design, resampled: Design, power: float) -> float:
    resampled.shift = design.shift
    claim = needed(resampled, power)
    return claim.cases if claim.power >= power else math.inf

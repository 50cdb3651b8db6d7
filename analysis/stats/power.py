"""Designs with enough cases: for each number of trials, the number of cases needed, its uncertainty, and the power."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from analysis.stats.intervals import LEVEL, POWER, ROUNDING, error_of, freedom
from analysis.stats.latent import EDGE, Claim, Counts, Design, Floats, Latent, Rates, fitted, probit

# Studies simulated from the model, and the share of them in which the report's own test finds a difference.


_CELLS = 2_000_000
"""The number of cases that are drawn at once."""


class Found(NamedTuple):
    """The share of studies in which the test found a difference, and its Monte Carlo standard error."""

    share: float
    error: float


def simulated(
    latent: Latent, rates: Rates, sizes: Floats, trials: int, alpha: float, studies: int, seed: Sequence[int]
) -> Found:
    """Draw studies over clusters of these sizes, and test each study."""
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
    """Each case's mean difference over trials, other planner minus reference: (studies, cases), sorted by cluster."""
    whole = sizes.astype(np.int64)
    of_clusters = _effects(rng, latent.own_cluster, latent.other_cluster, (studies, len(whole)))
    own, other = latent.own_case - latent.own_cluster, latent.other_case - latent.other_cluster
    effects = np.repeat(of_clusters, whole, axis=2) + _effects(rng, own, other, (studies, int(whole.sum())))
    start = ndtri(np.clip(rates, EDGE, 1 - EDGE))[:, None, None]
    won = rng.binomial(trials, ndtr((start + effects) / math.sqrt(max(1 - latent.own_case, EDGE))))
    found: Floats = (won[1] - won[0]) / trials
    return found


def _effects(rng: np.random.Generator, own: float, other: float, shape: tuple[int, int]) -> Floats:
    """Drawn effects of both planners (2, *shape) with variance `own` and covariance `other`."""
    if own <= 0:
        return np.zeros((2, *shape))
    first, second = rng.standard_normal((2, *shape))
    shared = other / own
    return math.sqrt(own) * np.stack([first, shared * first + math.sqrt(max(1 - shared**2, 0.0)) * second])


def rejected(differences: Floats, sizes: Floats, alpha: float) -> npt.NDArray[np.bool_]:
    """For each study (a row), whether the interval of `intervals.interval` with reach 1 excludes 0.

    Args:
        differences: (studies, cases), with the cases of a cluster in adjacent columns.
        sizes: the number of cases of each cluster, for at least two clusters.
        alpha: 0.05 for the 95% interval.
    """
    cases = float(sizes.sum())
    shares = sizes / cases
    mean = differences.mean(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    sums = np.add.reduceat(differences, starts, axis=1) - sizes * mean[:, None]
    errors = np.sqrt((sums**2 / (1 - shares)).sum(axis=1)) / cases
    quantile = stdtrit(freedom(shares), 1 - alpha / 2)
    alike = 1 / float((shares**2).sum())  # the effective number of clusters
    square = float(stdtrit(alike - 1, 1 - alpha / 2)) ** 2
    certain = np.abs(mean) > square / (alike + square) * (1 + np.abs(mean))
    return np.where(errors < ROUNDING, certain, np.abs(mean) > quantile * errors)


MOST = 200_000
"""Maximum number of cases, unless the number of available cases is given."""
_RESAMPLES = 200
_CORRECTING, _CHECKING = 1, 2
"""Parts of seeds: for studies that correct the formula, and for studies that check the formula's result."""


@dataclass(frozen=True)
class Wanted:
    """The question: the difference to find (a share, below 0 for a worse planner), the power, and the test's level.

    `alpha` is the level of each test, after the correction for several comparisons. `studies` is the number of studies
    that are drawn to check a design.
    """

    difference: float
    power: float
    alpha: float
    trials: Sequence[int]
    studies: int
    seed: int


@dataclass(frozen=True)
class Row:
    """A number of trials, and the number of cases that are needed with it.

    `enough` is true if the available cases reach the power. Otherwise the number of cases is the number of all
    available cases, and `beyond` is the number that would be needed if more cases like these were available (None: more
    than `MOST`). `low` and `high` are the bounds of the number's 95% interval; they are NaN without a pilot or if the
    difference is impossible in most resampled pilots, and infinite if even all cases would be too few. `found` is the
    power in simulated studies.
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
        """The number of cells of both planners."""
        return 2 * self.claim.cases * self.trials


def rows(
    latent: Latent, rate: float, order: npt.NDArray[np.int64], wanted: Wanted, pilot: Counts | None, icc: float | None
) -> list[Row]:
    """A row for each number of trials.

    Args:
        latent: the correlations between cells.
        rate: the reference's success, as a share.
        order: the cluster of each available case, in the order in which cases are added.
        wanted: the question.
        pilot: the counts from which `latent` was estimated, for the interval; None: `latent` was given.
        icc: the share that was given for `latent`, as in `fitted`.
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
    """The share of simulated studies of a row's design in which the test finds a difference although there is none."""
    design = Design(latent, (rate, rate), row.trials, wanted.alpha, order)
    return checked(design, row.claim.cases, wanted.studies, [wanted.seed, _CHECKING])


def settling(pilot: Counts) -> float:
    """The number of cases needed to show a difference like the pilot's, by the formula, without simulated studies.

    This is the total number of cases, with as many trials as in the pilot, in clusters like the pilot's. POWER and
    LEVEL apply to a single test. The number is infinite if it is above MOST. The number is NaN if the pilot has no
    cases, a single cluster or a difference of 0, or if no case differs from another.
    """
    difference = pilot.rates[1] - pilot.rates[0] if pilot.clusters > 1 else 0.0
    if abs(difference) < ROUNDING or error_of(pilot.differences) is None:
        return math.nan
    order = _further(tuple(int(size) for size in pilot.sizes))
    claim = needed(Design(fitted(pilot), pilot.rates, pilot.trials, LEVEL, order), POWER)
    return claim.cases if claim.power >= POWER else math.inf


@lru_cache(maxsize=8)
def _further(sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """The order of MOST cases in clusters of these sizes.

    The result is cached, because planners of one report share it and it takes a long time to compute.
    """
    return endless(sizes, MOST)


def _beyond(design: Design, power: float) -> int | None:
    """The number of cases needed if further clusters were like the available clusters; None if it is above MOST."""
    more = _further(tuple(int(size) for size in design.sizes(len(design.order))))
    cases = _cases(design, Design(design.latent, design.rates, design.trials, design.alpha, more), power)
    return None if math.isinf(cases) else int(cases)


def _bounds(pilot: Counts, icc: float | None, designs: Sequence[Design], wanted: Wanted) -> list[tuple[float, float]]:
    """The 2.5th and 97.5th percentiles of the number of cases that each design needs, over resampled pilots.

    A pilot's clusters are drawn with replacement. Resamples in which the difference is impossible are drawn again; the
    percentiles are NaN if most resamples are impossible.
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


def _cases(design: Design, other: Design, power: float) -> float:
    """The number of cases that another design needs with the first design's correction; infinite if it has too few."""
    other.shift = design.shift
    claim = needed(other, power)
    return claim.cases if claim.power >= power else math.inf


# The number of cases needed for a wanted power.


_SKEWED = 0.2
"""If a mean difference is this skewed or more, the formula's power is 1 to 4 points too low; simulation corrects it."""
_STUDIES, _CASES_DRAWN, _LEAST_STUDIES = 8_000, 10_000_000, 200


def needed(design: Design, power: float, least: int = 2) -> Claim:
    """The smallest number of cases that reaches the power, or the number of available cases if these are too few."""
    most = len(design.order)
    high = min(max(least, 8), most)
    found, low = design.claim(high), least - 1
    while found.power < power and high < most:
        low, high = high, min(2 * high, most)
        found = design.claim(high)
    if found.power < power:
        return found
    fewer = range(high - 1, low, -1)
    return design.claim(high - bisect_left(fewer, True, key=lambda cases: design.claim(cases).power < power))


def endless(sizes: Sequence[int], most: int) -> npt.NDArray[np.int64]:
    """An order of `most` cases, cluster by cluster; the given sizes of clusters repeat in random order."""
    rng = np.random.default_rng(0)
    each = np.array(sizes)
    rounds = math.ceil(most / int(each.sum()))
    drawn = np.concatenate([rng.permutation(each) for _ in range(rounds)])
    return np.repeat(np.arange(len(drawn)), drawn)[:most]


def checked(design: Design, cases: int, studies: int, seed: Sequence[int]) -> Found:
    """The power with the first `cases` cases in simulated studies; fewer studies are drawn if each is large."""
    drawn = max(min(studies, _CASES_DRAWN // cases), _LEAST_STUDIES)
    return simulated(design.latent, design.rates, design.sizes(cases), design.trials, design.alpha, drawn, seed)


def corrected(design: Design, power: float, seed: Sequence[int]) -> Claim:
    """The result of `needed`; if the mean difference is skewed, the formula is first corrected by simulation.

    The correction, in probits, is stored in the design (`shift`).
    """
    claim = needed(design, power)
    if abs(design.skewness(claim.cases)) < _SKEWED:
        return claim
    found = checked(design, claim.cases, _STUDIES, seed)
    design.shift += probit(found.share) - probit(claim.power)
    return needed(design, power)


# Sentences on what a pilot leaves uncertain.


_FEW = 20
"""With fewer clusters than this, variances are hardly known."""
_WIDE = 3.0
"""If an interval's high end is more than this many times its low end, the number of cases is hardly known."""
_SHARING = 10
"""Minimum number of clusters with two or more cases to estimate how alike the cases of a cluster are."""
_ALONE = 1.5
"""With at most this many cases per cluster, it hardly matters how alike the cases of a cluster are."""


def doubts(pilot: Counts, rows: Sequence[Row], sizes: Floats, icc: float | None) -> list[str]:
    """A line for each doubt about the conclusions from a pilot.

    Args:
        pilot: the pilot's counts.
        rows: the designs that were found.
        sizes: the number of cases of each cluster in the recommended design.
        icc: the given share of variances between clusters, as in `fitted`.
    """
    found = []
    if pilot.clusters < _FEW:
        found.append(f"the pilot has only {pilot.clusters:,} clusters of cases, so its variances are rough estimates")
    sharing, each = int((pilot.sizes > 1).sum()), float((sizes**2).sum() / sizes.sum())
    if icc is None and sharing < _SHARING and each > _ALONE:
        found.append(
            f"in the design the average case is in a cluster of {each:.1f} cases, but in the pilot only {sharing:,} "
            f"clusters have two or more cases; {_taken(pilot, sharing)}; run a larger pilot, or give the "
            "similarity of the cases of a cluster with --icc"
        )
    wide = [row for row in rows if not row.high <= _WIDE * row.low and not math.isnan(row.low)]
    if wide:
        found.append(
            f"the pilot says little about how many cases are needed (see the intervals for {_trials(wide)}); run "
            "a larger pilot"
        )
    if pilot.trials < 2:
        found.append("no case has two trials of each planner, so the gain from more trials is not known")
    return found


def _taken(pilot: Counts, sharing: int) -> str:
    if sharing or pilot.trials < 2:
        return "there is little evidence of how similar the cases of a cluster are"
    return "all differences between cases count as differences between clusters, which is the worst case"


def _trials(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row.trials} trial{'s' * (row.trials > 1)}" for row in rows)

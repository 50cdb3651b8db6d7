"""Power: the mathematics against brute force and simulated studies, and what a pilot gives back of what was planted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kurtosis, multivariate_normal, norm, skew

from analysis.errors import AnalysisError
from analysis.stats.intervals import CLUSTER, LEVEL, POWER, interval, p_value
from analysis.stats.latent import (
    Counts,
    Design,
    Floats,
    Latent,
    Moments,
    Rates,
    components,
    counts,
    covariance,
    covariances,
    fitted,
    planted,
    probit,
)
from analysis.stats.power import Wanted, differences, doubts, endless, needed, rejected, rows, settling, simulated
from tests.studies import power_designs as power

RATES: Rates = (0.3, 0.4)
LATENT = Latent(0.5, 0.2, 0.4, 0.1)
MOST = 20_000


def drawn(seed: int, latent: Latent, rates: Rates, sizes: Floats, trials: int) -> Counts:
    """A pilot from the model, cell by cell: normal effects, a threshold, and no code of the package's."""
    rng, tried = np.random.default_rng(seed), np.full((int(sizes.sum()), 2), float(trials))

    def effects(own: float, other: float, count: int) -> Floats:
        return rng.multivariate_normal([0, 0], [[own, other], [other, own]], count)

    cluster = np.repeat(np.arange(len(sizes)), sizes.astype(int))
    of_cluster = effects(latent.own_cluster, latent.other_cluster, len(sizes))[cluster]
    rest = latent.own_case - latent.own_cluster, latent.other_case - latent.other_cluster
    of_case = of_cluster + effects(*rest, len(cluster))
    luck = rng.normal(0, np.sqrt(1 - latent.own_case), (trials, *of_case.shape))
    won = (of_case + luck < norm.ppf(rates)).sum(axis=0).astype(float)
    return Counts(cluster, won, tried)


def test_the_test_is_the_reports_interval() -> None:
    """Row by row it says whether the interval of `analysis.stats.intervals` leaves out 0, also where nothing varies."""
    rng = np.random.default_rng(0)
    both = set()
    for _ in range(60):
        sizes = rng.integers(1, 9, int(rng.integers(2, 15))).astype(float)
        cluster = pd.Index(np.repeat(np.arange(len(sizes)), sizes.astype(int)), name=CLUSTER)
        studies = rng.integers(-3, 4, (12, len(cluster))) / 3 + rng.choice([0.0, 0.3, 0.6], (12, 1))
        studies[:3] = np.array([[0.0], [1.0], [-1.0]])
        found = rejected(studies, sizes, 0.05)
        for study, said in zip(studies, found, strict=True):
            _, low, high = interval(pd.Series(study, index=cluster), reach=1.0)
            assert said == (low > 0 or high < 0)
        both |= set(found.tolist())
        stricter = rejected(studies, sizes, 0.001)
        assert (found | ~stricter).all()
    assert both == {True, False}


@pytest.mark.parametrize("correlation", [-0.95, -0.3, 0.0, 0.2, 0.7, 0.99])
def test_a_covariance_is_that_of_two_thresholds(correlation: float) -> None:
    for first, second in ((0.5, 0.5), (0.02, 0.9), (0.3, 0.35), (0.97, 0.99)):
        both = multivariate_normal.cdf(norm.ppf([first, second]), cov=[[1, correlation], [correlation, 1]])
        assert covariance(first, second, correlation) == pytest.approx(both - first * second, abs=2e-6)
    assert covariance(0.3, 0.3, 1.0) == pytest.approx(0.21, abs=1e-6)
    assert covariance(0.0, 0.3, 0.5) == pytest.approx(0.0, abs=1e-6)


def test_variances_and_moments_are_those_of_drawn_studies() -> None:
    rng, sizes = np.random.default_rng(1), np.array([1.0, 1, 2, 4, 9])
    latent, rates = Latent(0.6, 0.4, 0.45, 0.3), (0.05, 0.15)
    means = differences(rng, latent, rates, sizes, 3, 60_000).mean(axis=1)
    design = Design(latent, rates, 3, 0.05, np.zeros(1, dtype=np.int64))
    assert means.mean() == pytest.approx(0.1, abs=0.001)
    assert means.std() == pytest.approx(design.error(sizes), rel=0.02)
    third, fourth = Moments(latent, rates, 3).of(sizes)
    assert third > 0.5
    assert skew(means) == pytest.approx(third, abs=0.05)
    assert kurtosis(means) == pytest.approx(fourth, abs=0.15)


def test_components_add_up_to_the_variance_of_one_cell() -> None:
    """Of independent cells the difference varies by p (1 - p) of both, all of it luck."""
    free = components(Latent(0.0, 0.0, 0.0, 0.0), RATES)
    assert free == pytest.approx((0.0, 0.0, 0.3 * 0.7 + 0.4 * 0.6))
    found = components(LATENT, RATES)
    assert sum(found) == pytest.approx(0.45 - 2 * covariance(*RATES, LATENT.other_case))
    repeated = components(planted(50.0, 0.0, 0.0), (0.3, 0.3))
    assert repeated.trial < 0.02
    assert components(planted(1.0, 1.0, 0.5), RATES).clusters > components(planted(1.0, 1.0, 0.1), RATES).clusters


def test_a_pilot_gives_back_what_was_planted() -> None:
    sizes = np.random.default_rng(2).integers(1, 9, 400).astype(float)
    found = [fitted(drawn(seed, LATENT, RATES, sizes, 3)) for seed in range(8)]
    assert np.mean(found, axis=0) == pytest.approx(LATENT, abs=0.03)


def test_a_pilots_error_is_that_of_its_own_interval() -> None:
    sizes = np.tile([1.0, 2, 3, 6], 60)
    pilot = drawn(3, LATENT, RATES, sizes, 2)
    design = Design(fitted(pilot), pilot.rates, 2, 0.05, pilot.cluster)
    mean, low, high = interval(pilot.differences, reach=1.0)
    assert mean == pytest.approx(pilot.rates[1] - pilot.rates[0])
    assert design.error(pilot.sizes.astype(float)) == pytest.approx((high - low) / 2 / 1.97, rel=0.1)


def test_what_a_pilot_cannot_tell() -> None:
    alone = drawn(4, LATENT, RATES, np.ones(80), 2)
    assert np.isnan(covariances(alone).own_cluster)
    worst = fitted(alone)
    assert (worst.own_cluster, worst.other_cluster) == (worst.own_case, worst.other_case)
    told = fitted(alone, icc=0.25)
    assert told.own_cluster == pytest.approx(0.25 * told.own_case)
    once = drawn(5, LATENT, RATES, np.full(200, 4.0), 1)
    assert np.isnan(covariances(once).own_case)
    design = Design(fitted(once), once.rates, 1, 0.05, once.cluster)
    wanted = Design(LATENT, once.rates, 1, 0.05, once.cluster)
    assert design.error(once.sizes.astype(float)) == pytest.approx(wanted.error(once.sizes.astype(float)), rel=0.1)
    with pytest.raises(AnalysisError, match="1 clusters"):
        fitted(drawn(6, LATENT, RATES, np.array([30.0]), 2))


def test_cases_are_the_fewest_that_do() -> None:
    order = endless([1, 2, 5], MOST)
    cases = {}
    for difference in (0.05, 0.1, 0.2):
        for trials in (1, 5):
            design = Design(LATENT, (0.3, 0.3 + difference), trials, 0.05, order)
            claim = needed(design, 0.8)
            assert design.claim(claim.cases - 1).power < 0.8 <= claim.power
            assert claim.clusters == len(design.sizes(claim.cases))
            cases[difference, trials] = claim.cases
    assert cases[0.05, 1] > cases[0.1, 1] > cases[0.2, 1]
    assert all(cases[difference, 5] < cases[difference, 1] for difference in (0.05, 0.1, 0.2))
    stricter = needed(Design(LATENT, RATES, 1, 0.01, order), 0.8)
    assert stricter.cases > cases[0.1, 1]
    mirrored = needed(Design(LATENT, (0.6, 0.7), 1, 0.05, order), 0.8)
    back = needed(Design(LATENT, (0.4, 0.3), 1, 0.05, order), 0.8)
    assert mirrored.cases == pytest.approx(back.cases, abs=1), "success and failure change places"


def test_cases_that_settle_a_difference_are_those_of_power_and_have_the_power_that_is_promised() -> None:
    sizes = np.tile([1.0, 2, 3, 6], 150)
    pilot = drawn(7, LATENT, RATES, sizes, 2)
    found = settling(pilot)
    order, difference = endless([int(size) for size in pilot.sizes], MOST), pilot.rates[1] - pilot.rates[0]
    wanted = Wanted(difference, POWER, LEVEL, [2], 200, 0)
    (row,) = rows(fitted(pilot), pilot.rates[0], order, wanted, None, None)
    assert found == row.claim.cases, "as `agent-grid power` says it"
    design = Design(LATENT, pilot.rates, 2, LEVEL, order)
    share, error = simulated(LATENT, pilot.rates, design.sizes(int(found)), 2, LEVEL, 4_000, [0])
    assert share == pytest.approx(POWER, abs=0.04 + 3 * error)


def test_an_open_difference_needs_more_cases_than_there_are() -> None:
    opened = 0
    for seed in range(60):
        sizes = [np.ones(40), np.array([1.0, 2, 3, 4] * 6), np.full(12, 5.0)][seed % 3]
        pilot = drawn(seed, LATENT, RATES, sizes, 1 + seed % 2)
        if p_value(pilot.differences, reach=1.0) > LEVEL and pilot.differences.mean() != 0:
            opened += 1
            assert settling(pilot) > len(pilot.won)
    assert opened > 20


def test_where_nothing_can_be_said_of_what_settles_a_difference() -> None:
    def told(cluster: list[int], won: list[list[float]], trials: float = 1.0) -> float:
        table = np.array(won, dtype=np.float64).reshape(-1, 2)
        return settling(Counts(np.array(cluster, dtype=np.int64), table, np.full_like(table, trials)))

    assert np.isnan(told([], []))
    assert np.isnan(told([0, 0], [[0, 1], [1, 1]])), "one cluster"
    assert np.isnan(told([0, 1], [[0, 1], [0, 1]])), "no case differs from another"
    assert np.isnan(told([0, 1], [[0, 1], [1, 0]])), "no difference"
    assert np.isnan(told([0, 1, 2], [[1, 0], [0, 1 / 3], [0, 2 / 3]], 3.0)), "none but for rounding"
    alike = [[float(case % 2), float(case % 2)] for case in range(400)]
    assert told(list(range(401)), [*alike, [0, 1]]) > 401
    even = [[float(case % 2), float(case // 2 % 2)] for case in range(4_000)]
    assert told(list(range(4_001)), [*even, [0, 1]]) == np.inf, "more than anybody runs"
    assert told(list(range(20)), [[0, float(case < 3)] for case in range(20)]) > 20, "a reference that never succeeds"


def test_cases_beyond_those_there_are_have_the_power_after_the_correction_by_simulation() -> None:
    """Rare successes: the formula says too few cases, of those that there are and of those that there are not."""
    latent, rates, wanted = planted(2.0, 1.0, 0.3), (0.02, 0.08), Wanted(0.06, 0.8, 0.05, [1], 200, 0)
    (row,) = rows(latent, rates[0], endless([4] * 5, 120), wanted, None, None)
    assert row.beyond is not None
    plain = Design(latent, rates, 1, 0.05, endless([4], MOST))
    corrected = Design(latent, rates, 1, 0.05, endless([4], MOST))
    corrected.shift = probit(row.claim.power) - probit(plain.claim(120).power)
    assert corrected.shift < -0.01
    assert corrected.claim(row.beyond - 1).power < 0.8 <= corrected.claim(row.beyond).power
    assert row.beyond > needed(plain, 0.8).cases


def test_more_cases_of_the_same_clusters_do_not_always_do() -> None:
    few = np.arange(4_000) % 12
    claim = needed(Design(LATENT, RATES, 3, 0.05, few), 0.8)
    assert claim.cases == 4_000
    assert claim.power < 0.8
    assert needed(Design(LATENT, RATES, 3, 0.05, np.arange(4_000)), 0.8).power >= 0.8


def test_without_a_difference_power_is_the_level() -> None:
    for sizes, alpha in (([1], 0.05), ([1, 7], 0.01)):
        claim = Design(LATENT, (0.4, 0.4), 3, alpha, endless(sizes, 300)).claim(300)
        assert claim.power == pytest.approx(alpha, abs=0.002)


@pytest.mark.long
def test_claimed_power_is_within_3_points_of_simulated() -> None:
    """On the benchmark's six designs, of rates 3 to 97% and 9 to 517 clusters; its table has more studies."""
    found = list(power.compared(0.8, studies=1_200, seed=3))
    assert len(found) == 6
    for one in found:
        assert abs(one.claim.power - one.found.share) < 0.03 + 2 * one.found.error, one.given.name
        assert one.claim.power >= 0.8
        assert one.null.share < 0.07


@pytest.mark.long
def test_the_interval_of_cases_holds_what_the_truth_needs() -> None:
    """Of 4 pilots of 60 clusters most intervals hold the cases that the planted model needs."""
    order, sizes = endless([1, 3], MOST), np.tile([1.0, 3.0], 30)
    wanted = Wanted(0.1, 0.8, 0.05, (3,), 200, 0)
    truth = needed(Design(LATENT, RATES, 3, 0.05, order), 0.8).cases
    held = []
    for seed in range(4):
        pilot = drawn(20 + seed, LATENT, RATES, sizes, 3)
        (row,) = rows(fitted(pilot), pilot.rates[0], order, wanted, pilot, None)
        assert row.low <= row.claim.cases <= row.high
        held.append(row.low <= truth <= row.high)
    assert sum(held) >= 3


def test_doubts() -> None:
    wanted = Wanted(0.1, 0.8, 0.05, (1,), 200, 0)
    for pilot, size, expected in (
        (drawn(7, LATENT, RATES, np.ones(12), 1), 5.0, ["12 clusters", "only 0 clusters have two", "two trials"]),
        (drawn(8, LATENT, RATES, np.full(60, 3.0), 3), 3.0, []),
    ):
        found = rows(fitted(pilot), 0.3, endless([1], 5_000), wanted, None, None)
        told = doubts(pilot, found, np.full(40, size), None)
        assert len(told) == len(expected)
        assert all(part in line for part, line in zip(expected, told, strict=True))


def test_counts_take_common_cases_with_known_success() -> None:
    cells = [
        *(
            ("a", "1", "x", 1.0),
            ("b", "1", "x", 0.0),
            ("a", "1", "x", 0.0),
            ("a", "2", "x", 1.0),
            ("b", "2", "x", None),
        ),
        *(("c", "3", "y", 1.0), ("a", "3", "y", 1.0), ("b", "3", "y", 1.0), ("b", "4", "y", 1.0)),
    ]
    frame = pd.DataFrame(cells, columns=["planner", "case_id", "cluster", "success"])
    found = counts(frame, "a", "b")
    assert found.tried.tolist() == [[2, 1], [1, 1]]
    assert found.won.tolist() == [[1, 0], [1, 1]]
    assert (found.clusters, found.trials, found.rates) == (2, 1, (0.75, 0.5))
    assert not len(counts(frame, "a", "nobody").cluster)

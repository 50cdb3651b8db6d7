"""Calibration error, risk-coverage and AUROC: by hand, by brute force, and intervals that cover what was planted."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from analysis.stats import calibration, intervals
from analysis.stats.intervals import CLUSTER

Numbers = npt.NDArray[np.float64]
DECISIONS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=7)


def decisions(confidence: Numbers, right: Numbers, cluster: npt.NDArray[np.intp] | None = None) -> pd.DataFrame:
    names = np.arange(len(right)) if cluster is None else cluster
    return pd.DataFrame({"confidence": confidence, "right": right, CLUSTER: names.astype(str)})


def names(clusters: npt.NDArray[np.intp]) -> pd.Series[str]:
    return pd.Series(clusters.astype(str))


def test_votes_of_ten_have_a_bin_each_whatever_rounding_does() -> None:
    shares = np.array([votes / 10 for votes in range(1, 11)])
    added = np.cumsum(np.full(10, 0.1))  # 0.30000000000000004, 0.7999999999999999
    assert list(calibration.equal_widths(shares)) == list(calibration.equal_widths(added)) == list(range(10))
    assert list(calibration.equal_widths(np.array([0.0, 0.0999, 0.101, 1.0]))) == [0, 0, 1, 9]


def test_bins_of_equal_mass_hold_as_many_and_never_part_equals() -> None:
    rng = np.random.default_rng(0)
    assert set(np.bincount(calibration.equal_masses(rng.random(500)))) == {50}
    votes = rng.binomial(10, 0.9, 300) / 10
    bins = calibration.equal_masses(votes)
    assert all(len(set(bins[votes == value])) == 1 for value in set(votes))
    assert set(calibration.equal_masses(np.ones(5))) == {0}


def test_the_plain_error_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    found = calibration.error(decisions(confidence, right), calibration.equal_widths(confidence))
    assert found.plain == pytest.approx(4 / 6 * 0.45 + 2 / 6 * 0.45)
    assert found.low <= found.corrected <= found.plain <= found.high


def test_one_cluster_has_no_bounds_and_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    confidence, right, cluster = rng.random(90), rng.integers(0, 2, 90).astype(float), rng.integers(0, 20, 90)
    alone = calibration.error(decisions(confidence, right, np.zeros(90, np.intp)), calibration.equal_widths(confidence))
    assert np.isnan([alone.corrected, alone.low, alone.high, alone.noise]).all()
    order = rng.permutation(90)
    first = calibration.error(decisions(confidence, right, cluster), calibration.equal_widths(confidence))
    again = decisions(confidence[order], right[order], cluster[order])
    assert calibration.error(again, calibration.equal_widths(confidence[order])) == pytest.approx(first)


def test_all_right_and_all_sure_is_no_certainty() -> None:
    found = calibration.error(decisions(np.ones(30), np.ones(30)), calibration.equal_widths(np.ones(30)))
    assert (found.plain, found.corrected, found.low) == (0.0, 0.0, 0.0)
    assert 0.01 < found.high < 0.25


def test_far_from_no_error_one_bin_has_the_interval_of_a_mean() -> None:
    """Sure of 0.95 where half is right: the error is the mean gap itself, with Student's interval on either side."""
    cluster = np.repeat(np.arange(40), 5)
    right = (np.arange(200) * 7 % 10 < 5).astype(float)
    right[:40] = 1.0 - right[:40]
    found = calibration.error(decisions(np.full(200, 0.95), right, cluster), np.zeros(200, np.intp))
    gaps = pd.Series(right - 0.95).groupby(cluster).mean()
    mean, low, high = intervals.interval(gaps.rename_axis("cluster"))
    assert found.plain == pytest.approx(-mean)
    assert (found.low, found.high) == pytest.approx((-high, -low), rel=0.02)


def drawn(rng: np.random.Generator, clusters: int, slope: float) -> tuple[Numbers, Numbers, npt.NDArray[np.intp]]:
    """Decisions of clusters that share luck and confidence; log odds of being right are slope x the confidence's."""
    cluster = np.repeat(np.arange(clusters), rng.integers(2, 13, clusters))
    effect, luck = rng.normal(size=(2, clusters))
    confidence = special.expit(2 + effect[cluster] + 1.5 * rng.normal(size=len(cluster)))
    latent = np.sqrt(0.3) * luck[cluster] + np.sqrt(0.7) * rng.normal(size=len(cluster))
    right = stats.norm.cdf(latent) < special.expit(slope * special.logit(confidence))
    return confidence, right.astype(float), cluster


@pytest.mark.long
@pytest.mark.parametrize("slope", [1.0, 0.4])
@pytest.mark.parametrize("of", [calibration.equal_widths, calibration.equal_masses])
def test_intervals_of_the_error_cover_what_was_planted(
    of: Callable[[Numbers], npt.NDArray[np.intp]], slope: float
) -> None:
    """Calibrated (slope 1: the true error is 0) and overconfident ones, 40 clusters; plain estimates are too high."""
    many = drawn(np.random.default_rng(0), 40_000, slope)
    truth = calibration.error(decisions(*many), of(many[0])).plain if slope != 1 else 0.0
    found = []
    for seed in range(80):
        some = drawn(np.random.default_rng(seed), 40, slope)
        found.append(calibration.error(decisions(*some), of(some[0])))
    covered = [one.low <= truth <= one.high for one in found]
    assert np.mean(covered) >= 0.87  # 93% and more of 300; three standard errors of 80 below
    plain, corrected = (np.median([getattr(one, name) for one in found]) for name in ("plain", "corrected"))
    assert plain > truth + 0.005
    assert abs(corrected - truth) < plain - truth
    assert np.mean([one.noise for one in found]) > 0.02


def kept_by_brute_force(entropy: Numbers, wrong: Numbers) -> Numbers:
    """The mean error rate of the first k over all orders that sort by entropy."""
    rates = [
        np.cumsum(wrong[list(order)]) / np.arange(1, len(wrong) + 1)
        for order in itertools.permutations(range(len(wrong)))
        if (np.diff(entropy[list(order)]) >= 0).all()
    ]
    return np.asarray(np.mean(rates, axis=0), dtype=np.float64)


@pytest.mark.long
@given(DECISIONS)
def test_ties_count_as_their_mean_over_orders(drawn: list[tuple[int, bool]]) -> None:
    entropy, wrong = (np.array(values, dtype=np.float64) for values in zip(*drawn, strict=True))
    found = calibration.risks(entropy, wrong)
    assert found.kept == pytest.approx(kept_by_brute_force(entropy, wrong))
    assert (found.perfect <= found.kept + 1e-12).all()
    assert found.kept[-1] == pytest.approx(wrong.mean())


def test_entropy_that_says_nothing_has_the_error_rate_everywhere() -> None:
    wrong = np.array([0.0, 1.0, 0.0, 0.0])
    assert calibration.risks(np.zeros(4), wrong).kept == pytest.approx(np.full(4, 0.25))
    assert calibration.area(np.zeros(4), wrong).mean() == pytest.approx(0.25)
    assert calibration.separation(np.zeros(4), wrong).mean() == 0.5


@given(DECISIONS)
def test_auroc_by_brute_force(drawn: list[tuple[int, bool]]) -> None:
    entropy, wrong = (np.array(values, dtype=np.float64) for values in zip(*drawn, strict=True))
    pairs = [(a > b) + (a == b) / 2 for a in entropy[wrong == 1] for b in entropy[wrong == 0]]
    found = calibration.separation(entropy, wrong).mean()
    assert found == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


def test_clusters_of_the_rarer_kind_tell_of_auroc() -> None:
    wrong = np.array([1.0] * 8 + [0.0] * 20)
    assert calibration.telling(wrong, names(np.array([0, 1, 2, 3] * 7))) == 4
    assert calibration.telling(wrong, names(np.arange(28))) == 8
    assert calibration.telling(1 - wrong, names(np.arange(28))) == 8
    assert calibration.telling(np.zeros(28), names(np.arange(28))) == 0


@pytest.mark.parametrize("digits", [1, 6])
def test_errors_are_those_of_the_jackknife(digits: int) -> None:
    """Leaving out one cluster at a time gives the same errors of both areas, with ties and without."""
    rng = np.random.default_rng(2)
    cluster = np.repeat(np.arange(80), 6)
    entropy = np.round(rng.random(480) + 0.3 * rng.normal(size=80)[cluster], digits)
    wrong = (rng.random(480) < special.expit(3 * entropy - 2.5)).astype(float)
    for of in (calibration.area, calibration.separation):
        left = [of(entropy[cluster != one], wrong[cluster != one]).mean() for one in range(80)]
        error = intervals.error_of(calibration.over_clusters(of(entropy, wrong), names(cluster)))
        assert error is not None
        assert error.size == pytest.approx(np.sqrt(79 * np.var(left)), rel=0.06)


def test_handing_over_by_hand() -> None:
    entropy = np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    wrong = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    five, ten, twenty, thirty, half = calibration.handed_over(entropy, wrong, names(np.arange(10)))
    assert (five.above, five.share, five.caught) == (0.8, 0.0, 0.0), "at most 5% of ten is nobody"
    assert five.error.mean == five.perfect == pytest.approx(0.3)
    assert [ten.above, ten.share, ten.error.mean] == pytest.approx([0.7, 0.1, 2 / 9])
    assert [twenty.error.mean, twenty.caught] == pytest.approx([1 / 8, 2 / 3])
    assert (thirty.perfect, half.perfect) == (0.0, 0.0)
    assert [half.share, half.error.mean] == pytest.approx([0.5, 1 / 5])
    equal = calibration.handed_over(np.ones(10), wrong, names(np.arange(10)))
    assert {one.share for one in equal} == {0.0}, "equal entropies go together"
    assert all(np.isnan(one.caught) for one in calibration.handed_over(entropy, np.zeros(10), names(np.arange(10))))

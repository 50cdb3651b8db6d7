"""Intervals are over clusters of cases: they cover, and equal what libraries and the matrix form say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import special, stats

from analysis.stats.intervals import MOST_TIMES, amount, interval, ratio, share
from analysis.tables.rates import paired_differences, results
from tests.unit.analysis.test_tables import row

Numbers = npt.NDArray[np.floating[Any]]
CLUSTERS, LARGEST, TRIALS = 66, 8, 3
START, GAIN = -0.5, 0.4
TEMPLATE, CASE, BY_PLANNER = 1.0, 1.0, 1.0
"""Deviations on the logit scale: of templates, of cases in one, and of the gain from template to template."""


def of(values: Numbers | list[float], clusters: npt.NDArray[np.int_] | list[int]) -> pd.Series[float]:
    index = pd.MultiIndex.from_arrays([list(clusters), range(len(values))], names=["cluster", "case_id"])
    return pd.Series(np.asarray(values, dtype=float), index=index)


def drawn(rng: np.random.Generator) -> tuple[pd.Series[float], pd.Series[float], list[str]]:
    """Two planners' mean success over trials by case, and what clusters these are of."""
    template = np.repeat(np.arange(CLUSTERS), rng.integers(1, LARGEST + 1, CLUSTERS))
    logit = START + rng.normal(0, TEMPLATE, CLUSTERS)[template] + rng.normal(0, CASE, len(template))
    better = logit + GAIN + rng.normal(0, BY_PLANNER, CLUSTERS)[template]
    react, egb = (rng.binomial(TRIALS, special.expit(own)) / TRIALS for own in (logit, better))
    return of(react, template), of(egb, template), [f"template-{place}" for place in template]


def mean_success(start: float, *deviations: float) -> float:
    """The expectation of a logistic of a normal, by quadrature."""
    places, weights = np.polynomial.hermite_e.hermegauss(80)
    values = special.expit(start + np.sqrt(np.sum(np.square(deviations))) * places)
    return float(weights @ values / weights.sum())


EGB = mean_success(START + GAIN, TEMPLATE, CASE, BY_PLANNER)
DIFFERENCE = EGB - mean_success(START, TEMPLATE, CASE)


def covered(grids: int, seed: int) -> dict[str, float]:
    """The share of grids whose interval holds the truth: of a difference and a mean, over clusters and over cases."""
    rng = np.random.default_rng(seed)
    held: dict[str, list[bool]] = {}
    for _ in range(grids):
        react, egb, _ = drawn(rng)
        for name, values, truth in (("difference", egb - react, DIFFERENCE), ("mean", egb, EGB)):
            for over, own in (("clusters", values), ("cases", of(values.to_numpy(), list(range(len(values)))))):
                found = interval(own)
                held.setdefault(f"{name} over {over}", []).append(found.low <= truth <= found.high)
    return {name: float(np.mean(own)) for name, own in held.items()}


def test_intervals_over_clusters_cover_and_those_over_cases_do_not() -> None:
    shares = covered(300, seed=0)
    for name in ("difference", "mean"):
        assert 0.93 <= shares[f"{name} over clusters"] <= 0.97, shares
        assert shares[f"{name} over cases"] < 0.90, shares


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [3, 6, 12])
def test_few_clusters_cover_too(clusters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CLUSTERS", clusters)
    shares = covered(1000, seed=1)
    for name in ("difference", "mean"):
        assert 0.91 <= shares[f"{name} over clusters"] <= 0.98, shares


def test_the_tables_differences_are_over_clusters() -> None:
    react, egb, clusters = drawn(np.random.default_rng(0))
    rows = [
        row(planner, case, 0, value) | {"cluster": clusters[case]}
        for planner, values in (("react", react), ("egb", egb))
        for case, value in enumerate(values)
    ]
    (found,) = paired_differences(pd.DataFrame(rows)).to_dict("records")
    assert (found["cases"], found["clusters"]) == (len(react), CLUSTERS)
    assert (found["success"], found["success_low"], found["success_high"]) == pytest.approx(interval(egb - react))
    assert set(results(pd.DataFrame(rows))["clusters"]) == {CLUSTERS}


def test_cases_that_are_all_clusters_of_their_own_give_students_interval() -> None:
    values = np.random.default_rng(0).normal(size=12)
    half = stats.t.ppf(0.975, 11) * values.std(ddof=1) / np.sqrt(12)
    assert interval(of(values, list(range(12)))) == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half)
    )


def test_clusters_of_one_size_give_statsmodels_interval() -> None:
    clusters = np.repeat(np.arange(9), 4)
    values = np.random.default_rng(0).normal(size=36) + np.random.default_rng(1).normal(size=9)[clusters]
    fit = sm.OLS(values, np.ones(36)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    (theirs,) = fit.conf_int()
    assert interval(of(values, clusters))[1:] == pytest.approx(tuple(theirs))


@pytest.mark.parametrize("sizes", [[1, 2, 8, 3, 5], [1, 20], [7, 1, 1, 1]])
def test_unequal_clusters_give_the_matrix_form(sizes: list[int]) -> None:
    """CR2 and its degrees of freedom as Bell and McCaffrey (2002) write them, of a regression on a constant."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(2).normal(size=len(clusters))
    total = len(values)
    annihilator = np.eye(total) - 1 / total
    residuals, score, columns = annihilator @ values, [], []
    for cluster in range(len(sizes)):
        own = clusters == cluster
        roots, vectors = np.linalg.eigh(annihilator[np.ix_(own, own)])
        inverse = np.where(roots > 1e-9, np.maximum(roots, 1e-9) ** -0.5, 0)
        weights = np.ones(own.sum()) @ (vectors * inverse) @ vectors.T / total
        score.append(weights @ residuals[own])
        columns.append(annihilator[:, own] @ weights)
    gram = np.array(columns) @ np.array(columns).T
    half = stats.t.ppf(0.975, np.trace(gram) ** 2 / np.sum(gram**2)) * np.sqrt(np.sum(np.square(score)))
    assert interval(of(values, clusters)) == pytest.approx((values.mean(), values.mean() - half, values.mean() + half))


def test_one_cluster_has_no_interval() -> None:
    for values in ([0.5], [0.0, 1.0, 0.5]):
        found = interval(of(values, [0] * len(values)))
        assert found.mean == 0.5
        assert np.isnan([found.low, found.high]).all()
        found = ratio(of(values, [0] * len(values)), of([2.0] * len(values), [0] * len(values)))
        assert found.mean == 0.25
        assert np.isnan([found.low, found.high]).all()
    assert np.isnan(interval(of([], [])).mean)


def of_start(rng: np.random.Generator, start: float, clusters: int, largest: int) -> pd.Series[float]:
    """Cases' mean success over trials where the mean on the logit scale is `start`."""
    template = np.repeat(np.arange(clusters), rng.integers(1, largest + 1, clusters))
    logit = start + rng.normal(0, TEMPLATE, clusters)[template] + rng.normal(0, CASE, len(template))
    return of(rng.binomial(TRIALS, special.expit(logit)) / TRIALS, template)


@pytest.mark.parametrize(("start", "clusters", "largest"), [(-5.0, 66, 8), (-4.0, 50, 1), (5.0, 20, 4), (-6.0, 20, 4)])
def test_shares_near_0_and_1_are_covered_and_no_bound_leaves_them(start: float, clusters: int, largest: int) -> None:
    """Student's t interval of the same shares covers 90, 94, 62 and 36% here."""
    rng, truth = np.random.default_rng(3), mean_success(start, TEMPLATE, CASE)
    found = [share(of_start(rng, start, clusters, largest)) for _ in range(150)]
    assert all(0 <= one.low <= one.mean <= one.high <= 1 for one in found)
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.92


@pytest.mark.long
@pytest.mark.parametrize(("clusters", "size", "start"), [(20, 4, 0.05), (40, 1, 0.2), (10, 4, 0.2)])
def test_rare_shares_of_several_trials_are_covered(clusters: int, size: int, start: float) -> None:
    """pass^4 of 8 trials near 0: without the bound on their effective number 78, 91 and 87% are."""
    rng = np.random.default_rng(0)
    table = np.array([math.comb(won, 4) / math.comb(8, 4) for won in range(9)])

    def drawn() -> pd.Series[float]:
        common = rng.beta(2 * start, 2 * (1 - start), (clusters, 1)).clip(1e-9, 1 - 1e-9)
        values = table[rng.binomial(8, rng.beta(2 * common, 2 * (1 - common), (clusters, size)))]
        names = np.repeat(np.arange(clusters), size)
        return pd.Series(values.ravel(), index=pd.Index(names, name="cluster"))

    truth = np.mean([drawn().mean() for _ in range(4_000)])
    held = [(found := share(drawn(), rare=True)).low <= truth <= found.high for _ in range(800)]
    assert np.mean(held) >= 0.91


def test_a_share_without_clusters_is_wilsons_with_students_quantile() -> None:
    for hits in range(13):
        cases = of([1.0] * hits + [0.0] * (12 - hits), list(range(12)))
        size = 11 if 0 < hits < 12 else 12  # CR2 of a share is p (1 - p) / (n - 1)
        with_t = stats.t.ppf(0.975, 11) ** 2 / size
        roots = np.roots([1 + with_t, -(2 * hits / 12 + with_t), (hits / 12) ** 2]).real
        assert share(cases)[1:] == pytest.approx(sorted(roots), abs=1e-6)
        assert share(cases * 10, most=10.0) == pytest.approx([10 * bound for bound in share(cases)])


def test_a_difference_that_is_0_in_every_case_may_be_another_in_others() -> None:
    """Where a share p of clusters differs, by 1 each, the bound misses it in at most 1 of 20 samples of none."""
    for clusters in (2, 5, 12, 60, 300):
        found = interval(of([0.0] * clusters, list(range(clusters))), reach=1.0)
        assert found.low == -found.high
        assert (1 - found.high) ** clusters <= 0.025 + 1e-9
        twice = interval(of([0.0] * clusters, list(range(clusters))), reach=2.0)
        assert twice.high == pytest.approx(2 * found.high)
    uneven = interval(of([0.0] * 30, [0] * 26 + [1, 2, 3, 4]), reach=1.0)
    assert uneven.high > interval(of([0.0] * 5, list(range(5))), reach=1.0).high, "few where they are unequal"
    assert np.isnan(interval(of([3.0] * 5, list(range(5)))).low), "nothing bounds an amount"


def test_no_bound_lies_beyond_what_a_difference_can_be() -> None:
    """Of two clusters Student's t reaches further than any difference of two rates."""
    values = of([1.0, -0.5], [0, 1])
    free, bound = interval(values), interval(values, reach=1.0)
    assert free.low < -1 < 1 < free.high
    assert (bound.mean, bound.low, bound.high) == (free.mean, -1.0, 1.0)
    wide = of([0.2, -0.2, 0.1, 0.4, 0.0, 0.3], list(range(6)))
    assert interval(wide, reach=1.0) == interval(wide), "within the bounds nothing changes"


def test_differences_that_seldom_are_not_0_are_covered() -> None:
    """Of 60 clusters each differs with probability 1 or 3%: most samples have none to a few that do."""
    rng = np.random.default_rng(4)
    for probability in (0.01, 0.03):
        held = []
        for _ in range(200):
            found = interval(of((rng.random(60) < probability).astype(float), list(range(60))), reach=1.0)
            held.append(found.low <= probability <= found.high)
        assert np.mean(held) >= 0.95


def counts(rng: np.random.Generator, kind: str, clusters: int) -> tuple[pd.Series[float], float]:
    """Amounts of cases in clusters that differ, and the mean that they are drawn around."""
    template = np.repeat(np.arange(clusters), rng.integers(1, 5, clusters))
    if kind == "tokens":
        return of(np.exp(rng.normal(0, 0.3, clusters)[template] + rng.normal(0, 0.3, len(template))), template), np.exp(
            0.09
        )
    mean = float(kind)
    return of(rng.poisson(mean * rng.gamma(2, 0.5, clusters)[template]).astype(float), template), mean


@pytest.mark.parametrize(("kind", "clusters"), [("tokens", 8), ("tokens", 30), ("3", 8), ("3", 30), ("0.3", 60)])
def test_amounts_are_covered_and_no_bound_is_below_0(kind: str, clusters: int) -> None:
    """Student's t of the mean itself covers 89% of the counts in 8 clusters, and has bounds below 0."""
    rng = np.random.default_rng(5)
    held = []
    for _ in range(300):
        values, truth = counts(rng, kind, clusters)
        found = amount(values)
        assert 0 < found.low < found.mean < found.high
        held.append(found.low <= truth <= found.high)
    assert 0.92 <= np.mean(held) <= 0.99


def test_an_amounts_interval_is_that_of_its_means_logarithm() -> None:
    values = of([0.0, 0.0, 0.0, 1.0, 0.0, 3.0], [0, 0, 1, 1, 2, 2])
    plain, found = interval(values), amount(values)
    assert plain.low < 0 < found.low
    half = (plain.high - plain.mean) / plain.mean
    assert found == pytest.approx((plain.mean, plain.mean * np.exp(-half), plain.mean * np.exp(half)))
    scaled = amount(values * 150)
    assert scaled == pytest.approx([150 * bound for bound in found]), "whatever its unit"


def test_an_amount_of_which_too_little_is_known_has_no_bounds() -> None:
    for values in (of([0.0] * 6, list(range(6))), of([7.0] * 6, list(range(6))), of([1.0, 5.0], [0, 0])):
        found = amount(values)
        assert found.mean == values.mean()
        assert np.isnan([found.low, found.high]).all()
    assert np.isnan(amount(of([], [])).mean)
    two = amount(of([0.0, 0.0, 9.0], [0, 0, 1]))
    assert np.isnan(two.high) or two.high <= MOST_TIMES * two.mean
    below = of([-1.0, 2.0, 3.0, 1.0], [0, 1, 2, 3])
    assert amount(below) == interval(below), "costs of a user's own tools may be negative"

"""What stands beside an interval says the same as the interval, and what it promises holds when it is simulated."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_effectsize

from analysis.intervals import interval
from analysis.significance import LEVEL, cases_needed, cases_to_settle, cohens_h, holm, p_value


def by_case(values: list[float], clusters: list[int]) -> pd.Series[float]:
    pairs = [(f"cluster-{cluster}", f"case-{case}") for case, cluster in enumerate(clusters)]
    return pd.Series(values, pd.MultiIndex.from_tuples(pairs, names=["cluster", "case_id"]), dtype="float64")


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -1 / 3, 0.0, 1 / 3, 1.0]), st.integers(0, 5)), min_size=1, max_size=25)
)
def test_p_is_below_five_percent_exactly_where_the_interval_excludes_0(cases: list[tuple[float, int]]) -> None:
    values = by_case([value for value, _ in cases], [cluster for _, cluster in cases])
    found, p = interval(values, reach=1.0), p_value(values, reach=1.0)
    assert math.isnan(p) == math.isnan(found.low)
    if not math.isnan(p):
        assert 0 <= p <= 1
        assert (p < LEVEL) == (found.low > 0 or found.high < 0)


@settings(max_examples=30)
@given(st.lists(st.one_of(st.just(math.nan), st.floats(0, 1)), max_size=12))
def test_holm_by_its_definition(values: list[float]) -> None:
    found = holm(pd.Series(values, dtype="float64"))
    known = sorted(value for value in values if not math.isnan(value))
    for value, corrected in zip(values, found, strict=True):
        assert math.isnan(value) == math.isnan(corrected)
        if not math.isnan(value):
            steps = [min((len(known) - place) * p, 1.0) for place, p in enumerate(known) if p <= value]
            assert corrected == pytest.approx(max(steps))


@given(st.floats(0, 1), st.floats(0, 1))
def test_cohens_h_is_that_of_statsmodels(own: float, theirs: float) -> None:
    assert cohens_h(own, theirs) == pytest.approx(float(proportion_effectsize(own, theirs)), abs=1e-9)
    assert cohens_h(own, theirs) == -cohens_h(theirs, own)
    assert abs(cohens_h(own, theirs)) <= math.pi + 1e-9


@pytest.mark.parametrize("size", [1, 4])
def test_so_many_cases_have_the_power_that_is_promised(size: int) -> None:
    """Of cases in clusters of one size, whose differences go together, with the true error of the mean."""
    rng = np.random.default_rng(size)
    difference, between, within, pilot = 0.15, 0.3, 0.4, 40
    error = math.sqrt(between**2 / (pilot / size) + within**2 / pilot)
    needed = round(cases_needed(difference, error, pilot / size - 1, pilot) / size) * size
    shown, rounds = 0, 400
    for _ in range(rounds):
        clusters = np.repeat(np.arange(needed // size), size)
        values = difference + rng.normal(0, between, needed // size)[clusters] + rng.normal(0, within, needed)
        shown += p_value(by_case(list(values), list(clusters)), reach=10.0) < LEVEL
    assert shown / rounds == pytest.approx(0.8, abs=0.06)


def test_a_difference_that_is_settled_needs_no_more_cases_and_an_open_one_does() -> None:
    rng = np.random.default_rng(0)
    for mean in (0.05, 0.2, 0.5):
        values = by_case(list(rng.normal(mean, 0.5, 30)), list(range(30)))
        if p_value(values, reach=9.0) > LEVEL:
            assert cases_to_settle(values) > len(values)
    assert math.isnan(cases_to_settle(by_case([1.0, 1.0], [0, 1]))), "no error to tell"
    assert math.isnan(cases_to_settle(by_case([1.0, 0.0], [0, 0]))), "one cluster"
    assert math.isnan(cases_to_settle(by_case([1.0, -1.0], [0, 1]))), "no difference"
    assert math.isnan(cases_to_settle(by_case([], [])))

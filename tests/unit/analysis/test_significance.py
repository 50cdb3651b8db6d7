"""What stands beside an interval says the same as the interval, and what it promises holds when it is simulated."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_effectsize

from analysis.stats.intervals import LEVEL, cohens_h, holm, interval, p_value


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

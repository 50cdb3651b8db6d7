"""Whole studies of the simulated policy: the regression finds the planted effect of the horizon, and none without."""

from __future__ import annotations

import pytest

from analysis.papers import study
from analysis.stats.spec import load
from tests.studies.simulated_studies import estimated, interaction, plan_of, population, studies


@pytest.mark.slow
@pytest.mark.parametrize("foresight", [1.0, 0.0])
def test_sign_and_size_are_found(foresight: float) -> None:
    spec = load(study.PLANNING_HORIZON)
    name = interaction(spec)
    plan = plan_of(f"model.foresight={foresight}", "robustness=tools_strict", "trials=3")
    rows = list(studies(plan, range(100), processes=2))
    planted = population(rows[0], spec)[name]
    found = [estimated(one, spec, name) for one in rows]
    assert sum(one.low <= planted <= one.high for one in found) >= 88
    if foresight:
        assert planted > 0
        assert sum(one.estimate > 0 for one in found) >= 90
    else:
        assert abs(planted) < 0.01
        assert sum(one.low > 0 or one.high < 0 for one in found) <= 12

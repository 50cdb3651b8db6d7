"""Our planners, datasets, robustness settings and engines of no cost, each with the others."""

from __future__ import annotations

from itertools import product

import pytest

from grid.contracts.test_product import (
    parametrize,
    test_a_seed_disturbs_alike,
    test_every_point_runs_and_repeats_itself,
)
from grid.core.problem import DRAFTED, GIVEN
from grid.settings.check import invalid_reason
from tests.support.configs import FOLDERS, MAY_LACK, goes_together, names, outlines, setting_of

__all__ = ["test_a_seed_disturbs_alike", "test_every_point_runs_and_repeats_itself"]
CHEAP = ("lexical", "null_engine", "simulated")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize(metafunc, list(FOLDERS), MAY_LACK)


def test_only_an_outline_or_branches_that_the_data_lack_leave_a_pair_out() -> None:
    for dataset, outline, planner in product(names("dataset"), (GIVEN, "hidden", DRAFTED), names("planner")):
        model = CHEAP[len(planner) % len(CHEAP)]
        setting = setting_of(
            model=model, dataset=dataset, planner=planner, dataset_values={"outline": outline, "limit": 1}
        )
        fits = outline in outlines(dataset) and goes_together(dataset, planner)
        assert (invalid_reason(setting) is None) == fits

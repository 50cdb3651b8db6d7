"""Generated plans: of a sample each case that was made of another comes with that one."""

from __future__ import annotations

from typing import Any

import pytest

from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.datasets.apb_synthetic.stock import Recipe


def recipe(name: str, base: str, family: Any, **other: Any) -> Recipe:
    return Recipe(id=name, base=base, task_family=family, category="Market Research", family="survey", **other)


def dataset(**keys: Any) -> ApbSynthetic:
    """Twenty whole plans, of ten of which two cases with extraneous tools were made, and of two an unsolvable one."""
    recipes = [recipe(f"holistic-{place}", f"base-{place}", "holistic") for place in range(20)]
    for place in range(10):
        for count in (2, 4):
            name = f"extraneous-holistic-{place}-{count}"
            recipes.append(recipe(name, f"base-{place}", "extraneous", n_extraneous=count))
    recipes += [
        recipe(f"unsolvable-holistic-{place}", f"base-{place}", "unsolvable", unsolvable="tool_removal")
        for place in (9, 10)
    ]
    found = ApbSynthetic(families=["holistic", "extraneous"], **keys)
    vars(found)["records"] = {one.id: one for one in recipes}
    return found


@pytest.mark.parametrize("limit", [1, 3, 10, 50])
def test_every_case_has_its_counterpart_and_the_reverse(limit: int) -> None:
    ids = dataset(counterparts=True, limit=limit).case_ids()
    plain = [name for name in ids if name.startswith("holistic")]
    made = [name for name in ids if name.startswith("extraneous")]
    assert len(plain) == min(limit, 10)
    assert {name.removeprefix("extraneous-").rpartition("-")[0] for name in made} == set(plain)
    assert len(made) == 2 * len(plain)
    assert len(set(ids)) == len(ids)


def test_a_longer_sample_holds_a_shorter_one() -> None:
    assert set(dataset(counterparts=True, limit=3).case_ids()) < set(dataset(counterparts=True, limit=6).case_ids())


def test_only_those_of_the_families_that_run_count() -> None:
    chosen = dataset(counterparts=True, n_extraneous=4).case_ids()
    assert sum(name.startswith("extraneous") for name in chosen) == 10
    assert "holistic-10" not in chosen, "of it only an unsolvable case was made, which does not run"


def test_without_it_all_are_sampled() -> None:
    assert len(dataset().case_ids()) == 40
    assert len(dataset(limit=7).case_ids()) == 7

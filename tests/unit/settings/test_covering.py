"""Few points have every pair of values that all points have, and none that cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.contracts import subject
from grid.contracts.subject import GROUPS, Point, Subject, covering, goes_together, names, outlines, setting_of
from grid.settings.check import invalid_reason
from tests.support.configs import FOLDERS, MAY_LACK

VALUE = st.sampled_from("abcd")
POINTS = st.lists(st.tuples(VALUE, VALUE, VALUE, VALUE), max_size=40)
Two = tuple[tuple[int, str], tuple[int, str]]
PLANNERS = [name for name in names("planner") if name != "outside"]
"""The other one is a user's program."""


def meeting(points: Sequence[tuple[str, ...]]) -> set[Two]:
    """Which two values meet in a point, each with the place of its factor: all are tried."""
    values = {(place, value) for point in points for place, value in enumerate(point)}
    return {
        (one, other)
        for one, other in product(values, values)
        if one[0] < other[0] and any(point[one[0]] == one[1] and point[other[0]] == other[1] for point in points)
    }


@given(POINTS, POINTS)
def test_every_pair_of_all_points_is_in_a_few_of_them(
    points: list[tuple[str, ...]], known: list[tuple[str, ...]]
) -> None:
    chosen = covering(points)
    assert meeting(chosen) == meeting(points)
    assert set(chosen) <= set(points), "no point is made up"
    assert covering(points) == chosen
    assert len(chosen) == len(set(chosen))
    added = covering(points, known)
    assert meeting([*known, *added]) >= meeting(points)
    assert set(added) <= set(points)
    assert len(added) <= len(meeting(points) - meeting(known)), "each adds a pair"


def test_there_are_as_few_as_two_factors_need() -> None:
    every = list(product("abcdefgh", "pqrst", "xyz"))
    assert len(covering(every)) == 8 * 5
    assert len(covering([point for point in every if point[:2] != ("a", "p")])) == 8 * 5 - 1


@pytest.fixture(scope="module")
def ours() -> Subject:
    return Subject({group: names(group) for group in GROUPS}, ours=True)


@pytest.fixture(scope="module")
def few(ours: Subject) -> list[Point]:
    return ours.paired(ours.points(list(FOLDERS)), MAY_LACK)


def pairs(points: Sequence[Point]) -> set[Two]:
    return {pair for point in points for pair in combinations(enumerate(point), 2)}


@pytest.mark.long
@pytest.mark.parametrize("lacking", [(), *((name,) for name in MAY_LACK), MAY_LACK])
def test_of_ours_all_that_can_meet_meet_whatever_data_a_machine_lacks(
    ours: Subject, few: list[Point], lacking: Sequence[str]
) -> None:
    """Every file with every other one that it goes with, and with every outline."""
    here = [name for name in {point[0] for point in few} if name not in lacking]
    every: list[Point] = [
        (dataset, outline, planner, disturbed, repeated)
        for dataset in here
        for outline in outlines(dataset)
        for planner in PLANNERS
        if goes_together(dataset, planner)
        for disturbed, repeated in product(ours.disturbing, ours.cheap)
    ]
    assert pairs([point for point in few if point[0] in here]) == pairs(every)
    together = {(point[0], point[2]) for point in every}
    assert len([point for point in few if point[0] in here]) <= 1.05 * len(together), "hardly more than these two take"


def test_all_datasets_whose_files_the_tests_have_are_walked(few: list[Point]) -> None:
    assert {point[0] for point in few} >= FOLDERS.keys()
    assert {point[2] for point in few} == {*PLANNERS}


def test_none_of_the_few_is_there_that_cannot_run(few: list[Point]) -> None:
    for dataset, outline, planner, disturbed, repeated in few:
        values = {"outline": outline} | ({"path": "/absent"} if dataset in FOLDERS else {})
        for model, robustness in ((repeated, "none"), ("lexical", disturbed)):
            setting = setting_of(values, model=model, dataset=dataset, planner=planner, robustness=robustness)
            assert invalid_reason(setting) is None


def test_other_planners_of_a_package_do_not_change_a_planners_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(*planners: str) -> list[Point]:
        files = {group: [*planners] if group == "planner" else [] for group in GROUPS}
        return [point for point in Subject(files, ours=False).points() if point[2] == "mine"]

    monkeypatch.setattr(subject, "_is_whole", lambda planner: True)
    monkeypatch.setattr(subject, "goes_together", lambda dataset, planner: True)
    alone = of("mine")
    assert alone
    assert of("another", "mine", "third") == alone
    assert {point[3] for point in alone} == {name for name in names("robustness") if subject.yaml("robustness", name)}

"""Forgiving and strict tools (planning_horizon §3.2, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.datasets.base import Problem
from grid.datasets.slate.dataset import Slate
from grid.retrievers.bm25 import BM25
from grid.robustness.base import Robustness
from grid.robustness.schema_matching import MatchingWorld
from grid.robustness.tools_forgiving import ToolsForgiving
from grid.robustness.tools_strict import ToolsStrict
from grid.types import Case, Json, Plan, Reference, ToolSpec
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.kopl.world import KoplState, KoplWorld
from grid.worlds.schema import Vocabulary
from tests.kopl_world import kopl_world
from tests.walks import Walk

INDEX = BM25().index(TOOLS)


def undisturbed() -> Problem:
    def none(case: Case, substep: object) -> tuple[ToolSpec, ...]:
        return ()

    case = Case("c", "How long is the Rhine?", Plan(()))
    return Problem(case, Reference({}, ()), kopl_world("1233 kilometre"), none, TOOLS, {})


def disturbed(*settings: Robustness) -> Walk:
    """The beginning of that problem after the settings."""
    found = undisturbed()
    for setting in settings:
        found = setting.disturb(found, INDEX, seed=0)
    return Walk(found.world)


def call(walk: Walk, tool: str, **arguments: Json) -> Mapping[str, Json]:
    return walk.call(tool, **arguments).content


def results(walk: Walk) -> int:
    assert isinstance(walk.state, KoplState)
    return len(walk.state.results)


def test_forgiving_tools_take_the_nearest_that_returns_something() -> None:
    walk = disturbed(ToolsForgiving())
    assert call(walk, "Find", name="the Rhine")["read_as"] == {"name": "Rhine"}
    found = call(walk, "QueryAttr", entities="$0", key="length of river")
    assert found == {"result": "$1", "value": "1233 kilometre", "read_as": {"key": "river length"}}
    assert results(walk) == 2
    assert walk.resolved
    assert isinstance(walk.world, MatchingWorld)
    assert walk.answer == "1233 kilometre"


def test_a_candidate_that_returns_nothing_is_passed_over() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Czechia")
    # `founded on` is not what `count` is nearest to; `surface area` is nearer to `surface count` but Czechia has none.
    nearest = kopl_world().identifiers("QueryAttr")["key"].nearest("surface count", 10)
    assert nearest[0] == "surface area"
    found = call(walk, "QueryAttr", entities="$0", key="surface count")
    assert found["read_as"] == {"key": "population count"}
    assert results(walk) == 2


def test_two_unknown_identifiers_are_mended_together() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Czechia")
    found = call(walk, "QueryAttrUnderCondition", entities="$0", key="populations", qkey="measured in", qvalue="2023")
    assert found["value"] == "10900000"
    assert found["read_as"] == {"key": "population count", "qkey": "measured"}


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_it_branches_where_the_world_does(setting: Robustness) -> None:
    class Live(KoplWorld):
        branches: ClassVar[bool] = False

    plain = undisturbed()
    assert isinstance(plain.world, KoplWorld)
    live = replace(plain, world=Live(plain.world.kb, plain.world.reference))
    assert setting.disturb(plain, INDEX, seed=0).world.branches
    assert not setting.disturb(live, INDEX, seed=0).world.branches


def test_where_no_candidate_works_the_ten_nearest_come_back() -> None:
    walk = disturbed(ToolsForgiving())
    call(walk, "Find", name="Como")
    before = walk.state
    content = call(walk, "QueryAttr", entities="$0", key="founded length")
    assert list(content) == ["error"]
    assert content["error"] == (
        "there is no attribute key 'founded length'. "
        "Nearest attribute key to 'founded length': 'founded on', 'river length', 'first described', "
        "'population count'."
    )
    assert walk.state == before
    assert results(walk) == 1
    assert "none." in str(call(walk, "QueryAttr", entities="$0", key="zzz")["error"])


def test_strict_tools_fail_and_tell_the_nearest_one() -> None:
    walk = disturbed(ToolsStrict())
    content = call(walk, "Find", name="the Rhine")
    assert content == {"error": "there is no entity 'the Rhine'. Nearest entity to 'the Rhine': 'Rhine'."}
    assert results(walk) == 0
    assert call(walk, "Find", name="Rhine")["result"] == "$0"
    assert "'river length'." in str(call(walk, "QueryAttr", entities="$0", key="length of river")["error"])


def test_without_either_there_is_no_feedback() -> None:
    walk = disturbed()
    assert call(walk, "Find", name="the Rhine") == {"error": "there is no entity 'the Rhine'."}


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_failures_of_another_kind_are_told_as_they_are(setting: Robustness) -> None:
    walk = disturbed(setting)
    plain = disturbed()
    for tool, arguments in (
        ("Fly", {"name": "x"}),
        ("Count", {"entities": "$4"}),
        ("Find", {"name": 5}),
        ("Find", {}),
    ):
        assert call(walk, tool, **arguments) == call(plain, tool, **arguments)
    for each in (walk, plain):
        call(each, "Find", name="Como")
    empty = {"entities": "$0", "key": "river length"}
    assert call(walk, "QueryAttr", **empty) == call(plain, "QueryAttr", **empty)


def test_the_first_of_the_two_settings_holds() -> None:
    walk = disturbed(ToolsForgiving(), ToolsStrict())
    assert call(walk, "Find", name="the Rhine")["read_as"] == {"name": "Rhine"}
    walk = disturbed(ToolsStrict(), ToolsForgiving())
    assert "error" in call(walk, "Find", name="the Rhine")


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_a_problem_without_a_schema_stays_as_it_is(
    setting: Robustness, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh_cache))
    data = Slate(limit=1)
    plain = data.problem(data.case_ids()[0])
    assert setting.disturb(plain, INDEX, seed=0) is plain


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=15), st.integers(1, 12))
def test_the_nearest_are_identifiers_each_once(text: str, names: list[str], count: int) -> None:
    found = Vocabulary("thing", names).nearest(text, count)
    assert len(found) <= count
    assert len(set(found)) == len(found)
    assert set(found) <= set(names)


def test_nearest_is_found_by_parts_of_words() -> None:
    names = ["employee counts", "date of birth", "place of birth", "height", "number of seasons"]
    vocabulary = Vocabulary("attribute key", names)
    assert vocabulary.nearest("HEIGHT", 1) == ["height"]
    assert vocabulary.nearest("employees", 1) == ["employee counts"]
    assert vocabulary.nearest("heigth", 1) == ["height"]
    assert vocabulary.nearest("birthdate", 2)[0] == "date of birth"
    assert vocabulary.nearest("season numbers", 1) == ["number of seasons"]

"""Forgiving and strict tools (planning_horizon §3.2, §4.4)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.datasets.base import Problem
from grid.datasets.slate.dataset import Slate
from grid.retrievers.bm25 import BM25
from grid.robustness.base import Robustness
from grid.robustness.schema_matching import MatchingEnvironment
from grid.robustness.tools_forgiving import ToolsForgiving
from grid.robustness.tools_strict import ToolsStrict
from grid.types import Case, Json, Plan, Reference, ToolCall, ToolSpec
from grid.worlds.kopl.world import KoplEnvironment
from grid.worlds.kopl.functions import TOOLS
from grid.worlds.schema import Vocabulary
from tests.kopl_world import environment

INDEX = BM25().index(TOOLS)


def disturbed(*settings: Robustness) -> tuple[KoplEnvironment, Problem]:
    """The environment and the problem over it, after the settings."""
    world = environment("1233 kilometre")

    def none(case: Case, substep: object) -> tuple[ToolSpec, ...]:
        return ()

    problem = Problem(Case("c", "How long is the Rhine?", Plan(())), Reference({}, ()), world, none, TOOLS, {})
    for setting in settings:
        problem = setting.disturb(problem, INDEX, seed=0)
    return world, problem


def call(problem: Problem, tool: str, **arguments: Json) -> Mapping[str, Json]:
    return problem.environment.execute(ToolCall(tool, arguments)).content


def test_forgiving_tools_take_the_nearest_that_returns_something() -> None:
    world, problem = disturbed(ToolsForgiving())
    assert call(problem, "Find", name="the Rhine")["read_as"] == {"name": "Rhine"}
    found = call(problem, "QueryAttr", entities="$0", key="length of river")
    assert found == {"result": "$1", "value": "1233 kilometre", "read_as": {"key": "river length"}}
    assert len(world.results) == 2
    assert problem.environment.resolved()
    assert isinstance(problem.environment, MatchingEnvironment)
    assert problem.environment.answer() == "1233 kilometre"


def test_a_candidate_that_returns_nothing_is_passed_over() -> None:
    world, problem = disturbed(ToolsForgiving())
    call(problem, "Find", name="Czechia")
    # `founded on` is not what `count` is nearest to; `surface area` is nearer to `surface count` but Czechia has none.
    nearest = world.identifiers("QueryAttr")["key"].nearest("surface count", 10)
    assert nearest[0] == "surface area"
    found = call(problem, "QueryAttr", entities="$0", key="surface count")
    assert found["read_as"] == {"key": "population count"}
    assert len(world.results) == 2


def test_two_unknown_identifiers_are_mended_together() -> None:
    _, problem = disturbed(ToolsForgiving())
    call(problem, "Find", name="Czechia")
    found = call(
        problem, "QueryAttrUnderCondition", entities="$0", key="populations", qkey="measured in", qvalue="2023"
    )
    assert found["value"] == "10900000"
    assert found["read_as"] == {"key": "population count", "qkey": "measured"}


def test_where_no_candidate_works_the_ten_nearest_come_back() -> None:
    world, problem = disturbed(ToolsForgiving())
    call(problem, "Find", name="Como")
    before = problem.environment.snapshot()
    content = call(problem, "QueryAttr", entities="$0", key="founded length")
    assert list(content) == ["error"]
    assert content["error"] == (
        "there is no attribute key 'founded length'. "
        "Nearest attribute key to 'founded length': 'founded on', 'river length', 'first described', "
        "'population count'."
    )
    assert problem.environment.snapshot() == before
    assert len(world.results) == 1
    assert "none." in str(call(problem, "QueryAttr", entities="$0", key="zzz")["error"])


def test_strict_tools_fail_and_tell_the_nearest_one() -> None:
    world, problem = disturbed(ToolsStrict())
    content = call(problem, "Find", name="the Rhine")
    assert content == {"error": "there is no entity 'the Rhine'. Nearest entity to 'the Rhine': 'Rhine'."}
    assert world.results == ()
    assert call(problem, "Find", name="Rhine")["result"] == "$0"
    assert "'river length'." in str(call(problem, "QueryAttr", entities="$0", key="length of river")["error"])


def test_without_either_there_is_no_feedback() -> None:
    _, problem = disturbed()
    assert call(problem, "Find", name="the Rhine") == {"error": "there is no entity 'the Rhine'."}


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_failures_of_another_kind_are_told_as_they_are(setting: Robustness) -> None:
    _, problem = disturbed(setting)
    _, plain = disturbed()
    for tool, arguments in (
        ("Fly", {"name": "x"}),
        ("Count", {"entities": "$4"}),
        ("Find", {"name": 5}),
        ("Find", {}),
    ):
        assert call(problem, tool, **arguments) == call(plain, tool, **arguments)
    for each in (problem, plain):
        call(each, "Find", name="Como")
    empty = {"entities": "$0", "key": "river length"}
    assert call(problem, "QueryAttr", **empty) == call(plain, "QueryAttr", **empty)


def test_the_first_of_the_two_settings_holds() -> None:
    _, problem = disturbed(ToolsForgiving(), ToolsStrict())
    assert call(problem, "Find", name="the Rhine")["read_as"] == {"name": "Rhine"}
    _, problem = disturbed(ToolsStrict(), ToolsForgiving())
    assert "error" in call(problem, "Find", name="the Rhine")


@pytest.mark.parametrize("setting", [ToolsForgiving(), ToolsStrict()])
def test_a_problem_without_a_schema_stays_as_it_is(
    setting: Robustness, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        data = Slate(limit=1)
        problem = data.problem(data.case_ids()[0])
    assert setting.disturb(problem, INDEX, seed=0) is problem


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

"""BFCL v4's single turns: what the loader makes of its files, and what its world takes note of."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.cells.run import Stamp, episode_of, run_chunk
from grid.core.errors import ConfigError, DataError
from grid.core.problem import Problem
from grid.core.types import Observation, Step, Substep, ToolCall, Trajectory
from grid.datasets.bfcl import BFCL
from grid.datasets.parameters import details
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support import bfcl
from tests.support.bfcl import CATEGORIES, CLOCK, DEEP, OTHER_WEATHER, WEATHER, function, typed
from tests.support.configs import setting_of
from tests.support.oracle import oracle_of

ALL: list[Any] = [*CATEGORIES]
BUDGET = BudgetConfig()


def played(problem: Problem, calls: Iterable[ToolCall]) -> tuple[bool, list[Observation]]:
    """Whether calls resolve a case, and what they returned."""

    async def run() -> tuple[bool, list[Observation]]:
        state, seen = problem.world.start(), list[Observation]()
        for call in calls:
            state, observation = await problem.world.apply(state, call)
            seen.append(observation)
        assert pickle.loads(pickle.dumps(state)) == state  # noqa: S301
        assert isinstance(hash(state), int)
        return problem.world.resolved(state), seen

    return asyncio.run(run())


def reference_of(problem: Problem) -> list[ToolCall]:
    return [call for call in problem.reference.calls.values() if call]


def one_case(folder: Path, category: Any, *, answer: Any = None, **row: Any) -> BFCL:
    """A dataset of one good record and one that is given."""
    good, answers = bfcl.rows_of("simple_python")
    rows = [
        good[0],
        {"id": "other", "question": [[{"role": "user", "content": "Do it."}]], "function": [WEATHER]} | row,
    ]
    bfcl.write_category(folder, category, rows, [answers[0], {"id": "other", "ground_truth": answer}])
    return BFCL(str(folder), category=category)


@pytest.mark.parametrize("category", ALL)
def test_the_reference_resolves_every_case_and_nothing_less_does(small_bfcl: str, category: Any) -> None:
    data = BFCL(small_bfcl, category=category)
    assert (len(data.case_ids()), data.skipped) == (len(CATEGORIES[category]), [])
    for case_id in data.case_ids():
        problem = data.problem(case_id)
        calls = reference_of(problem)
        resolved, seen = played(problem, calls)
        assert resolved
        assert not any(observation.failed for observation in seen)
        assert set(problem.own) <= problem.library.keys()
        assert played(problem, [])[0] == ("irrelevance" in category)
        if "relevance" not in category:
            assert not played(problem, [*calls, calls[0]])[0]
            assert not played(problem, calls[1:])[0]


@pytest.mark.parametrize("category", ALL)
def test_an_oracle_resolves_every_category(small_bfcl: str, category: Any) -> None:
    values = {"path": small_bfcl, "category": category}
    setting = setting_of(values, dataset="bfcl", planner="react", retriever="none", pool="case")
    built = build(setting, BUDGET)
    case_ids = built.dataset.case_ids()
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [(row["case_id"], row["error_message"]) for row in rows if row["success"] is not True] == []
    told = None if "relevance" in category else 1.0
    assert {row["inclusion_set"] for row in rows} == {told}
    assert {row["usage"] for row in rows} == {told}


@pytest.mark.parametrize(("retriever", "pool"), [("none", "case"), ("bm25", "all"), ("oracle", "all"), ("none", "all")])
def test_a_case_is_offered_its_own_definitions(small_bfcl: str, retriever: str, pool: str) -> None:
    data = BFCL(small_bfcl)
    values = {"path": small_bfcl}
    built = build(setting_of(values, dataset="bfcl", retriever=retriever, pool=pool), BUDGET)
    parameters = set()
    for case_id in data.case_ids():
        own = data.problem(case_id)
        episode = episode_of(built, built.problem(case_id, 0), 0)
        offered = {tool.name: tool for tool in episode.options(None).tools}
        assert {name: offered[name] for name in own.own} == {name: own.library[name] for name in own.own}
        assert len(offered) == (len(own.own) if pool == "case" else len(data.tools))
        parameters.add(tuple(one.name for one in offered["weather.get"].parameters) if "weather.get" in own.own else ())
    assert {("city", "unit", "days"), ("place", "hour")} < parameters


def test_calls_have_no_order_and_each_is_wanted_once(small_bfcl: str) -> None:
    data = BFCL(small_bfcl, category="parallel")
    for case_id in data.case_ids():
        problem = data.problem(case_id)
        calls = reference_of(problem)
        assert all(played(problem, order)[0] for order in itertools.permutations(calls))
        assert not played(problem, [calls[0]] * len(calls))[0]


def test_a_refused_call_was_made_and_tells_nothing_of_what_is_right(small_bfcl: str) -> None:
    problem = BFCL(small_bfcl).problem("simple_python_0")
    right = reference_of(problem)[0]
    wrong = [
        (ToolCall("weather.set", {}), "there is no function weather.set"),
        (ToolCall("weather.get", {}), "city is missing"),
        (ToolCall("weather.get", {"city": 1, "x": 2}), "x is not an argument of weather.get"),
    ]
    for call, message in wrong:
        resolved, (failed, recorded) = played(problem, [call, right])
        assert not resolved
        assert (failed.failed, failed.content) == (True, {"error": message})
        assert str(recorded.content["status"]).startswith("taken")
    assert not played(problem, [ToolCall("weather.get", {"city": "Rome"})])[1][0].failed
    assert played(problem, [ToolCall("weather.get", {"unit": "CELSIUS", "city": "OSLO - norway", "days": 1})])[0]
    none = BFCL(small_bfcl, category="irrelevance").problem("irrelevance_0")
    assert not played(none, [ToolCall("area.triangle", {})])[0]


def test_what_the_lists_say_of_parameters(small_bfcl: str) -> None:
    tool = BFCL(small_bfcl).problem("simple_python_5").library["user.update"]
    assert [(one.name, one.type, one.required) for one in tool.parameters] == [
        ("id", "string", True),
        ("profile", "object", True),
    ]
    form = "{mail*: string (Address.), age: integer, tags: array (Several. Form: [string].)}"
    assert tool.parameters[1].description == f"What is changed. Form: {form}."
    unit = BFCL(small_bfcl).problem("simple_python_0").library["weather.get"].parameters[1]
    assert unit.description == 'Unit of temperature. One of: "celsius", "fahrenheit". Default: "celsius".'
    assert unit.values == ("celsius", "fahrenheit")
    assert details({"type": "array", "items": {"type": "array", "items": {"type": "float"}}}) == "Form: [[number]]."
    assert details({"type": "string"}) == ""


def test_usage_is_by_accepted_values(small_bfcl: str) -> None:
    problem = BFCL(small_bfcl).problem("simple_python_0")

    def usage(**arguments: Any) -> Any:
        call = ToolCall("weather.get", arguments)
        return problem.measure(Trajectory((Step(0, Substep("0", "", ""), call, None),), ()))["usage"]

    assert [usage(city="Oslo"), usage(city="oslo, NORWAY", days=1), usage(city="Rome"), usage()] == [1, 1, 0, 0]
    assert problem.measure(Trajectory((), ()))["usage"] is None
    relevant = BFCL(small_bfcl, category="live_relevance").problem("live_relevance_0")
    assert set(relevant.measure(Trajectory((), ())).values()) == {None}


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ({"city": ["Oslo"], "unit": [None]}, {"city": "Oslo", "unit": None}),
        ({"city": [["Oslo"]]}, {"city": ["Oslo"]}),
        ({"city": [7, "Oslo"], "days": ["", None]}, {"city": 7}),
        ({"city": ["", "Oslo"]}, {"city": ""}),
        ({"city": [True], "days": ["dontcare"]}, {"city": True, "days": "dontcare"}),
        ({"city": ["Oslo"], "days": [[], 1]}, {"city": "Oslo", "days": []}),
        ({"city": ["Oslo"], "days": []}, None),
        ({"city": [], "days": [1]}, None),
        ({"city": ["Oslo"], "hour": [1]}, None),
        ({"city": ["Oslo"], "hour": ["", 1]}, {"city": "Oslo"}),
        ({"city": "Oslo"}, None),
        ({"unit": ["celsius"]}, None),
        ({}, None),
    ],
)
def test_accepted_values_of_odd_types(tmp_path: Path, accepted: Any, expected: Any) -> None:
    data = one_case(tmp_path, "live_simple", answer=[{"weather.get": accepted}])
    if expected is None:
        assert [one.record for one in data.skipped] == ["other"]
    else:
        (call,) = reference_of(data.problem("other"))
        assert call.arguments == expected


@pytest.mark.parametrize(
    ("row", "answer", "reason"),
    [
        ({"question": "Do it."}, [], "not a list of exactly one turn"),
        ({"question": [[{"role": "user"}]]}, [], "messages that each have a role and a content"),
        ({"question": [[{"role": "user", "content": " "}]]}, [], "messages that each have a role and a content"),
        ({"question": [[], []]}, [], "not a list of exactly one turn"),
        ({"function": []}, [], "offers no function"),
        ({"function": {}}, [], "functions are not a list"),
        ({"function": [{"name": "f"}]}, [], "not an object with properties"),
        ({"function": [function("f(x)", "", [])]}, [], "not allowed for tools"),
        ({"function": [function("finish", "", [])]}, [], "the name finish, which is reserved"),
        ({"function": [function("f", "", ["x"])]}, [], "not among the properties"),
        ({"function": [function("f", "", [], x=typed("bytes"))]}, [], "has the type bytes"),
        ({"function": [function("f", "", [], x=typed("array"))]}, [], "no known type"),
        ({"function": [function("f", "", [], x=DEEP)]}, [], "nested more than"),
        ({}, None, "names no call"),
        ({}, [{"weather.set": {}}], "does not offer"),
        ({}, [{"weather.get": {}, "f": {}}], "does not offer"),
        ({}, [{"weather.get": {"city": ["a"]}}] * 2, "several calls"),
        ({}, [{"weather.get": ["city"]}], "no list of accepted values"),
        ({"id": "simple_python_0"}, [], "an earlier record has this id"),
        ({"id": 7}, [], "the id is not a text"),
    ],
)
def test_a_record_that_cannot_be_a_case_is_skipped(tmp_path: Path, row: Any, answer: Any, reason: str) -> None:
    data = one_case(tmp_path, "multiple", answer=answer, **row)
    assert data.case_ids() == ["simple_python_0"]
    (skipped,) = data.skipped
    assert reason in skipped.reason


def test_of_functions_of_one_name_the_first_counts(tmp_path: Path) -> None:
    answer = [{"weather.get": {"place": ["Oslo"]}}]
    data = one_case(tmp_path, "multiple", function=[OTHER_WEATHER, WEATHER, CLOCK], answer=answer)
    problem = data.problem("other")
    assert problem.own == ("weather.get", "clock.now")
    assert problem.library["weather.get"].parameters[0].name == "place"
    assert data.tools["weather.get"].parameters[0].name == "city"


def test_messages_are_joined_with_who_wrote_them(tmp_path: Path) -> None:
    said = [{"role": "system", "content": "Be brief.\n"}, {"role": "user", "content": "Now?"}]
    data = one_case(tmp_path, "multiple", question=[said], function=[CLOCK], answer=[{"clock.now": {}}])
    assert data.problem("other").case.query == "system: Be brief.\nuser: Now?"
    assert data.problem("simple_python_0").case.query == "What is the weather in Oslo, Norway?"


def test_broken_files_say_where(tmp_path: Path) -> None:
    rows, answers = bfcl.rows_of("simple_python")
    bfcl.write_category(tmp_path, "simple_python", [rows[0], '{"id": "broken"'], answers)
    with pytest.raises(DataError, match=r"simple_python\.json:2: broken JSON"):
        BFCL(str(tmp_path)).case_ids()
    bfcl.write_category(tmp_path, "simple_python", ["[1]"], answers)
    with pytest.raises(DataError, match="a JSON object is expected"):
        BFCL(str(tmp_path)).case_ids()
    bfcl.write_category(tmp_path, "simple_python", [f'{{"id": {"[" * 100_000}'], answers)
    with pytest.raises(DataError, match="broken JSON"):
        BFCL(str(tmp_path)).case_ids()
    bfcl.write_category(tmp_path, "simple_python", rows, ['{"id": NaN}'])
    with pytest.raises(DataError, match="possible_answer"):
        BFCL(str(tmp_path)).case_ids()
    bfcl.write_category(tmp_path, "simple_python", rows, [{"id": "another"}])
    with pytest.raises(ConfigError, match="at least one usable record"):
        BFCL(str(tmp_path)).case_ids()
    with pytest.raises(ConfigError, match=r"lacks BFCL_v4_multiple\.json"):
        BFCL(str(tmp_path), category="multiple").case_ids()


def test_the_folder_of_the_data_or_the_one_around_it(tmp_path: Path) -> None:
    bfcl.write(tmp_path / "data")
    assert BFCL(str(tmp_path)).version == BFCL(str(tmp_path / "data")).version
    assert BFCL(str(tmp_path), category="multiple").version != BFCL(str(tmp_path)).version


def test_cases_with_the_same_functions_are_one_cluster(small_bfcl: str) -> None:
    data = BFCL(small_bfcl, category="multiple")
    rows = zip(BFCL(small_bfcl, category="multiple", order="file").case_ids(), CATEGORIES["multiple"], strict=True)
    names = {case_id: {one["name"] for one in functions} for case_id, (_, functions, _) in rows}
    for one, other in itertools.combinations(names, 2):
        assert (data.cluster(one) == data.cluster(other)) == (names[one] == names[other])


def test_wrong_arguments_are_expected_to_spoil_a_case(small_bfcl: str) -> None:
    skill = {"tool_skill": 1.0, "argument_skill": 0.5, "malformed": 0.0, "case_spread": 0.0, "step_spread": 0.0}
    values = {"path": small_bfcl, "category": "parallel"}
    setting = setting_of(values, {}, skill, model="simulated", dataset="bfcl", retriever="none", pool="case")
    built = build(setting, BUDGET)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 40))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert {round(row["expected_success"], 6) for row in rows} == {0.25}
    assert 0.1 < sum(row["success"] for row in rows) / len(rows) < 0.4


@pytest.mark.parametrize("category", ALL)
def test_of_the_release_few_records_are_left_out(category: Any) -> None:
    path = os.environ.get("AGENT_GRID_BFCL")
    if not path:
        pytest.skip("set AGENT_GRID_BFCL to the folder of BFCL v4")
    data = BFCL(path, category=category)
    case_ids = data.case_ids()
    assert len(data.skipped) < 0.03 * (len(case_ids) + len(data.skipped))
    for case_id in case_ids:
        problem = data.problem(case_id)
        assert played(problem, reference_of(problem))[0]
        assert played(problem, [])[0] == ("irrelevance" in category)


def test_no_outline_can_be_drafted_of_messages_that_are_not_known_yet() -> None:
    with pytest.raises(ConfigError, match=r"dataset\.outline='drafted': hidden"):
        BFCL("folder", "multi_turn_base", outline="drafted")

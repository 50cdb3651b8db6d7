"""StableToolBench as cases, on small files in the released format and on the release itself."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ConfigError, DataError
from grid.core.types import Json, Observation, Step, Substep, ToolCall, Trajectory
from grid.datasets import stabletoolbench_records as records
from grid.datasets.stabletoolbench import StableToolBench, made_up, shape_of
from grid.datasets.stabletoolbench_records import Api
from grid.metrics.stepwise import score, trajectory_scores
from tests.support.stabletoolbench import (
    CAST,
    CHANGE,
    CINEMA,
    FOLDER,
    SMALL,
    WEATHER,
    api,
    parameter,
    query,
    write_queries,
)
from tests.support.walks import Walk

SEARCH, CASTING, TIMES, HEALTH = (
    f"{name}_for_cinema_guide" for name in ("search_movies", "get_cast", "show_times", "health")
)


@pytest.fixture
def small(small_stabletoolbench: str) -> StableToolBench:
    return StableToolBench(path=small_stabletoolbench)


def made(root: Path, rows: Any, **keys: Any) -> StableToolBench:
    """The dataset over one group's rows."""
    return StableToolBench(path=write_queries(root, {"G1_tool": rows}), **keys)


def test_a_query_is_a_case_with_its_own_apis_and_a_set_of_relevant_ones(small: StableToolBench) -> None:
    problem = small.problem("G1_instruction-3")
    assert problem.case.query == "When is Alien shown in Oslo, and who plays in it?"
    assert problem.own == (SEARCH, CASTING, TIMES, HEALTH)
    calls = [call for call in problem.reference.calls.values() if call]
    assert [call.tool for call in calls] == [SEARCH, CASTING, TIMES]
    assert [call.arguments for call in calls] == [
        {"title": "Alien"}, {"movie_id": "7"}, {"city": "Oslo", "day": "2026-01-01"},
    ]  # fmt: skip
    assert (problem.reference.ordered, problem.reference.followed) == (False, False)
    assert problem.domain == "Data"
    assert small.cluster("G1_instruction-1") == small.cluster("G2_category-12") == SEARCH
    repeated = small.problem("G2_category-12").reference.calls
    assert len(repeated) == 1, "an API that is named twice is one of the set"


def test_the_library_is_every_api_of_every_group_under_a_name_of_its_own(small_stabletoolbench: str) -> None:
    one, every = (StableToolBench(path=small_stabletoolbench, group=group) for group in ("G1_tool", None))
    assert one.tools == every.tools
    assert len(every.tools) == len({*CINEMA_KEYS, *WEATHER_KEYS, *CHANGE_KEYS})
    assert {"convert_for_money_changer", "convert_for_money_changer_2"} <= every.tools.keys()
    assert every.tools["convert_for_money_changer_2"].category == "Financial"
    tool = every.tools[SEARCH]
    assert (tool.description, tool.category, tool.returns) == (
        "Search Movies by Cinema Guide",
        "Data",
        (),
    )
    kinds = [(parameter.name, parameter.type, parameter.required) for parameter in tool.parameters]
    assert kinds == [("title", "string", True), ("year", "number", False)]
    assert tool.parameters[0].description == "The title, for example Alien"
    assert every.tools[HEALTH].description == "health of Cinema Guide", "where nothing is said of it"
    assert len(one.case_ids()) == 4
    assert len(every.case_ids()) == 12
    assert {skip.record for skip in every.skipped} == {"G1_category", "G2_instruction", "G3_instruction"}
    assert not one.skipped


CINEMA_KEYS, WEATHER_KEYS, CHANGE_KEYS = (
    {(row["category_name"], row["tool_name"], row["api_name"]) for row in rows} for rows in (CINEMA, WEATHER, CHANGE)
)


def test_names_are_such_as_servers_take_and_no_two_are_alike() -> None:
    odd = [
        Api(category, "A" * 80, name) for category in ("x", "y") for name in ("B" * 80, "../..", "?", "id", "9 lives")
    ]
    odd += [Api("x", "💰", "💰"), Api("x", "^", "号"), Api("x", "finish", "no_tool")]
    found = records.tool_names(odd)
    assert len({*found.values()}) == len(odd)
    assert all(name.isascii() and name.isidentifier() | name[0].isdigit() for name in found.values())
    assert max(map(len, found.values())) <= records.LONGEST
    assert found == records.tool_names(odd[::-1]), "whatever the order"


def test_a_case_is_resolved_by_each_relevant_api_with_any_arguments(small: StableToolBench) -> None:
    walk = Walk(small.problem("G1_instruction-3").world)
    assert not walk.make(ToolCall(SEARCH, {"title": "unknown"})).failed
    assert not walk.make(ToolCall(HEALTH, {})).failed
    assert not walk.make(ToolCall(TIMES, {"city": "Bergen", "day": "2026-02-01"})).failed
    assert not walk.resolved
    assert not walk.make(ToolCall(CASTING, {"movie_id": 1})).failed
    assert walk.resolved


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall(TIMES, {}), "missing 2 required positional arguments: 'city' and 'day'"),
        (ToolCall(TIMES, {"city": "Oslo"}), "missing 1 required positional argument: 'day'"),
        (ToolCall(SEARCH, {"title": "x", "colour": "red"}), "unexpected keyword argument 'colour'"),
        (ToolCall("nothing", {}), "No such function name: nothing"),
    ],
)
def test_a_call_that_does_not_fit_its_api_fails_and_changes_nothing(
    small: StableToolBench, call: ToolCall, told: str
) -> None:
    walk = Walk(small.problem("G1_instruction-3").world)
    observation = walk.make(call)
    assert observation.failed
    assert told in str(observation.content["error"])
    assert walk.state == frozenset()


def test_made_up_responses_have_the_documented_shape_and_follow_from_the_call() -> None:
    call = ToolCall("search", {"title": "Alien", "Total": 3})
    found: Any = made_up(call, shape_of(CAST))
    assert found == made_up(ToolCall("search", {"Total": 3, "title": "Alien"}), shape_of(CAST))
    assert found != made_up(ToolCall("search", {"title": "Aliens"}), shape_of(CAST))
    assert [len(found["movies"]), found["total"], found["movies"][0]["title"]] == [2, 3, "Alien"]
    assert [type(value) for value in found["movies"][1].values()] == [str, int, float]
    assert found["movies"][0]["year"] != found["movies"][1]["year"]
    shapes: list[tuple[Json, Json]] = [
        ({"none": "NoneType", "no": "empty list", "flag": "bool"}, None),
        (["list of list with length 3"], None),
        ('{"rate": "float"}', None),
    ]
    for template, _ in shapes:
        json.dumps(made_up(call, shape_of(template)))
    assert shape_of('{"cut": "st') is shape_of("int") is shape_of(None) is shape_of({}) is None
    assert str(made_up(call, None)).startswith("result-")
    deep: Json = "int"
    for _ in range(500):
        deep = [{"inner": deep, "more": "str"}] * 3
    assert len(json.dumps(made_up(call, deep))) < 2000


def test_a_long_response_is_cut(tmp_path: Path) -> None:
    template = {f"field_{number}": "str" for number in range(500)}
    data = made(tmp_path, [query(1, "What?", [api("Big", "All", template=template)])], observation_characters=50)
    observation = Walk(data.problem("G1_tool-1").world).make(ToolCall("all_for_big", {}))
    assert [*observation.content] == ["response"]
    assert len(str(observation.content["response"])) == 50 + len("...")


def test_selection_is_scored_without_any_model_and_arguments_are_not(small: StableToolBench) -> None:
    problem = small.problem("G1_instruction-3")
    made = [ToolCall(name, {}) for name in (TIMES, SEARCH, CASTING, TIMES)]
    steps = tuple(Step(0, Substep(str(i), "", ""), call, Observation({})) for i, call in enumerate(made))
    found = score(Trajectory(steps, steps), problem.reference, True, problem.measure(Trajectory(steps, steps)))
    assert [found[name] for name in ("exact_match", "tool_precision", "tool_recall", "usage")] == [True, 1.0, 1.0, None]


def by_chance(data: StableToolBench, case_id: str) -> tuple[float, float]:
    """The precision that one call drawn from a query's own APIs is expected to have, and the share that is relevant."""
    problem = data.problem(case_id)
    steps = [Step(0, Substep("0", "", ""), ToolCall(name, {}), Observation({})) for name in problem.own]
    hits = [trajectory_scores([step], problem.reference)["tool_precision"] for step in steps]
    return math.fsum(hits) / len(hits), len(problem.reference.calls) / len(problem.own)


def test_one_call_drawn_from_a_querys_own_apis_is_right_as_often_as_chance_has_it(small: StableToolBench) -> None:
    for case_id in small.case_ids():
        expected, share = by_chance(small, case_id)
        assert expected == share


def test_what_cannot_be_a_case_is_left_out_and_told_why(tmp_path: Path) -> None:
    rows = [
        query(1, "Fine?", CINEMA),
        query(2, "Nothing is offered", [], ("A", "B")),
        query(3, "Another API is relevant", CINEMA, ("Cinema Guide", "Nothing")),
        query(4, "Half a pair", CINEMA, ("Cinema Guide",)),
        query(5, "Three", CINEMA, ("Cinema Guide", "health", "x")),
        query(1, "Again", WEATHER),
        query(6, "  ", CINEMA),
        query(7, "Odd", [api("Odd", "API", [parameter("x", default="OUTPUT_FROM_STEP_9.x")])]),
        query("8", "Also fine, whose number is a text", [*CINEMA, *CINEMA]),
        {**query(9, "None relevant", CINEMA), "relevant APIs": []},
    ]
    data = made(tmp_path, rows, group="G1_tool", order="file")
    assert data.case_ids() == ["G1_tool-1", "G1_tool-8"]
    assert [(skip.record, skip.reason) for skip in data.skipped] == [
        ("G1_tool-2", "it offers no API"),
        ("G1_tool-3", "a relevant API is not one of the APIs that the query offers"),
        ("G1_tool-4", "a relevant API is not one of the APIs that the query offers"),
        ("G1_tool-5", "a relevant API is not one of the APIs that the query offers"),
        ("G1_tool-1", "an earlier query of the group has this query_id"),
        ("G1_tool-6", "it asks nothing"),
        ("G1_tool-7", "the default of an argument refers to another call's result"),
        ("G1_tool-9", "the query names no relevant API"),
    ]
    assert len(data.problem("G1_tool-8").own) == len(CINEMA), "an API that is listed twice is one"


def test_odd_definitions_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    nameless: list[Any] = [parameter(""), {"type": "STRING"}, "no object"]
    named = [parameter("a\n b"), parameter("a b", "NUMBER"), parameter("n", "NEW KIND")]
    odd = api("Odd", "API", [*nameless, *named], description="x" * 1_000_000)
    data = made(tmp_path, [query(1, "What?", [odd])])
    tool = data.tools["api_for_odd"]
    assert [(one.name, one.type) for one in tool.parameters] == [("a b", "string"), ("n", "string")]
    assert len(tool.description) == 256


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "a list of queries is expected"),
        ("[7]", "query 1: query must be a str"),
        ('[{"query": "x", "query_id": 1, "api_list": {}, "relevant APIs": []}]', "query 1: api_list must be a list"),
        ('[{"query": "x", "query_id": 1, "api_list": []}]', "query 1: relevant APIs must be a list"),
        (
            '[{"query": "x", "query_id": 1, "api_list": [{"tool_name": "x"}], "relevant APIs": []}]',
            "query 1: every item of api_list must have category_name, tool_name, api_name",
        ),
        *(
            (
                json.dumps([query(1, "x", [api("A", "B") | {key: value}])]),
                f"query 1: {key} in an item of api_list must be",
            )
            for key, value in (("required_parameters", 5), ("optional_parameters", {"name": "x"}))
        ),
        ("[", "broken JSON"),
        ("[" * 100_000, "broken JSON"),
        ('["\\ud800"]', "broken JSON"),
    ],
)
def test_files_of_another_form_are_refused_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    write_queries(tmp_path, {"G1_tool": []})
    (tmp_path / FOLDER / "G1_tool.json").write_text(text)
    with pytest.raises(DataError) as caught:
        StableToolBench(path=str(tmp_path)).case_ids()
    assert told in str(caught.value)
    assert "G1_tool.json" in str(caught.value)


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    for path, group in (
        (None, None),
        (str(tmp_path / "absent"), None),
        (str(tmp_path), None),
        (str(tmp_path), "G3_instruction"),
    ):
        with pytest.raises(ConfigError) as caught:
            StableToolBench(path=path, group=group).case_ids()  # type: ignore[arg-type]
        assert (caught.value.key, caught.value.value) == ("dataset.path", path)
    write_queries(tmp_path, {"G1_tool": []})
    with pytest.raises(ConfigError, match="G3_instruction"):
        StableToolBench(path=str(tmp_path), group="G3_instruction").case_ids()
    inside = StableToolBench(path=write_queries(tmp_path, {"G1_tool": SMALL["G1_tool"]}) + f"/{FOLDER}")
    assert len(inside.case_ids()) == 4, "the folder of the files themselves"


def test_the_version_is_of_all_that_is_read(tmp_path: Path, small: StableToolBench) -> None:
    assert small.version.endswith("-simulated")
    moved = StableToolBench(path=write_queries(tmp_path))
    assert moved.version == small.version
    fewer = StableToolBench(path=write_queries(tmp_path / "b", {"G1_tool": SMALL["G1_tool"]}))
    renamed = StableToolBench(path=write_queries(tmp_path / "c", {"G1_category": SMALL["G1_tool"]}))
    assert len({small.version, fewer.version, renamed.version}) == 3


def test_the_release(released_stabletoolbench: str) -> None:
    data = StableToolBench(path=released_stabletoolbench)
    cases = data.case_ids()
    bad = [skip for skip in data.skipped if "-" in skip.record]
    assert len(bad) <= 0.03 * len(cases)
    assert len(cases) >= 600
    for case_id in cases:
        problem = data.problem(case_id)
        walk = Walk(problem.world)
        for call in problem.reference.calls.values():
            assert call is not None
            assert call.tool in problem.own
            assert not walk.make(call).failed
        assert walk.resolved
        expected, share = by_chance(data, case_id)
        assert expected == pytest.approx(share)

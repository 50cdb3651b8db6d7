"""APIBench: what the loader makes of its files, how calls are taken down, and what counts as the answer."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.errors import ConfigError, DataError
from grid.core.problem import Problem
from grid.core.types import FINISH, Json, Observation, ToolCall, Trajectory
from grid.datasets.apibench import APIBench, Record, names_of, read_record
from grid.datasets.apibench_trees import MAX_BYTES
from tests.support import apibench
from tests.support.apibench import ABSENT, RECORDS, SPEECH, pair, record

HUBS = tuple(RECORDS)
HEARS = "acme/hears"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return apibench.write(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def small(folder: str) -> APIBench:
    return APIBench(folder)


def called(problem: Problem, *calls: tuple[str, Mapping[str, Json]]) -> tuple[Any, list[Observation]]:
    state, seen = problem.world.start(), list[Observation]()
    for tool, arguments in calls:
        state, observation = asyncio.run(problem.world.apply(state, ToolCall(tool, arguments)))
        seen.append(observation)
    return state, seen


def measured(problem: Problem, state: Any, answer: str | None = None) -> tuple[bool, bool]:
    told = problem.world.answer(state) if answer is None else answer
    found = problem.measure(Trajectory((), (), state, answer=told))
    return found["accuracy"], found["hallucinated"]


def check_reference(data: APIBench, case_id: str) -> None:
    """The reference's call is right, and nothing is neither right nor wrong."""
    problem = data.problem(case_id)
    (call,) = problem.reference.calls.values()
    assert call
    start = problem.world.start()
    assert not problem.world.resolved(start)
    assert measured(problem, start) == (False, False)
    state, (seen,) = called(problem, (call.tool, dict(call.arguments)))
    assert not seen.failed
    assert problem.world.resolved(state)
    assert measured(problem, state) == (True, False)
    assert set(call.arguments) <= {one.name for one in data.tools[call.tool].parameters}


@pytest.mark.parametrize("hub", HUBS)
def test_every_reference_is_right(folder: str, hub: Any) -> None:
    data = APIBench(folder, hub=hub)
    for case_id in data.case_ids():
        check_reference(data, case_id)
        problem = data.problem(case_id)
        (call,) = problem.reference.calls.values()
        assert call
        if call.arguments:
            unheard = dict.fromkeys(call.arguments, "no-such-thing-anywhere")
            assert measured(problem, called(problem, (call.tool, unheard))[0]) == (False, True)
            assert measured(problem, called(problem, (call.tool, {}))[0]) == (False, True)


def test_cases_tools_and_what_is_skipped(small: APIBench) -> None:
    records = RECORDS["huggingface"]
    assert [skip.record for skip in small.skipped] == [
        "huggingface_api.jsonl:7",
        "apibench-huggingface-0014",
        "apibench-huggingface-0032",
    ]
    assert {skip.reason.rpartition("api_call ")[2] for skip in small.skipped} == {
        "is not a readable Python call",
        "of the reference is not a readable Python call",
    }
    assert len(small.case_ids()) == 2 * (len(records) - 1) + 1
    assert list(small.tools) == [
        "acme/short", HEARS, "acme/hears_2", "acme_faces", "finish_2", "bare", "stopped", "splat", "acme/absent",
    ]  # fmt: skip
    assert "acme/absent" in small.tools, "a reference that the hub lacks"
    assert ABSENT[2] not in (Path(small.path or "") / "api/huggingface_api.jsonl").read_text()


def test_two_queries_of_a_record_are_one_cluster(small: APIBench) -> None:
    clusters = [small.cluster(case_id) for case_id in small.case_ids()]
    assert sorted(map(clusters.count, set(clusters))) == [1, *[2] * 6, 4], "joblib's call has two records"
    assert {small.cluster(case_id) for case_id in APIBench(small.path, limit=3).case_ids()} <= set(clusters)
    assert list(APIBench(small.path, limit=3).case_ids()) == list(small.case_ids())[:3]


def test_tools_tell_what_the_record_says_and_nothing_of_the_case(small: APIBench) -> None:
    tool = small.tools["acme/hears_2"]
    assert "AutoModel.from_pretrained('acme/hears-more', revision=main)" in tool.description
    assert SPEECH in tool.description
    assert [(one.name, one.type, one.required) for one in tool.parameters] == [
        ("argument_1", "string", True),
        ("revision", "string", True),
    ]
    assert "code" in tool.parameters[1].description
    hub = APIBench(small.path, hub="torchhub")
    assert [(one.name, one.type, one.required) for one in hub.tools["net"].parameters] == [
        ("repo_or_dir", "string", True),
        ("argument_2", "string", False),
        ("model", "string", True),
        ("pretrained", "boolean", False),
    ]


def test_records_of_the_same_call_and_domain_are_one_tool(tmp_path: Path) -> None:
    again = record(SPEECH, "another name", "AutoModel.from_pretrained('acme/hears')") | {"functionality": ["Hearing"]}
    path = Path(apibench.write(tmp_path, extra=[pair(90, again)]))
    with (path / "api/huggingface_api.jsonl").open("a") as file:
        file.write(f"{json.dumps(again)}\n")
    data = APIBench(str(path))
    assert "another_name" not in data.tools
    assert data.tools[HEARS].description.startswith(f"Recognition; Hearing ({SPEECH}): A model")
    problem = data.problem("apibench-huggingface-0090")
    assert [call.tool for call in problem.reference.calls.values() if call] == [HEARS]


def test_tools_of_the_same_call_do_the_same(small: APIBench) -> None:
    problem = small.problem(small.case_ids()[0])
    same = problem.same_function
    assert same["finish_2"] == "acme_faces"
    assert [name for name, first in same.items() if name != first] == ["finish_2"]


def of(hub: Any, call: str) -> Record:
    made = read_record(hub, [record(SPEECH, "x", call)], "x")
    assert isinstance(made, Record)
    return made


@pytest.mark.parametrize(
    ("call", "arguments", "code"),
    [
        ("A.load('x')", {"argument_1": "it's"}, 'A.load("it\'s")'),
        ("A.load('x', p=f(1))", {"p": "g('a')", "argument_1": "y"}, "A.load('y', p=g('a'))"),
        ("A.load('x', **kw)", {"argument_1": "y", "depth": 3}, "A.load('y', depth=3, **kw)"),
        ('A.load("x", on=True)', {"argument_1": "y", "on": False}, 'A.load("y", on=False)'),
        ("A.load('x', *more)", {}, "A.load(*more)"),
        ("A.load('x')", {"argument_1": None, "extra": ["a"]}, "A.load(None, extra=['a'])"),
    ],
)
def test_a_call_is_rendered_as_its_record_writes_it(call: str, arguments: dict[str, Json], code: str) -> None:
    assert of("huggingface", call).render(arguments) == code


@pytest.mark.parametrize("name", ["", "a b", "x=1, y", "1"])
def test_a_name_that_no_code_has_is_refused(small: APIBench, name: str) -> None:
    problem = small.problem(small.case_ids()[0])
    state, (seen,) = called(problem, (HEARS, {name: 1}))
    assert seen.failed
    assert state == problem.world.start()


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_any_text_is_a_value_and_stays_one(text: str) -> None:
    code = of("huggingface", "A.load('x')").render({"argument_1": text})
    assert "\x00" in text or ast.literal_eval(code.removeprefix("A.load(")[:-1]) == text


def test_the_outcome_says_that_the_call_is_recorded_never_whether_it_is_right(small: APIBench) -> None:
    problem = small.problem(next(case for case in small.case_ids() if HEARS in small.cluster(case)))
    right = (HEARS, {"argument_1": HEARS})
    wrong = ("acme/short", {"argument_1": "summarization", "model": "acme/short"})
    state, (one, other) = called(problem, right, wrong)
    assert one.content.keys() == other.content.keys() == {"recorded", "status"}
    assert (one.failed, other.failed) == (False, False)
    assert not problem.world.resolved(state), "the last call counts"
    assert problem.world.resolved(called(problem, wrong, right)[0])
    assert pickle.loads(pickle.dumps(state)) == state  # noqa: S301 - our own
    assert hash(state) == hash(called(problem, wrong)[0])


def test_calls_that_cannot_be_taken_down(small: APIBench) -> None:
    problem = small.problem(small.case_ids()[0])
    before, _ = called(problem, (HEARS, {"argument_1": "x"}))
    for tool, value in [("nobody's", "x"), (HEARS, "x" * 100_000), (HEARS, "\ud800" * 3)]:
        state, seen = called(problem, (HEARS, {"argument_1": "x"}), (tool, {"argument_1": value}))
        assert (state, seen[-1].failed, list(seen[-1].content)) == (before, True, ["error"])
    assert called(problem, (HEARS, {"argument_1": "x" * (MAX_BYTES // 2)}))[1][0].failed is False


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("AutoModel.from_pretrained('acme/hears')", (True, False)),
        ("```python\nAutoModel.from_pretrained('acme/hears')\n```", (True, False)),
        ("<<<api_call>>>: AutoModel.from_pretrained('acme/hears')\n<<<api_provider>>>: Acme", (True, False)),
        ("AutoModel.from_pretrained('acme/gone')", (False, True)),
        ("The call is recorded.", (False, False)),
        ("Done", (False, False)),
        ("", (False, False)),
    ],
)
def test_code_at_the_end_counts_before_the_call(small: APIBench, answer: str, found: tuple[bool, bool]) -> None:
    problem = small.problem(next(case for case in small.case_ids() if HEARS in small.cluster(case)))
    state, _ = called(problem, ("acme/short", {"argument_1": "summarization", "model": "acme/short"}))
    assert measured(problem, state, answer) == found
    assert measured(problem, problem.world.start(), answer) == found


def test_names_are_unique_and_none_is_reserved() -> None:
    names = names_of([{"api_name": name} for name in ("a", "a_2", "a", "a", FINISH, "", "x y", 3, None)])
    assert names == ["a", "a_2", "a_3", "a_4", "finish_2", "api", "x_y", "3", "api_2"]


def test_pairs_that_cannot_be_cases_are_told(tmp_path: Path) -> None:
    good = record(*RECORDS["huggingface"][0])
    odd: list[Any] = [
        pair(100, good) | {"code": None},
        pair(101, good) | {"code": "###Output: x"},
        pair(102, good) | {"api_data": None},
        pair(103, good | {"api_call": "x = 3"}),
        pair(104, good | {"domain": 4}),
        pair(2, good),
        {},
    ]
    data = APIBench(apibench.write(tmp_path, extra=odd))
    assert [(skip.record[-4:], skip.reason) for skip in data.skipped[3:]] == [
        ("0100", "the record has no instruction"),
        ("0101", "the record has no instruction"),
        ("0102", "the api_call of the reference is not a readable Python call"),
        ("0103", "the api_call of the reference is not a readable Python call"),
        ("0104", "the api_call of the reference is not a readable Python call"),
        ("0002", "an earlier record has this id"),
        ("0026", "the record has no instruction"),
    ]


def test_files_that_are_none(tmp_path: Path) -> None:
    path = Path(apibench.write(tmp_path))
    pairs = path / "apibench/huggingface_eval.json"
    pairs.write_text(json.dumps({"question_id": 1}) + "\n")
    with pytest.raises(ConfigError, match="at least one usable record"):
        APIBench(str(path)).case_ids()
    pairs.write_text("[1]\n")
    with pytest.raises(DataError, match="a JSON object is expected"):
        APIBench(str(path)).case_ids()
    pairs.unlink()
    with pytest.raises(ConfigError, match=r"lacks apibench/huggingface_eval\.json"):
        APIBench(str(path)).case_ids()


def test_the_query_is_the_pairs_own_instruction(tmp_path: Path) -> None:
    told = 'Sum up "this".\n\n###Input: A long tale.'
    data = APIBench(apibench.write(tmp_path, extra=[pair(90, record(*RECORDS["huggingface"][0]), told)]))
    query = data.problem("apibench-huggingface-0090").case.query
    assert query == 'Sum up "this".\n###Input: A long tale.'


@pytest.mark.skipif("AGENT_GRID_APIBENCH" not in os.environ, reason="set AGENT_GRID_APIBENCH to Gorilla's data folder")
@pytest.mark.parametrize("hub", HUBS)
def test_the_released_pairs(hub: Any) -> None:
    data = APIBench(os.environ["AGENT_GRID_APIBENCH"], hub=hub)
    cases, skipped = len(data.case_ids()), [skip for skip in data.skipped if skip.record.startswith("apibench-")]
    assert len(skipped) < 0.03 * (cases + len(skipped))
    for case_id in data.case_ids():
        check_reference(data, case_id)
        assert "<<<" not in data.problem(case_id).case.query

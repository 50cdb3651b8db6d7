"""Tools that are Python functions, and tasks whose tools they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from pydantic.dataclasses import dataclass

from grid.contracts.trying import reference_resolves
from grid.core.engine import Prompt, Section, ToolCallAnswer
from grid.core.errors import ConfigError, DataError, ToolError
from grid.core.types import Parameter, ToolCall
from grid.core.util import STRICT
from grid.datasets.functions import FunctionTasks, tool_of
from grid.engines.functions import handed_over
from grid.text.references import misfit
from grid.worlds.functions import Function, FunctionWorld, called, outcome


def divide(a: float, b: float, unit: Literal["m", "km"] = "m") -> dict[str, Any]:
    """The quotient of two numbers,
    with its unit.

    It is no integer division.

    Args:
        a: what is divided.
        b: by what,
            not 0.
        unit: of the result.

    Returns:
        a: this is no argument.
    """
    return {"value": a / b, "unit": unit}


def shout(text: str, times: int | None = None) -> str:
    """Says it loudly."""
    return text.upper() * (times or 1)


def break_down(text: str) -> object:
    """Breaks."""
    if text == "set":
        return {1, 2}
    if text == "nan":
        return float("nan")
    raise RuntimeError("out of order")


def test_a_function_as_planners_see_it() -> None:
    tool = tool_of(divide)
    assert (tool.name, tool.description) == ("divide", "The quotient of two numbers, with its unit.")
    assert tool.parameters == (
        Parameter("a", "number", "what is divided."),
        Parameter("b", "number", "by what, not 0."),
        Parameter(
            "unit",
            "string",
            'of the result. One of: "m", "km". Default: "m".',
            False,
            ("m", "km"),
            '{"enum": ["m", "km"], "type": "string"}',
        ),
    )
    assert tool.returns == ("result",), "the fields of a dict are not known ahead"
    assert tool_of(shout).parameters[1] == Parameter("times", "integer", "", required=False)


def test_values_that_a_signature_lists_are_an_enum_of_native_functions() -> None:
    tool = tool_of(divide)
    asked = Prompt((Section("tools", ("Tools:",), (tool.name,)),), ToolCallAnswer((tool,), may_decline=False))
    (definition,) = handed_over(asked).sections[0].entries
    unit = json.loads(definition)["function"]["parameters"]["properties"]["unit"]
    assert unit["enum"] == ["m", "km"]
    assert unit["description"] == tool.parameters[2].description


class Book(TypedDict):
    """What `book` returns."""

    title: str
    year: int


def book(title: str) -> Book:
    """A book by its title."""
    return {"title": title, "year": 1851}


def century(year: int) -> int:
    """The century of a year."""
    return year // 100 + 1


def cover(of: dict[str, Any], text: str = "") -> str:
    """The text on a cover."""
    return f"{of['title']}, {of['year']}{text}"


def test_the_fields_of_a_typed_dict_are_told_to_planners() -> None:
    assert tool_of(book).returns == ("title", "year")


def either(a: bool | int, b: list[int] | str | None = None) -> str:
    """Has arguments of several types."""
    return f"{a} {b}"


def test_an_argument_of_several_types_tells_all_of_them() -> None:
    a, b = tool_of(either).parameters
    assert (a.type, a.description, a.required) == ("boolean|integer", "", True)
    assert (b.type, b.description, b.required) == ("array|string", "Form: [integer] or string.", False)
    assert misfit(ToolCall("either", {"a": 2.5}), tool_of(either)) == "a is no boolean or integer"
    assert misfit(ToolCall("either", {"a": 2, "b": [1]}), tool_of(either)) is None


def no_text(a: int) -> int:
    return a


def untyped(a) -> int:  # type: ignore[no-untyped-def]
    """Has an argument without a type."""
    return int(a)


def many(*a: int) -> int:
    """Has arguments without names."""
    return sum(a)


def strange(a: Path | asyncio.Event) -> int:
    """Has an argument that no JSON can be."""
    return id(a)


@pytest.mark.parametrize("function", [no_text, untyped, many, strange])
def test_functions_that_can_be_no_tools(function: Function) -> None:
    with pytest.raises(ConfigError, match=function.__name__):
        tool_of(function)


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (divide, {"a": 3, "b": 2}, {"value": 1.5, "unit": "m"}),
        (divide, {"a": "3", "b": 2.0, "unit": "km"}, {"value": 1.5, "unit": "km"}),
        (shout, {"text": "a", "times": 3}, "AAA"),
    ],
)
def test_calls_that_fit(function: Function, arguments: dict[str, Any], result: object) -> None:
    observation = called(function, ToolCall(function.__name__, arguments))
    assert (observation.content, observation.failed) == ({"result": result}, False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"a": 1}, "b: Missing required argument"),
        ({"a": 1, "b": 2, "c": 3}, "c: Unexpected keyword argument"),
        ({"a": "one", "b": 2}, "a: Input should be a valid number"),
        ({"a": 1, "b": 2, "unit": "mile"}, "unit: Input should be 'm' or 'km'"),
        ({"a": 1, "b": 0}, "ZeroDivisionError: "),
        ({"a": {"x": [1] * 10_000}, "b": 0}, "a: Input should be"),
    ],
)
def test_calls_that_a_tool_refuses(arguments: dict[str, Any], why: str) -> None:
    observation = called(divide, ToolCall("divide", arguments))
    assert observation.failed
    assert str(observation.content["error"]).startswith(why)
    assert len(observation.text()) < 500


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("set", "a value that JSON does not have"),
        ("nan", "a value that JSON does not have"),
        ("x", "RuntimeError: out of order"),
    ],
)
def test_a_function_that_breaks_is_the_tools_failure(text: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        called(break_down, ToolCall("break_down", {"text": text}))


def test_states_are_kept_and_a_failed_call_changes_none() -> None:
    right, wrong = ToolCall("divide", {"a": 3, "b": 2}), ToolCall("divide", {"a": 3, "b": 0})
    world = FunctionWorld({"divide": divide}, outcome(right, called(divide, right)))
    start = world.start()
    for call in (wrong, ToolCall("nothing", {}), ToolCall("divide", {"a": 1, "b": 2})):
        state, observation = asyncio.run(world.apply(start, call))
        assert not world.resolved(state)
        assert observation.failed == (state == start)
    state, _ = asyncio.run(world.apply(start, ToolCall("divide", {"b": "4", "a": 6})))
    assert world.resolved(state), "the result counts, not the way to it"
    assert not world.resolved(start)


@dataclass(config=STRICT)
class Tasks(FunctionTasks):
    """Divisions."""

    def functions(self) -> Sequence[Function]:
        return divide, shout, book, century, cover


def line(*calls: tuple[str, dict[str, Any]], **more: Any) -> str:
    listed = [{"tool": tool, "arguments": arguments} for tool, arguments in calls]
    return json.dumps({"question": "?", "calls": listed, **more})


CHAIN = (("divide", {"a": 6, "b": 2}), ("shout", {"text": "OUTPUT_FROM_STEP_0.result"}))


def tasks(folder: Path, *lines: str, **values: Any) -> Tasks:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return Tasks(path=str(file), **values)


def test_tasks_are_resolved_by_their_own_calls(tmp_path: Path) -> None:
    one = ("divide", {"a": 1, "b": 2})
    chain = (("shout", {"text": "a"}), ("shout", {"text": "OUTPUT_FROM_STEP_0.result", "times": 2}))
    data = tasks(tmp_path, line(one), line(*chain, cluster="chains"), line(one, cluster="chains"))
    assert sorted(data.case_ids()) == ["tasks-0001", "tasks-0002", "tasks-0003"]
    assert [data.cluster(case) for case in sorted(data.case_ids())] == ["tasks-0001", "chains", "chains"]
    assert all(reference_resolves(data.problem(case_id)) for case_id in data.case_ids())
    assert not data.skipped
    assert len(tasks(tmp_path, *[line(one)] * 9, limit=4).case_ids()) == 4


BOOK = ("book", {"title": "Moby-Dick"})


@pytest.mark.parametrize(
    "call",
    [
        ("century", {"year": "OUTPUT_FROM_STEP_0.year"}),
        ("century", {"year": "OUTPUT_FROM_STEP_0.result.year"}),
        ("cover", {"of": "OUTPUT_FROM_STEP_0.result", "text": "OUTPUT_FROM_STEP_0.title.pdf"}),
    ],
)
def test_a_field_of_a_returned_dict_feeds_the_next_call(tmp_path: Path, call: tuple[str, dict[str, Any]]) -> None:
    data = tasks(tmp_path, line(BOOK, call))
    assert data.case_ids() == ["tasks-0001"], data.skipped
    assert reference_resolves(data.problem("tasks-0001"))


NO_FIELD = "call 1 refers to OUTPUT_FROM_STEP_0.{}, but the result of call 0 has the fields result, title, year"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            line(BOOK, ("century", {"year": "OUTPUT_FROM_STEP_0.yeer"})),
            f"{NO_FIELD.format('yeer')} (did you mean year?)",
        ),
        (line(BOOK, ("century", {"year": "OUTPUT_FROM_STEP_0.result.age"})), NO_FIELD.format("result.age")),
        (line(("shot", {})), "there is no tool shot (did you mean shout?); the tools are divide, shout, book"),
        (
            json.dumps({"query": "?", "calls": []}),
            "query: there is no key 'query'; the keys are question, calls, milestones",
        ),
        (json.dumps({"question": "?", "calls": [{"tol": "book"}]}), "calls.0.tol: there is no key 'tol' (did you mean"),
        (line(("nothing", {})), "there is no tool nothing"),
        (line(("divide", {"a": 1, "b": 0})), "call 0 fails: ZeroDivisionError"),
        (
            line(("shout", {"text": "OUTPUT_FROM_STEP_0.result"})),
            "call 0 refers to the result of call 0, which is not an earlier",
        ),
        (line(), "calls: List should have at least 1 item"),
        ('{"question": 3, "calls": []}', "question: Input should be a valid string"),
        (line(("shout", {"text": "a"}), question=" "), "question: String should match pattern"),
        (line(*CHAIN), "text: Input should be a valid string"),
        (line(("shout", {"text": "a"}), answer="A"), "answer: there is no key 'answer'"),
    ],
)
def test_lines_that_can_be_no_cases_are_skipped_with_their_reason(tmp_path: Path, bad: str, why: str) -> None:
    data = tasks(tmp_path, line(("shout", {"text": "a"})), bad)
    assert data.case_ids() == ["tasks-0001"]
    (skipped,) = data.skipped
    assert (skipped.record, skipped.place) == ("tasks-0002", "tasks.jsonl:2")
    assert why in skipped.reason


def test_a_key_that_stands_twice_is_an_error_with_its_place(tmp_path: Path) -> None:
    bad = '{"question": "Say it.", "question": "Shout it.", "calls": [{"tool": "shout", "arguments": {"text": "a"}}]}'
    data = tasks(tmp_path, line(("shout", {"text": "a"})), bad)
    with pytest.raises(DataError, match=r"tasks\.jsonl:2: broken JSON: 'question' stands twice"):
        data.case_ids()


def test_the_version_is_the_files(tmp_path: Path) -> None:
    one, other = (tasks(tmp_path, line(("shout", {"text": text}))).version for text in "ab")
    assert one != other
    with pytest.raises(ConfigError, match=r"dataset\.path"):
        _ = Tasks().version

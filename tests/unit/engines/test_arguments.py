"""The schema of an answer and its reader hold calls of KoPL's functions to the same; other calls stay as they are."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.engine import PlanAnswer, ToolCallAnswer
from grid.core.types import Json, Parameter, ToolCall, ToolSpec, to_json
from grid.engines.answer_schema import answer_schema
from grid.engines.http.chat import strict_schema, without_nulls
from grid.episode.acting import refused
from grid.episode.asking import in_form, read_action
from grid.episode.prompts import FINISH_TOOL
from grid.text.answers import read_call
from grid.text.objects import UnreadableError
from grid.text.references import normalised
from grid.worlds.kopl.functions import TOOLS

OFFERED = {**TOOLS, FINISH_TOOL.name: FINISH_TOOL}
BEFORE = {"0": True, "1": True}
SCHEMA = answer_schema(ToolCallAnswer((*TOOLS.values(), FINISH_TOOL), may_decline=False))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
VALUES = st.one_of(
    st.sampled_from(["OUTPUT_FROM_STEP_0.result", "OUTPUT_FROM_STEP_1.result", "=", "less", "smallest", "forward"]),
    st.sampled_from(["OUTPUT_FROM_STEP_0.value", "OUTPUT_FROM_STEP_x.result", "a OUTPUT_FROM_STEP_0.result", "$", "x"]),
    st.booleans(),
    st.none(),
    st.just(["OUTPUT_FROM_STEP_0.result"]),
    st.just({}),
)


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Json]:
    """Calls that mostly fit: each argument is left out or of another kind now and then, and there may be one more."""
    tool = draw(st.sampled_from([*TOOLS.values()]))
    arguments: dict[str, Json] = {}
    for parameter in tool.parameters:
        good = parameter.values or (("OUTPUT_FROM_STEP_1.result",) if parameter.type == "result" else ("a text",))
        if draw(st.integers(0, 9)):
            arguments[parameter.name] = draw(st.one_of(st.sampled_from(good), VALUES))
    if not draw(st.integers(0, 9)):
        arguments["other"] = draw(VALUES)
    return {"tool": draw(st.sampled_from([tool.name] * 9 + ["Nobody"])), "arguments": arguments}


def readable(call: dict[str, Json], offered: dict[str, ToolSpec]) -> bool:
    """Whether a planner that is exact runs a call that is in the form asked for as it is written."""
    try:
        action = read_action(read_call(to_json({"action": call}), offered), offered, may_decline=False, thought=0)
    except UnreadableError:
        return False
    formed = in_form(action, offered)
    return action.call is not None and formed == action and refused(action.call, offered, BEFORE) is None


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(calls())
def test_what_the_schema_takes_the_reader_takes_and_nothing_else(call: dict[str, Json]) -> None:
    valid = VALIDATOR.is_valid({"action": call})
    arguments = call["arguments"]
    assert isinstance(arguments, dict)
    tool = TOOLS.get(str(call["tool"]))
    if tool and arguments != normalised(arguments, tool, TOOLS.values()):
        assert not valid, "another way to name a result"
        return
    assert readable(call, OFFERED) is valid


def test_every_call_of_the_functions_can_be_said() -> None:
    said = 0
    for tool in TOOLS.values():
        for place in range(4):
            arguments: dict[str, Json] = {
                one.name: one.values[place % len(one.values)] if one.values else f"OUTPUT_FROM_STEP_{place % 2}.result"
                for one in tool.parameters
            }
            call: dict[str, Json] = {"tool": tool.name, "arguments": arguments}
            said += readable(call, OFFERED) and VALIDATOR.is_valid({"action": call})
    assert said == 4 * 27
    listed = {one.values for tool in TOOLS.values() for one in tool.parameters if one.values}
    operators = ("=", "!=", "<", ">")
    assert listed == {operators, ("less", "greater"), ("smallest", "largest"), ("forward", "backward")}


def test_a_price_stays_a_price_where_no_tool_takes_results() -> None:
    pay = ToolSpec("pay", "", (Parameter("amount", "string", "", values=("$1", "$2")), Parameter("to", "string", "")))
    call = ToolCall("pay", {"amount": "$3", "to": 5})
    assert normalised(call.arguments, pay, [pay]) == call.arguments
    assert refused(ToolCall("pay", {"other": "$1"}), {"pay": pay}, {}) is None, "the world says what is wrong with it"
    find = TOOLS["Find"]
    assert normalised({"name": "$1"}, find, TOOLS.values()) == {"name": "$1"}
    assert normalised({"name": 1984}, find, TOOLS.values()) == {"name": "1984"}
    assert normalised({"answer": "$12.x"}, FINISH_TOOL, TOOLS.values()) == {"answer": "OUTPUT_FROM_STEP_12.result"}
    assert normalised({"answer": "$12 a day"}, FINISH_TOOL, TOOLS.values()) == {"answer": "$12 a day"}
    assert normalised({"answer": "$12"}, FINISH_TOOL, [pay]) == {"answer": "$12"}


def strict_parts(schema: dict[str, Any]) -> None:
    """Hold a schema against what OpenAI's guide says of strict mode."""
    assert ("type" in schema) != ("anyOf" in schema)
    assert not {"const", "$ref", "$defs"} & set(schema)
    if schema.get("type") == "object":
        assert schema["required"] == [*schema["properties"]]
        assert schema["additionalProperties"] is False
    items = [schema["items"]] if "items" in schema else []
    for part in (*schema.get("anyOf", []), *schema.get("properties", {}).values(), *items):
        strict_parts(part)


@pytest.mark.parametrize("wanted", [
    ToolCallAnswer((*TOOLS.values(), FINISH_TOOL), may_decline=True, thought=300),
    PlanAnswer((*TOOLS.values(), FINISH_TOOL), least=1, most=30),
])  # fmt: skip
def test_a_schema_in_strict_mode_and_its_answers(wanted: ToolCallAnswer | PlanAnswer) -> None:
    found = strict_schema(answer_schema(wanted))
    assert found is not None
    assert found["type"] == "object"
    strict_parts(found)
    ends = {"tool": "finish", "arguments": {"answer": None}}
    answer = {"plan": [ends]} if isinstance(wanted, PlanAnswer) else {"thought": "null", "action": ends}
    jsonschema.validate(answer, found)
    own = without_nulls(to_json(answer))
    assert '"arguments": {}' in own
    jsonschema.validate(json.loads(own), answer_schema(wanted))
    for text in ('{"a": null', "null", '{"score": null}', ""):
        assert without_nulls(text) == text


def test_a_tool_with_a_list_of_anything_has_no_strict_form() -> None:
    tool = ToolSpec("add", "", (Parameter("all", "array", ""),))
    assert strict_schema(answer_schema(ToolCallAnswer((tool,), may_decline=False))) is None

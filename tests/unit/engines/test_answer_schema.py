"""Answers under a grammar: the schema of a tool call, and what a model that speaks no language writes under it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.core.engine import ChainAnswer, JsonAnswer, MessagesAnswer, OutlineAnswer, PlanAnswer, ToolCallAnswer
from grid.core.types import NO_TOOL, Parameter, ToolSpec, to_json
from grid.engines.answer_schema import answer_schema
from grid.worlds.kopl.functions import TOOLS

REFUND = ToolSpec(
    "refund", "", (Parameter("order", "string", "", required=False), Parameter("amount", "number", "", required=False))
)
LOOK = ToolSpec("look", "", (Parameter("day", "date", ""), Parameter("all", "boolean", "", required=False)))
THOUGHT = 250
BOTH = ToolCallAnswer((REFUND, LOOK), may_decline=True, thought=THOUGHT)
ALONE = ToolCallAnswer((LOOK,), may_decline=False)
PLAN = PlanAnswer((REFUND, LOOK), least=2, most=3, may_decline=True)


def test_a_call_has_its_keys_in_order_and_nothing_else() -> None:
    root = answer_schema(BOTH)
    assert root["type"] == "object"
    assert list(root["properties"]) == root["required"] == ["thought", "action"]
    calls = root["properties"]["action"]["anyOf"]
    assert [call["properties"]["tool"]["const"] for call in calls] == ["refund", "look", NO_TOOL]
    for call in calls:
        assert list(call["properties"]) == call["required"] == ["tool", "arguments"]
        assert call["additionalProperties"] is False
        assert call["properties"]["arguments"]["additionalProperties"] is False
    arguments = [list(call["properties"]["arguments"]["properties"]) for call in calls]
    assert arguments == [["order", "amount"], ["day", "all"], []]
    assert list(answer_schema(ALONE)["properties"]) == ["action"]


def test_an_argument_is_of_its_type_or_a_reference() -> None:
    schema = answer_schema(ToolCallAnswer((REFUND,), may_decline=False))
    text, arguments = {"type": "string"}, schema["properties"]["action"]["properties"]["arguments"]
    assert arguments["properties"] == {"order": text, "amount": {"anyOf": [{"type": "number"}, text]}}
    assert arguments["required"] == []
    look = answer_schema(ALONE)["properties"]["action"]["properties"]["arguments"]
    assert look["required"] == ["day"], "those that the prompt marks with *"


def test_a_call_takes_a_result_that_there_is() -> None:
    tools = (TOOLS["Find"], TOOLS["Count"])
    first, second = (
        answer_schema(ToolCallAnswer(tools, may_decline=False, results=results))["properties"]["action"]
        for results in ((), ("OUTPUT_FROM_STEP_0.result",))
    )
    assert first["properties"]["tool"]["const"] == "Find", "without a result no tool can take one"
    count = second["anyOf"][1]["properties"]["arguments"]["properties"]
    assert count == {"entities": {"enum": ["OUTPUT_FROM_STEP_0.result"]}}


def test_a_plan_has_as_many_entries_as_are_left_and_an_outline_texts() -> None:
    plan = answer_schema(PLAN)["properties"]["plan"]
    assert (plan["minItems"], plan["maxItems"]) == (2, 3)
    assert [entry["properties"]["tool"]["const"] for entry in plan["items"]["anyOf"]] == ["refund", "look", NO_TOOL]
    outline = answer_schema(OutlineAnswer(50))["properties"]["outline"]
    assert (outline["minItems"], outline["maxItems"], outline["items"]["type"]) == (1, 50, "string")


@pytest.fixture(scope="module")
def grammars(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("xgrammar")
    from transformers import AutoTokenizer

    from grid.engines.transformers.model import Grammars
    from tests.support.models import make_tokenizer

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    size = make_tokenizer(folder)
    return Grammars(AutoTokenizer.from_pretrained(folder), size + 5, [size - 1]), AutoTokenizer.from_pretrained(folder)


def accepts(grammars: Any, answer: JsonAnswer, text: str) -> bool:
    """Whether the text is a whole answer, and over with its last character."""
    matcher = grammars[0].matcher(answer)()
    tokens = grammars[1](text, add_special_tokens=False)["input_ids"]
    return all(matcher.accept_token(token) for token in tokens) and bool(matcher.is_terminated())


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        '{"thought": "because", "action": {"tool": "refund", "arguments": {"order": "A1", "amount": 12.5}}}',
        '{"thought": "", "action": {"tool": "refund", "arguments": {"amount": "OUTPUT_FROM_STEP_1.1.total"}}}',
        '{"thought": "é 😀", "action": {"tool": "look", "arguments": {"day": "2025-05-01", "all": true}}}',
        '{"thought": "nothing to do", "action": {"tool": "no_tool", "arguments": {}}}',
        '{"thought": "%s", "action": {"tool": "no_tool", "arguments": {}}}' % ("x" * THOUGHT),
        '{"thought": "", "action": {"tool": "refund", "arguments": {"order": "%s"}}}' % ("a letter, " * 200),
        r'{"thought": "", "action": {"tool": "refund", "arguments": {"order": "D:\\a \"b\"\nc"}}}',
    ],
)
def test_calls_under_the_grammar(grammars: Any, text: str) -> None:
    assert accepts(grammars, BOTH, text)
    json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"action": {"tool": "refund", "arguments": {}}}',
        '{"thought": "because", "action": {"arguments": {}, "tool": "refund"}}',
        '{"thought": "because", "action": {"tool": "other", "arguments": {}}}',
        '{"thought": "because", "action": {"tool": "look", "arguments": {"order": "A1"}}}',
        '{"thought": "because", "action": {"tool": "no_tool", "arguments": {"order": "A1"}}}',
        '{"thought": "because", "action": {"tool": "refund", "arguments": {"amount": true}}}',
        '{"thought": "because",  "action": {"tool": "refund", "arguments": {}}}',
        '{"thought": "%s", "action": {"tool": "no_tool", "arguments": {}}}' % ("x" * (THOUGHT + 20)),
        '{"thought": "", "action": {"tool": "refund", "arguments": {"order": "a\tb"}}}',
        '{"thought": "because", "action": {"tool": "look", "arguments": {"all": true}}}',
        '{"thought": "because", "action": {"tool": "refund", "arguments": {}}} ',
        '{"thought": "be\tcause", "action": {"tool": "refund", "arguments": {}}}',
        '{"thought": "be\ncause", "action": {"tool": "refund", "arguments": {}}}',
    ],
)
def test_what_is_no_call_of_an_offered_tool_is_no_sentence(grammars: Any, text: str) -> None:
    assert not accepts(grammars, BOTH, text)


def test_another_tools_answer_is_not_taken_from_the_cache(grammars: Any) -> None:
    assert accepts(grammars, ALONE, '{"action": {"tool": "look", "arguments": {"day": "today"}}}')
    other = ToolCallAnswer((REFUND,), may_decline=False)
    assert accepts(grammars, other, '{"action": {"tool": "refund", "arguments": {}}}')
    assert not accepts(grammars, other, '{"action": {"tool": "look", "arguments": {"day": "today"}}}')


KOPL = ToolCallAnswer((TOOLS["And"], TOOLS["SelectAmong"], TOOLS["Find"]), may_decline=False)
FIRST, LATER = "OUTPUT_FROM_STEP_0.result", "OUTPUT_FROM_STEP_12.3.result"


@pytest.mark.parametrize(
    ("tool", "arguments", "allowed"),
    [
        ("And", {"l_entities": FIRST, "r_entities": LATER}, True),
        ("And", {"l_entities": FIRST, "r_entities": "OUTPUT_FROM_STEP_1.value"}, False),
        ("And", {"l_entities": FIRST, "r_entities": "$1"}, False),
        ("And", {"l_entities": FIRST}, False),
        ("SelectAmong", {"entities": LATER, "key": 'a "key"', "op": "largest"}, True),
        ("SelectAmong", {"entities": LATER, "key": "height", "op": "most"}, False),
        ("SelectAmong", {"entities": LATER, "key": "height", "op": FIRST}, False),
        ("Find", {"name": 5}, False),
    ],
)
def test_results_and_listed_values_under_the_grammar(
    grammars: Any, tool: str, arguments: dict[str, Any], allowed: bool
) -> None:
    assert accepts(grammars, KOPL, to_json({"action": {"tool": tool, "arguments": arguments}})) is allowed


ENTRY = '{"tool": "no_tool", "arguments": {}}'


@pytest.mark.parametrize(("entries", "allowed"), [(1, False), (2, True), (3, True), (4, False)])
def test_plans_under_the_grammar(grammars: Any, entries: int, allowed: bool) -> None:
    plan = f'{{"plan": [{", ".join([ENTRY] * entries)}]}}'
    assert accepts(grammars, PLAN, plan) is allowed


@pytest.mark.parametrize(("before", "allowed"), [('"thought": "first, é", ', True), ("", False)])
def test_a_plan_has_its_thought_in_front_and_its_calls_none(grammars: Any, before: str, allowed: bool) -> None:
    wanted = replace(PLAN, thought=THOUGHT)
    assert answer_schema(wanted)["required"] == ["thought", "plan"]
    assert accepts(grammars, wanted, f'{{{before}"plan": [{ENTRY}, {ENTRY}]}}') is allowed
    assert not accepts(grammars, wanted, f'{{"thought": "", "plan": [{ENTRY}, {{"thought": "", {ENTRY[1:]}]}}')


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ('{"outline": ["find it", "book it"]}', True),
        ('{"outline": []}', False),
        ('{"outline": ["a", "b", "c", "d"]}', False),
        ('{"outline": ["a", 2]}', False),
    ],
)
def test_outlines_under_the_grammar(grammars: Any, text: str, allowed: bool) -> None:
    assert accepts(grammars, OutlineAnswer(3), text) is allowed


CHAIN = ChainAnswer((LOOK,), 1, 2, may_refuse=True)
FREE = ChainAnswer((LOOK,), 1, 2, may_refuse=True, free=True)
STEPS = MessagesAnswer((LOOK,), 2, may_refuse=True)
REJECT = '{"status": "REJECT", "reason": "no day is told"}'


def chain(name: str, arguments: str) -> str:
    entry = f'{{"name": "{name}", "parameter_description": {arguments}, "reason": "so it is"}}'
    return f'{{"plan": "look", "tool_chain": [{entry}]}}'


def message(name: str) -> str:
    call = f'{{"type": "function", "function": {{"name": "{name}", "arguments": {{"day": "today"}}}}}}' if name else ""
    return f'{{"role": "assistant", "thought": "so", "tool_calls": [{call}]}}'


def messages(*names: str) -> str:
    return f"[{', '.join(map(message, names))}]"


@pytest.mark.parametrize(
    ("answer", "text", "allowed"),
    [
        (CHAIN, chain("look", '{"day": "the day of step 1"}'), True),
        (CHAIN, chain("find", '{"day": "today"}'), False),
        (CHAIN, chain("look", '{"when": "today"}'), False),
        (CHAIN, REJECT, True),
        (FREE, chain("find", '{"when": {"from": [1, "two"]}}'), True),
        (FREE, chain("look", "{}"), True),
        (FREE, chain("look", '"today"'), False),
        (FREE, REJECT, True),
        (replace(FREE, may_refuse=False), REJECT, False),
        (STEPS, messages("look", ""), True),
        (STEPS, messages("look"), False),
        (STEPS, messages("look", "find"), False),
        (STEPS, REJECT, True),
        (replace(STEPS, count=1), message("look"), True),
    ],
)
def test_predicted_plans_under_the_grammar(grammars: Any, answer: JsonAnswer, text: str, allowed: bool) -> None:
    json.loads(text)
    assert accepts(grammars, answer, text) is allowed


def test_only_ruled_rows_are_masked(grammars: Any) -> None:
    import torch

    from grid.engines.transformers.model import forbid

    logits = torch.zeros((3, len(grammars[1]) + 5), dtype=torch.float64)
    forbid(logits, [None, grammars[0].matcher(ALONE)(), None])
    assert bool((logits[[0, 2]] == 0).all())
    (allowed,) = torch.where(logits[1] == 0)
    assert {grammars[1].decode([token])[0] for token in allowed.tolist()} == {"{"}
    assert bool((logits[1, allowed] == 0).all())

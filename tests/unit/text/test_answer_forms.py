"""Answers as models write them, each with what it must read as: a call, or the reason why it cannot be told.

The forms are those of public parsers' tests and handlers: vLLM's tool parsers (Hermes, Mistral, Llama, xLAM),
llama.cpp's chat parser, langchain's JSON parsers, json_repair's and the function-calling leaderboard's.
"""

from __future__ import annotations

import pytest

from grid.core.types import NO_TOOL, Json, Parameter, ToolSpec
from grid.episode.asking import to_action
from grid.text.answers import read_call, read_outline, read_plan, read_score
from grid.text.calls import Call
from grid.text.objects import MAX_CHARACTERS, UnreadableError
from tests.support.loops import each


def tool(name: str, *arguments: str) -> ToolSpec:
    return ToolSpec(name, "", tuple(Parameter(argument, "string", "", required=False) for argument in arguments))


TOOLS = {
    spec.name: spec
    for spec in (
        tool("find", "order", "count", "note"),
        tool("cancel", "order", "reason"),
        tool("who", "name", "input"),
    )
}
A1: dict[str, Json] = {"order": "A-1"}
FIND = Call("find", A1)
NONE = Call(NO_TOOL, {})
LONGER = '{"tool": "find", "arguments": {"order": "A-1"}, "thought": '


def noted(note: Json) -> Call:
    return Call("find", {"note": note})


def counted(count: Json) -> Call:
    return Call("find", {"count": count})


FORMS: dict[str, tuple[str, Call | str]] = {
    # As it was asked for, with what stands around it.
    "as asked": ('{"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "fence": ('```json\n{"tool": "find", "arguments": {"order": "A-1"}}\n```', FIND),
    "fence without end": ('```\n{"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "words around": ('I look it up: {"tool": "find", "arguments": {"order": "A-1"}} This should do.', FIND),
    "braces in words": ('The set {A-1} it is. {"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "doubled braces": ('{{"tool": "find", "arguments": {"order": "A-1"}}}', FIND),
    "a brace too many": ('{"tool": "find", "arguments": {"order": "A-1"}}}', FIND),
    "fence in a text": ('{"tool": "find", "arguments": {"note": "```{}```"}}', noted("```{}```")),
    "byte order mark": ('\ufeff{"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "a thought without quotes before the call": (
        '{"thought": I look up "A-1"", then {"tool": "find", "arguments": {"order": "A-1"}}',
        FIND,
    ),
    "a thought without quotes and no call": ('{"thought": The order is known.', "with The as a value, without quotes"),
    "a thought without quotes in the call": (
        '{"thought": No tool is called. "tool": "no_tool", "arguments": {}}',
        "no JSON object with a tool",
    ),
    "a reference without quotes": (
        '{"tool": "find", "arguments": {"order": OUTPUT_FROM_STEP_1.1.order, "note": "x"}}',
        Call("find", {"order": "OUTPUT_FROM_STEP_1.1.order", "note": "x"}),
    ),
    "more than a reference without quotes": (
        '{"tool": "find", "arguments": {"order": OUTPUT_FROM_STEP_1.order + 1}}',
        "with OUTPUT_FROM_STEP_1 as a value, without quotes",
    ),
    # Tags of chat templates.
    "tool_call": ('<tool_call>\n{"name": "find", "arguments": {"order": "A-1"}}\n</tool_call>', FIND),
    "tool_call not ended": ('<tool_call>{"name": "find", "arguments": {"order": "A-1"}}', FIND),
    "[TOOL_CALLS]": ('[TOOL_CALLS] [{"name": "find", "arguments": {"order": "A-1"}}]', FIND),
    "arguments first": ('[TOOL_CALLS][{"arguments": {"order": "A-1"}, "name": "find"}]', FIND),
    "python_tag": ('<|python_tag|>{"name": "find", "parameters": {"order": "A-1"}}<|eom_id|>', FIND),
    "action section": ('<|START_ACTION|>[{"tool_name": "find", "parameters": {"order": "A-1"}}]<|END_ACTION|>', FIND),
    # Other names for the same.
    "name and parameters": ('{"name": "find", "parameters": {"order": "A-1"}}', FIND),
    "type function": ('{"type": "function", "name": "find", "parameters": {"order": "A-1"}}', FIND),
    "tool_use": ('{"type": "tool_use", "id": "t1", "name": "find", "input": {"order": "A-1"}}', FIND),
    "action_input": ('{"action": "find", "action_input": {"order": "A-1"}}', FIND),
    "tool and args": ('{"tool": "find", "args": {"order": "A-1"}}', FIND),
    "recipient": ('{"recipient_name": "functions.find", "parameters": {"order": "A-1"}}', FIND),
    "function": ('{"function": {"name": "find", "arguments": {"order": "A-1"}}}', FIND),
    "function named": ('{"type": "function", "function": "find", "arguments": {"order": "A-1"}}', FIND),
    "function around text": (
        '{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{\\"order\\": \\"A-1\\"}"}}',
        FIND,
    ),
    "tool_calls": ('{"tool_calls": [{"function": {"name": "find", "arguments": {"order": "A-1"}}}]}', FIND),
    "tool as an object": ('{"tool": {"name": "find"}, "arguments": {"order": "A-1"}}', FIND),
    "the tool's name as key": ('{"find": {"order": "A-1"}}', FIND),
    "list of one": ('[{"tool": "find", "arguments": {"order": "A-1"}}]', FIND),
    "the same twice": ('{"name": "find", "arguments": {"order": "A-1"}, "parameters": {"order": "A-1"}}', FIND),
    "name of a person": ('{"tool": "who", "arguments": {"name": "find"}}', Call("who", {"name": "find"})),
    "spaces in the name": ('{"tool": " find ", "arguments": {"order": "A-1"}}', FIND),
    # Arguments.
    "arguments as text": ('{"tool": "find", "arguments": "{\\"order\\": \\"A-1\\"}"}', FIND),
    "arguments as Python": ('{"tool": "find", "arguments": "{\'order\': \'A-1\'}"}', FIND),
    "flat": ('{"tool": "find", "order": "A-1"}', FIND),
    "flat with a thought": ('{"thought": "x", "tool": "find", "order": "A-1"}', FIND),
    "flat reason": ('{"tool": "cancel", "reason": "late"}', Call("cancel", {"reason": "late"})),
    "flat name": ('{"tool": "who", "name": "find"}', Call("who", {"name": "find"})),
    "an argument called input": ('{"tool": "who", "input": "x"}', Call("who", {"input": "x"})),
    "flat, beside a remark": ('{"tool": "find", "order": "A-1", "reason": "asked"}', FIND),
    "no arguments": ('{"tool": "find", "arguments": null}', Call("find", {})),
    "empty text": ('{"tool": "find", "arguments": ""}', Call("find", {})),
    # No tool.
    "no_tool": ('{"tool": "no_tool", "arguments": {}}', NONE),
    "null": ('{"tool": null}', NONE),
    "none": ('{"tool": "none", "arguments": {}}', NONE),
    "None of Python": ("{'tool': None, 'arguments': {}}", NONE),
    "its text": ('{"tool": "No tool required.", "arguments": {}}', NONE),
    "no_tool and why": ('{"tool": "no_tool", "arguments": {"reason": "known"}}', NONE),
    "empty tool_calls": ('{"tool_calls": []}', NONE),
    # Not quite JSON.
    "single quotes": ("{'tool': 'find', 'arguments': {'order': 'A-1'}}", FIND),
    "mixed quotes": ("{\"tool\": 'find', 'arguments': {\"order\": 'A-1'}}", FIND),
    "quote in single quotes": ("{'tool': 'find', 'arguments': {'note': 'say \"go\"'}}", noted('say "go"')),
    "apostrophe of Python": ("{'tool': 'find', 'arguments': {'note': \"it's\"}}", noted("it's")),
    "escaped apostrophe": ('{"tool": "find", "arguments": {"note": "it\\\'s"}}', noted("it's")),
    "escaped underscore": ('{"tool": "find", "arguments": {"note": "a\\_b"}}', noted("a_b")),
    "curved quotes": ("{“tool”: “find”, “arguments”: {“order”: “A-1”}}", FIND),
    "trailing commas": ('{"tool": "find", "arguments": {"order": "A-1",},}', FIND),
    "True": ("{'tool': 'find', 'arguments': {'count': True}}", counted(True)),
    "None": ("{'tool': 'find', 'arguments': {'count': None}}", counted(None)),
    "plus": ('{"tool": "find", "arguments": {"count": +5}}', counted(5)),
    "no zero": ('{"tool": "find", "arguments": {"count": .5}}', counted(0.5)),
    "names without quotes": ('{tool: "find", arguments: {order: "A-1"}}', FIND),
    "comments": ('{"tool": "find", // looks up\n "arguments": {"order": "A-1" /* id */}} # done', FIND),
    "no comments": ('{"tool": "find", "arguments": {"note": "http://a.b/#c"},}', noted("http://a.b/#c")),
    "raw line ends": ('{"tool": "find", "arguments": {"note": "a\n\tb"}}', noted("a\n\tb")),
    "raw line ends in single quotes": ("{'tool': 'find', 'arguments': {'note': 'a\nb'}}", noted("a\nb")),
    "line for a comma": ('{"tool": "find"\n "arguments": {"order": "A-1"}}', FIND),
    "last brace missing": ('{"tool": "find", "arguments": {"order": "A-1"}', FIND),
    "last brace missing in a fence": ('```json\n{"tool": "find", "arguments": {"order": "A-1"}\n```\nDone.', FIND),
    "last bracket missing": ('[{"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    # Thoughts, and what takes itself back.
    "draft in a thought": (
        '<think>{"tool": "cancel", "arguments": {}} or not</think>{"tool": "find", "arguments": {"order": "A-1"}}',
        FIND,
    ),
    "thought begun by the prompt": (
        'Say {"tool": "cancel"}? No.</think>\n{"tool": "find", "arguments": {"order": "A-1"}}',
        FIND,
    ),
    "thought of another kind": ('[THINK]{"tool": "who"}[/THINK]{"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "tag in a text": ('{"tool": "find", "arguments": {"note": "</think>"}}', noted("</think>")),
    "revised": (
        '{"tool": "cancel", "arguments": {}}\nWait, that is wrong:\n{"tool": "find", "arguments": {"order": "A-1"}}',
        FIND,
    ),
    "broken, then revised": ('{"tool": "who", "arguments": {x}} {"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "said twice": ('{"tool": "find", "arguments": {"order": "A-1"}} so ' + LONGER + '"x"}', FIND),
    "another object before": ('Known: {"status": "open"}. {"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "an object with a name before": ('{"name": "Ann"} {"tool": "find", "arguments": {"order": "A-1"}}', FIND),
    "goes on by itself": (
        '{"tool": "find", "arguments": {"order": "A-1"}}\nObservation: {"x": 1}\n{"tool": "cancel", "arguments": {}}',
        FIND,
    ),
    # Nobody can tell.
    "nothing": ("", "no JSON object with a tool"),
    "words": ("I would find A-1.", "no JSON object with a tool"),
    "only in a thought": ('<think>{"tool": "find", "arguments": {}}', "no JSON object with a tool"),
    "arguments alone": ('{"arguments": {"order": "A-1"}}', "no JSON object with a tool"),
    "name outside": ('Action: find\nAction Input: {"order": "A-1"}', "no JSON object with a tool"),
    "call of Python": ('find(order="A-1")', "no JSON object with a tool"),
    "two calls": (
        '{"tool": "find", "arguments": {"order": "A-1"}}\n{"tool": "cancel", "arguments": {}}',
        "several answers that differ",
    ),
    "list of two": ('[{"tool": "find", "arguments": {}}, {"tool": "cancel", "arguments": {}}]', "2 calls, where one"),
    "two tags": (
        '<tool_call>{"name": "find", "args": {}}</tool_call><tool_call>{"name": "who", "args": {}}</tool_call>',
        "several answers that differ",
    ),
    "revised and broken off": ('{"tool": "find"} Wait: {"tool": "cancel", "argum', "breaks off at '\"argum'"),
    "both, and they differ": (
        '{"name": "find", "arguments": {}, "parameters": {"order": "A-1"}}',
        "both 'arguments' and 'parameters'",
    ),
    "definition": (
        '{"name": "find", "parameters": {"type": "object", "properties": {"order": {"type": "string"}}}}',
        "the definition of find",
    ),
    "flat, unknown": ('{"tool": "find", "order": "A-1", "colour": "red"}', "'colour', which is not an argument"),
    "beside the arguments": ('{"tool": "find", "arguments": {"order": "A-1"}, "count": 2}', "'count' beside"),
    "arguments no object": ('{"tool": "find", "arguments": ["A-1"]}', "arguments that are no object"),
    "arguments broken": ('{"tool": "find", "arguments": "{order: A-1}"}', "arguments that are a JSON object with A-1"),
    "null and arguments": ('{"tool": null, "arguments": {"order": "A-1"}}', "arguments without a tool"),
    "twice, differing": ('{"tool": "find", "args": {"order": "A-1", "order": "A-2"}}', "'order' stands in it twice"),
    "ends early": ('{"tool": "find", "arguments": {"order": "A-1"', "is not finished"),
    "ends before arguments": ('{"tool": "find"', "is not finished"),
    "ends in a number": ('{"tool": "find", "arguments": {"count": 1', "is not finished"),
    "ends in a text": ('{"tool": "find", "arguments": {"order": "A-', "breaks off at '\"A-'"),
    "quotes in a text": ('{"tool": "find", "arguments": {"note": "say "go" twice"}}', "breaks off at 'go\""),
    "apostrophe": ("{'tool': 'find', 'arguments': {'note': 'it's late'}}", "breaks off at \"s late"),
    "NaN": ('{"tool": "find", "arguments": {"count": NaN}}', "NaN as a value"),
    "word": ('{"tool": "find", "arguments": {"count": undefined}}', "undefined as a value"),
    "leading zeros": ('{"tool": "find", "arguments": {"count": 007}}', "breaks off at '007"),
    "thousands": ('{"tool": "find", "arguments": {"count": 1,000}}', "breaks off at '000"),
    "sum": ('{"tool": "find", "arguments": {"count": 2 * 3}}', "breaks off at '* 3"),
    "code": ('{"tool": "find", "arguments": {"note": str(1)}}', "str as a value"),
    "and so on": ('{"tool": "find", "arguments": {"order": "A-1", ...}}', "breaks off at '..."),
    "expression of words": ('{"tool": "find", "arguments": {"note": "\\d+"}}', "the escape \\d"),
    "wrong bracket": ('{"tool": "find", "arguments": {"note": [1, 2}}', "breaks off at '}}'"),
    "deep": ('{"tool": "find", "arguments": {"note": ' + "[" * 30 + "]" * 30 + "}}", "more than 20 levels"),
    "half a pair": ('{"tool": "find", "arguments": {"note": "\\ud800"}}', "half a surrogate pair"),
    "too long": (" " * MAX_CHARACTERS + '{"tool": "find", "arguments": {}}', "200,000 at most"),
}  # fmt: skip


@each("form", FORMS)
def test_an_answer_reads_as_what_it_means_or_it_says_why_not(form: str) -> None:
    text, meant = FORMS[form]
    if isinstance(meant, Call):
        assert read_call(text, TOOLS) == meant
    else:
        with pytest.raises(UnreadableError) as caught:
            read_call(text, TOOLS)
        assert meant in str(caught.value)


def test_what_declines_is_no_call_where_a_tool_is_wanted() -> None:
    for text, meant in FORMS.values():
        if meant == NONE:
            call = read_call(text, TOOLS)
            assert to_action(call.tool, call.arguments, TOOLS, may_decline=True).tool == NO_TOOL
            assert to_action(call.tool, call.arguments, TOOLS, may_decline=False).unreadable


def test_a_tool_that_is_called_like_a_word_for_none_is_called() -> None:
    assert read_call('{"tool": "none", "order": "A-1"}', {"none": tool("none", "order")}) == Call("none", A1)


def test_flat_arguments_are_read_of_known_tools_only() -> None:
    with pytest.raises(UnreadableError, match="'order', which is not an argument of find"):
        read_call('{"tool": "find", "order": "A-1"}')


PLANS: list[tuple[str, list[Call] | str]] = [
    ('{"plan": [{"tool": "find", "order": "A-1"}, {"name": "find", "parameters": {"order": "A-1"}}]}', [FIND, FIND]),
    ("{'plan': [{'tool': 'find', 'arguments': {'order': 'A-1',}}, {'tool': None}]", [FIND, NONE]),
    ('<think>{"plan": []}</think>[{"tool": "find", "arguments": {"order": "A-1"}}, {"tool": "none"}]', [FIND, NONE]),
    ('{"tool_calls": [{"function": {"name": "find", "arguments": "{\\"order\\": \\"A-1\\"}"}}]}', [FIND]),
    ('{"plan": [{"tool": "find", "arguments": {"order": "A-1"}}, {"tool": "find", "arg', "breaks off at '\"arg'"),
    ('{"plan": [{"tool": "find", "arguments": {"order": "A-1"}}', "is not finished"),
    ('{"plan": [{"tool": "find", "arguments": {"order": "A-1"}}, "find"]}', "entry 2 of the plan is not a call"),
    ('{"plan": [{"tool": "find", "colour": "red"}]}', "entry 1 of the plan: 'colour', which is not an argument"),
    ('{"plan": []}', "a plan that is not a list of 1 to 256 calls"),
    ("[" + '{"tool": "none"}, ' * 256 + '{"tool": "none"}]', "a plan that is not a list of 1 to 256 calls"),
    (
        '{"tool_calls": [' + '{"tool": "none"}, ' * 256 + '{"tool": "none"}]}',
        "a plan that is not a list of 1 to 256 calls",
    ),
    ("[" + '{"tool": "none"}, ' * 255 + '{"tool": "none"}]', [NONE] * 256),
    ('{"tool": "find", "arguments": {"order": "A-1"}}', "no JSON object with a plan"),
]


@pytest.mark.parametrize(("text", "meant"), PLANS)
def test_a_plan_is_read_call_by_call(text: str, meant: list[Call] | str) -> None:
    if isinstance(meant, list):
        assert read_plan(text, TOOLS) == meant
    else:
        with pytest.raises(UnreadableError, match=meant.replace('"', ".")):
            read_plan(text, TOOLS)


def test_outlines_and_scores_are_read_by_the_same_piece() -> None:
    assert read_outline("<think>{'outline': ['no']}</think>{'outline': ['look', 'book',]") == ["look", "book"]
    assert read_score("{'score': 7, 'explanation': 'it's'} No, {'score': 8,} # better") == 0.8
    with pytest.raises(UnreadableError, match="several answers that differ"):
        read_score('{"score": 7} {"score": 8}')
    with pytest.raises(UnreadableError, match="twice, with different values"):
        read_outline('{"outline": ["look"], "outline": ["book"]}')


def test_calls_are_equal_whatever_was_thought_and_the_thought_is_kept() -> None:
    call = read_call('{"thought": "look", "function": {"name": "find", "arguments": {"order": "A-1"}}}', TOOLS)
    assert (call, call.thought) == (FIND, "look")

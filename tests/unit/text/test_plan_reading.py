"""Predicted plans as models write them: what is read, what is refused, and what never breaks anything."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grid.core.types import Chain, ChainCall
from grid.text.answers import MAX_STEPS, Predicted, chain_text, messages_text, read_chain, read_draft, read_messages
from grid.text.objects import UnreadableError

A = {"name": "a", "parameter_description": {"x": "1"}, "reason": "first"}
B = {"name": "b", "parameter_description": {"y": "the id from step 0"}, "reason": "then"}
PLAN = {"plan": "a, then b", "tool_chain": [A, B]}
CALLS = (ChainCall("a", {"x": "1"}, "first"), ChainCall("b", {"y": "the id from step 0"}, "then"))


def message(name: str, arguments: Any, thought: str = "why") -> dict[str, Any]:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "thought": thought, "tool_calls": [call]}


NONE = {"role": "assistant", "thought": "all is done", "tool_calls": []}


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Here is the plan:\n```json\n{}\n```\nIt should work.",
        '<think>which first? {{"tool_chain": []}}</think>\n{}',
        "```\n{}",
        "\n\n  {}  \n",
    ],
)
def test_what_stands_around_a_plan_does_not_matter(around: str) -> None:
    found = read_chain(around.replace("{{", "{").replace("}}", "}").replace("{}", json.dumps(PLAN), 1))
    assert found == Predicted(CALLS, None, "a, then b")
    assert found.chain(3) == Chain(CALLS, None, "a, then b", 3)


def test_a_bare_list_and_other_names_of_arguments_are_read() -> None:
    assert read_chain(json.dumps([A, B])).calls == CALLS
    other = [{"name": "a", "arguments": {"x": "1"}, "reason": "first"}]
    assert read_chain(json.dumps({"tool_chain": other})).calls == CALLS[:1]
    assert read_chain('{"tool_chain": [{"name": "a"}]}').calls == (ChainCall("a", {}),)


def test_arguments_may_be_objects_lists_and_nothing() -> None:
    given = {"x": {"from": [1, {"step": 0}]}, "y": None, "z": True, "w": 1.5}
    found = read_chain(json.dumps({"plan": "", "tool_chain": [{"name": "a", "parameter_description": given}]}))
    assert found.calls[0] is not None
    assert found.calls[0].arguments == given


def test_names_stay_as_they_are_written_unless_tools_are_given() -> None:
    text = json.dumps({"tool_chain": [{"name": "functions.serach", "parameter_description": {}}]})
    found = read_chain(text)
    assert found.calls[0] is not None
    assert found.calls[0].name == "functions.serach", "that there is no such tool is for the scorer to say"


def test_a_refusal_is_read_in_both_forms_and_with_a_chain_it_is_both() -> None:
    text = '{"status": "REJECT", "reason": "no date is given"}'
    assert read_chain(text) == read_messages(text, 2) == read_messages(f"[{text}]", 1)
    assert read_chain(text).chain(0) == Chain((), "no date is given")
    assert read_chain('{"status": "rejected"}').refusal == ""
    both = read_chain(json.dumps({"status": "REJECT", "reason": "no", **PLAN}))
    assert (both.refusal, both.calls) == ("no", CALLS)
    assert read_chain(json.dumps({"status": "OK", **PLAN})).refusal is None
    assert read_chain('{"plan": "Which day do you mean?", "tool_chain": []}') == Predicted(
        (), None, "Which day do you mean?"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("First I would call a with 1, and then b with what it returned.", "no JSON object"),
        ("I cannot do this.", "no JSON object"),
        ("", "no JSON object"),
        ('{"plan": "a, then b"}', "no JSON object"),
        ('{"tool_chain": "a, b"}', "not a list"),
        ('{"tool_chain": ["a", "b"]}', "entry 0 of the tool_chain is not an object"),
        ('{"tool_chain": [{"parameter_description": {}}]}', "entry 0 of the tool_chain has no name"),
        ('{"tool_chain": [{"name": ""}]}', "has no name"),
        ('{"tool_chain": [{"name": {"a": 1}}]}', "has no name"),
        ('{"tool_chain": [{"name": "a", "parameter_description": "the order"}]}', "that is not an object"),
        ('{"tool_chain": [{"name": "a", "parameter_description": [1, 2]}]}', "no object"),
        ('{"tool_chain": [{"name": "a", "arguments": {}, "parameters": {"x": 1}}]}', "has both"),
        (json.dumps({"tool_chain": [{"name": "a"}] * (MAX_STEPS + 1)}), "calls, 256 at most"),
        (json.dumps({"tool_chain": [{"name": "a"}] * 20_000}), "characters, 200,000 at most"),
        ('{"tool_chain": ' + "[" * 50 + "]" * 50 + "}", "levels"),
        ('{"tool_chain": [{"name": "a", "parameter_description": {"x": ' + "9" * 400 + "}}]}", "digits"),
        ('{"tool_chain": [{"name": "a", "parameter_description": {}}', "not finished"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_chain(text)


def test_two_plans_that_differ_are_refused_unless_one_is_taken_back() -> None:
    other = json.dumps({"plan": "b", "tool_chain": [B]})
    with pytest.raises(UnreadableError, match="differ"):
        read_chain(f"{json.dumps(PLAN)}\nor\n{other}")
    assert read_chain(f"{json.dumps(PLAN)}\nWait, that is wrong.\n{other}").calls == CALLS[1:]


def test_messages_are_read_one_alone_or_several_in_a_list() -> None:
    one, two = message("a", {"x": "1"}), message("b", '{"y": 2}')
    assert read_messages(json.dumps(one), 1).calls == (ChainCall("a", {"x": "1"}, "why"),)
    assert read_messages(json.dumps([one]), 1) == read_messages(json.dumps(one), 1)
    fenced = f"```json\n{json.dumps([one, two], indent=1)}\n```"
    assert read_messages(fenced, 2).calls == (ChainCall("a", {"x": "1"}, "why"), ChainCall("b", {"y": 2}, "why"))
    ended = read_messages(json.dumps([one, NONE]), 2)
    assert (ended.calls[1], ended.said) == (None, "all is done")


@pytest.mark.parametrize(
    ("value", "count", "why"),
    [
        ([message("a", {})], 2, "1 messages, where 2 are wanted"),
        ([message("a", {})] * 3, 2, "3 messages"),
        (message("a", {}), 3, "1 messages"),
        (message("a", {}) | {"role": "user"}, 1, "role"),
        (message("a", {}) | {"tool_calls": [message("a", {})["tool_calls"][0]] * 2}, 1, "2 calls"),
        (message("", {}), 1, "no name"),
        (message("a", "not json"), 1, "arguments"),
        (message("a", [1]), 1, "no object"),
        ([message("a", {}), "and then b"], 2, "message 1 is not an object"),
        ([message("a", {}), {"role": "assistant"}], 2, "no list tool_calls"),
        ({"role": "assistant", "tool_calls": "a"}, 1, "tool_calls"),
        ({"role": "assistant", "tool_calls": ["a"]}, 1, "no name"),
        ({"role": "assistant", "thought": "call a"}, 1, "no message"),
        ([message("a", {})] * 10_000, 3, "characters"),
    ],
)
def test_what_are_no_messages_is_refused_with_the_reason(value: Any, count: int, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_messages(json.dumps(value), count)


def test_what_is_written_is_read_again() -> None:
    for plan in (Predicted(CALLS, None, "p"), Predicted((), "no"), Predicted(CALLS, "no", "p")):
        assert read_chain(chain_text(plan)) == read_draft(chain_text(plan)) == plan
    for steps in (CALLS[:1], CALLS, (CALLS[0], None)):
        plan = Predicted(steps, said="all is done" if None in steps else "")
        assert read_messages(messages_text(plan), len(steps)) == read_draft(messages_text(plan)) == plan
    assert read_draft('{"plan": [{"tool": "a", "arguments": {"x": "1"}}]}').calls == (ChainCall("a", {"x": "1"}),)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"plan": [{"tool": "a"}] * (MAX_STEPS + 1)}, "a plan of 257 calls, 256 at most"),
        ([message("a", {})] * (MAX_STEPS + 1), "a plan of 257 calls, 256 at most"),
        ({"plan": [{"tool": "a"}, "b"]}, "entry 2 of the plan is not one call"),
    ],
)
def test_what_is_no_draft_is_refused_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_draft(json.dumps(value))


def test_no_cut_and_no_changed_character_breaks_the_reading() -> None:
    rng = random.Random(0)
    texts = [json.dumps(PLAN), json.dumps([message("a", {"x": 1}), NONE])]
    for _ in range(600):
        text = list(rng.choice(texts))
        for _ in range(rng.randint(1, 3)):
            text[rng.randrange(len(text))] = rng.choice('{}[]",:\\ax0\n\ud800\x00')
        broken = "".join(text[: rng.randint(0, len(text))])
        for read in (read_chain, lambda text: read_messages(text, 2)):
            try:
                found = read(broken)
            except UnreadableError:
                continue
            assert isinstance(found, Predicted)

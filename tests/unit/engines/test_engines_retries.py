"""Engines that read prompts: a retry leaves alone what they read, and calls have the form that tools ask for."""

from __future__ import annotations

import asyncio
import json

import pytest

from grid.core.engine import PlanAnswer, Prompt, Section, ToolCallAnswer
from grid.core.types import FINISH, NO_TOOL, UNKNOWN, Json, ToolCall, to_json
from grid.engines.lexical.engine import Lexical
from grid.engines.simulated.plans import Writer, results
from grid.episode.acting import refused
from grid.episode.prompts import FINISH_TOOL, tool_text
from grid.episode.requests import Rejected, again
from grid.text.answers import read_call
from grid.text.calls import Call
from grid.worlds.kopl.functions import TOOLS
from tests.support.loops import each

OFFERED = {**TOOLS, "finish": FINISH_TOOL}
CARDS = tuple(OFFERED.values())
FIND = '{"tool": "Find", "arguments": {"name": "Oslo"}}'
DONE = f'0 -> {FIND} returned {{"result": "OUTPUT_FROM_STEP_0.result", "value": "Oslo"}}'
FAILED = f'1 -> {FIND} failed: {{"error": "no"}}'


def asked(answer: ToolCallAnswer | PlanAnswer, *history: str) -> Prompt:
    sections = [
        Section("tools", ("Tools:",), tuple(map(tool_text, CARDS))),
        Section("task", ("Query: Which city has the largest population? Then count the cities.",)),
        Section("history", ("Done so far:", *history)),
    ]
    return Prompt(tuple(sections if history else sections[:2]), answer)


def answered(prompt: Prompt) -> str:
    sampled = asyncio.run(Lexical().sample(prompt, n=1, temperature=0.0, max_tokens=99, seed=0))
    return sampled.completions[0]


@pytest.mark.parametrize("history", [(), (DONE,), (DONE, FAILED)])
@pytest.mark.parametrize("answer", [ToolCallAnswer(CARDS, may_decline=False), PlanAnswer(CARDS, 1, 30)])
def test_the_lexical_engine_writes_calls_that_can_be_run_and_on_a_retry_the_next_best(
    answer: ToolCallAnswer | PlanAnswer, history: tuple[str, ...]
) -> None:
    prompt, texts = asked(answer, *history), list[str]()
    for tried in range(3):
        text = answered(again(prompt, Rejected(texts[-1], "no", tried, 9) if texts else None))
        assert text not in texts
        texts.append(text)
        before, found = results(prompt), json.loads(text)
        for place, call in enumerate(found.get("plan", [found]), start=len(history)):
            assert refused(ToolCall(call["tool"], call["arguments"]), OFFERED, before) is None
            before[str(place)] = True


def test_a_history_tells_which_steps_have_a_result() -> None:
    assert results(asked(ToolCallAnswer(CARDS, may_decline=False), DONE, FAILED)) == {"0": True, "1": False}


@each("tool", TOOLS)
@each("before", [{}, {"0": False}, {"0": True}, {"0": True, "1": False}])
@each("right", [True, False])
def test_what_the_simulated_policy_writes_can_be_run_and_a_wrong_call_is_not_the_right_one(
    tool: str, before: dict[str, bool], right: bool
) -> None:
    known: dict[str, Json] = {
        one.name: "OUTPUT_FROM_STEP_0.result" if one.type == "result" else one.values[0] if one.values else "text"
        for one in TOOLS[tool].parameters
    }
    call = Writer(TOOLS).call(tool, ToolCall(tool, known), right, before)
    made = read_call(to_json(call), OFFERED)
    if right and (before.get("0", True) or "OUTPUT_FROM_STEP_0.result" not in known.values()):
        assert made == Call(tool, known), "also where nothing of the steps before is shown"
        return
    assert refused(ToolCall(made.tool, made.arguments), OFFERED, before) is None
    if known:
        assert UNKNOWN in made.arguments.values()


@each("tool", TOOLS)
@each("right", [True, False])
def test_a_call_that_is_not_possible_becomes_one_of_a_tool_on_offer(tool: str, right: bool) -> None:
    known = ToolCall(tool, dict.fromkeys((one.name for one in TOOLS[tool].parameters), "OUTPUT_FROM_STEP_0.result"))
    free = {name for name, spec in TOOLS.items() if not spec.takes_results}
    for offered in ((tool, *sorted(free - {tool})[-1:]), (tool, FINISH), (tool, NO_TOOL)):
        call = Writer(TOOLS, offered).call(tool, known, right, {"0": False})
        assert call["tool"] in offered

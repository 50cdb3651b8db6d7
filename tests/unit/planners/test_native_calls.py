"""Several native calls in one answer: how they are read, as many steps, and what each of them is said to cost."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from grid import store
from grid.cells.rows import transcript_rows
from grid.core.engine import FunctionsAnswer
from grid.core.errors import ModelError
from grid.core.types import FINISH, NO_TOOL, Parameter, ToolSpec, Trajectory, Usage
from grid.episode.acting import Rollout, begin, rollout
from grid.episode.asking import sample_actions, single_pass
from grid.episode.prompts import FINISH_TOOL
from grid.planners.horizon import FullHorizon, SingleStepHorizon
from grid.planners.react import BaselineLLM, ReAct
from grid.planners.search import Search
from grid.planners.zero_shot import ZeroShot
from grid.text.calls import Call
from grid.text.native import as_message, read_native
from grid.text.objects import UnreadableError
from tests.support.native import BOOK, FIND, QUOTE, Native, Written, episode, tagged
from tests.support.world import small_world, tool

CLOCK = ToolSpec("get_time", "", (Parameter("city", "string", ""),))
PARIS = Call("get_time", {"city": "Paris"})
ROME = Call("get_time", {"city": "Rome"})
WRITTEN = '{"name": "get_time", "arguments": {"city": "Paris"}}'
OTHER = '{"name": "get_time", "parameters": {"city": "Rome"}}'
END: Written = (FINISH, {"answer": "B-9"})
SENT = {"id": "1", "type": "function", "function": {"name": "get_time", "arguments": '{"city": "Paris"}'}}


@pytest.mark.parametrize(
    ("text", "words", "calls"),
    [
        (f"<tool_call>\n{WRITTEN}\n</tool_call>", "", [PARIS]),
        (f"I look.\n<tool_call>{WRITTEN}</tool_call>\n<tool_call>{OTHER}</tool_call>", "I look.", [PARIS, ROME]),
        (f"```json\n{WRITTEN}\n```\nAnd then:\n```json\n{OTHER}\n```", "", [PARIS, ROME]),
        (f"So:\n```\n{WRITTEN}\n```", "So:", [PARIS]),
        (f"<tool_call>\n{{{WRITTEN}}}\n</tool_call>", "", [PARIS]),
        (f"{WRITTEN}; {OTHER}", "", [PARIS, ROME]),
        (f"[TOOL_CALLS][{WRITTEN}, {OTHER}]", "", [PARIS, ROME]),
        (f'Like {{"a": 1}}: {WRITTEN}', "Like", [PARIS]),
        (f'{WRITTEN}\n<tool_response>\n{{"name": "get_time", "arguments": {{}}}}', "", [PARIS]),
        (f"<think>{OTHER}</think>It is so.\n<tool_call>{WRITTEN}</tool_call>", "It is so.", [PARIS]),
        (as_message("I look.", [SENT, SENT]), "I look.", [PARIS, PARIS]),
        (as_message(f"not {OTHER}", [SENT]), f"not {OTHER}", [PARIS]),
        (as_message("", [{"function": {"name": "get_time", "arguments": {"city": "Paris"}}}]), "", [PARIS]),
        (as_message("", [{"function": {"name": "get_time", "arguments": '{"city": "</think><tool_call>"}'}}]),
         "", [Call("get_time", {"city": "</think><tool_call>"})]),
        (f'Like {{"city": "Oslo"}}: {WRITTEN}', "Like", [PARIS]),
        ("It is noon.", "It is noon.", []),
        ('{"answer": "noon"}', '{"answer": "noon"}', []),
        ('Only {"a": 1} and [{"b": 2}].', 'Only {"a": 1} and [{"b": 2}].', []),
        ("", "", []),
    ],
)  # fmt: skip
def test_calls_are_read_in_the_forms_that_models_write(text: str, words: str, calls: list[Call]) -> None:
    found = read_native(text, {"get_time": CLOCK, FINISH: FINISH_TOOL})
    assert (found.words, list(found.calls)) == (words, calls)


BROKEN = [
    ('We need to call `get_time`:\n```json\n{"city": "Paris"}\n```', "arguments without a function's name"),
    ("<tool_call>get_time in Paris</tool_call>", "no JSON object with a tool"),
    (f"<tool_call>{WRITTEN[:-12]}", "a JSON object that"),
    ('<tool_call>{"arguments": {}}</tool_call>', "no JSON object with a tool"),
    (as_message("", "nonsense"), "no JSON object with a tool"),
    (as_message("", [7]), "no JSON object with a tool"),
    (as_message("", [{"type": "function"}]), "no JSON object with a tool"),
    (as_message("", {"function": {"arguments": "{}"}}), "no JSON object with a tool"),
    (as_message("", [{"function": {"name": "get_time", "arguments": "{broken"}}]), "arguments that are"),
    (as_message("", [{"function": {"name": "get_time", "arguments": "[1]"}}]), "arguments that are"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_what_cannot_be_read_says_why(text: str, why: str) -> None:
    (found,) = read_native(text, {"get_time": CLOCK}).calls
    assert isinstance(found, UnreadableError)
    assert str(found).startswith(why)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<think>What now", "a thought and no answer"),
        (tagged(*[("get_time", {})] * 257), "257 calls, 256 at most"),
        (as_message("", [7] * 257), "257 calls, 256 at most"),
        ("x" * 200_001, "an answer of"),
    ],
)
def test_what_is_too_much_is_refused_whole(text: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        read_native(text, {})


def acted(
    planner: ReAct | BaselineLLM | ZeroShot | SingleStepHorizon | FullHorizon, *answers: str, outlined: bool = False
) -> tuple[Trajectory, Native, bool]:
    world, engine = small_world(), Native(answers)
    found = asyncio.run(planner.solve(episode(engine, outlined=outlined, world=world)))
    return found, engine, world.resolved(found.end)


@pytest.mark.parametrize("planner", [ReAct(), BaselineLLM(), ZeroShot(mode="step"), ZeroShot(), FullHorizon()])
def test_calls_of_one_answer_are_as_many_steps_and_the_first_has_the_cost(planner: ReAct | ZeroShot) -> None:
    found, engine, resolved = acted(planner, tagged(FIND, QUOTE, BOOK, END, words="All at once."))
    assert len(engine.prompts) == 1
    assert [step.chosen for step in found.steps] == ["find", "quote", "book", FINISH]
    assert [step.substep.id for step in found.steps] == ["0", "1", "2", "3"]
    assert (resolved, found.answer) == (True, "B-9")
    assert [(step.input_tokens, step.output_tokens) for step in found.steps] == [(100, 7), (0, 0), (0, 0), (0, 0)]
    assert [step.thought for step in found.steps] == ["All at once." if planner.thought else None, None, None, None]


def test_the_next_answer_sees_what_all_calls_of_the_last_one_returned() -> None:
    found, engine, resolved = acted(ReAct(), tagged(FIND, QUOTE), tagged(BOOK), "It is booked: B-9.")
    assert (len(engine.prompts), resolved, found.answer) == (3, True, "It is booked: B-9.")
    assert [line.split(" -> ")[0] for line in engine.prompts[1].entries("history")] == ["Done so far:", "0", "1"]
    assert "Q-3" in engine.prompts[1].entries("history")[-1]
    assert [step.input_tokens for step in found.steps] == [100, 0, 100, 100]


def test_nothing_is_called_behind_the_end_or_beyond_the_limit() -> None:
    found, _, _ = acted(ReAct(), tagged(FIND, END, QUOTE))
    assert [step.chosen for step in found.steps] == ["find", FINISH]
    found, engine, _ = acted(ReAct(max_calls=2), tagged(FIND, FIND, FIND))
    assert ([step.chosen for step in found.steps], len(engine.prompts)) == (["find", "find"], 1)


def test_a_call_that_cannot_be_read_is_a_step_of_its_own_among_the_others() -> None:
    unknown: Written = ("nobody", {})
    found, engine, _ = acted(ReAct(max_calls=3), tagged(FIND, unknown, QUOTE))
    assert [step.chosen for step in found.steps] == ["find", None, "quote"]
    assert [step.malformed for step in found.steps] == [False, True, False]
    found, engine, resolved = acted(ReAct(max_retries=1), tagged(FIND, unknown), tagged(FIND, QUOTE, BOOK, END))
    assert (len(engine.prompts), resolved) == (2, True)
    assert engine.prompts[1].sections[-1].kind == "retry"
    assert any("'nobody' was not offered" in line for line in engine.prompts[1].entries("retry"))
    assert [step.input_tokens for step in found.steps] == [200, 0, 0, 0], "both answers"


@pytest.mark.parametrize("text", ["", "<think>hm", "<tool_call>find A-1"])
def test_an_answer_without_a_word_or_with_half_a_call_is_unreadable(text: str) -> None:
    found, engine, _ = acted(ReAct(max_calls=1), text)
    assert found.steps[0].malformed
    assert len(engine.prompts) == 1


def test_under_an_outline_a_substep_takes_the_first_call_and_words_alone_are_none() -> None:
    here: Written = ("quote", {"item": "OUTPUT_FROM_STEP_1.1.item"})
    last: Written = ("book", {"quote": "OUTPUT_FROM_STEP_2.1.quote"})
    found, engine, resolved = acted(
        ReAct(), tagged(FIND, QUOTE), "Nothing to call here.", tagged(here), tagged(last), outlined=True
    )
    assert [step.chosen for step in found.steps] == ["find", NO_TOOL, "quote", "book"]
    assert (len(engine.prompts), resolved) == (4, True)


def test_a_planner_that_takes_one_call_at_a_time_takes_the_first() -> None:
    found, engine, _ = acted(SingleStepHorizon(max_calls=2), tagged(FIND, QUOTE), tagged(QUOTE, BOOK))
    assert [step.chosen for step in found.steps] == ["find", "quote"]
    assert [step.input_tokens for step in found.steps] == [100, 100]
    assert all("several" not in line for prompt in engine.prompts for line in prompt.entries("instruction"))


def test_samples_and_proposals_take_the_first_call_of_each_answer() -> None:
    async def run() -> None:
        case = episode(Native([tagged(FIND, QUOTE)]))
        search = Search(case, ReAct())
        await search.propose([search.root], 3)
        assert [node.action.tool for node in search.root.children if node.action] == ["find"]
        view = search.view(search.root)
        assert view is not None
        actions, usage = await sample_actions(case, view, "votes", 4, ReAct())
        assert [action.tool for action in actions] == ["find"] * 4
        assert usage == Usage(4, 0, 400, 0, 28)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("calls", "first", "whole"),
    [([FIND, ("nobody", {})], True, False), ([("nobody", {}), FIND], False, False), ([FIND, QUOTE], True, True)],
)
def test_an_answer_is_unreadable_only_where_a_call_that_is_used_is(
    calls: list[Written], first: bool, whole: bool
) -> None:
    one_by_one = SingleStepHorizon(max_calls=1, max_retries=0)
    planners: list[tuple[ReAct | SingleStepHorizon, bool]] = [(ReAct(max_calls=2), whole), (one_by_one, first)]
    for planner, used in planners:
        case = episode(Native([tagged(*calls)]))
        with suppress(ModelError):
            asyncio.run(planner.solve(case))
        assert [not message.unreadable for message in case.messages] == [used]

    async def sampled() -> None:
        case = episode(Native([tagged(*calls)]))
        search = Search(case, ReAct())
        await search.propose([search.root], 2)
        assert [sorted(message.unreadable) for message in case.messages] == [[] if first else [0, 1]]

    asyncio.run(sampled())


def test_a_branch_sees_a_view_for_each_step() -> None:
    async def run() -> Rollout:
        case = episode(Native([tagged(FIND, QUOTE), tagged(BOOK, END)]))
        return await rollout(case, partial(single_pass, acting=ReAct()), ReAct(), begin(case))

    done = asyncio.run(run())
    assert [view.substep.id for view in done.views] == ["0", "1", "2", "3"]
    assert [len(view.path.steps) for view in done.views] == [0, 1, 2, 3]
    assert [decision.usage.llm_calls for decision in done.decisions] == [1, 0, 1, 0]


@pytest.mark.parametrize("text", ["", tagged(FIND, ("nobody", {}))])
def test_a_plan_needs_calls_all_of_which_can_be_read(text: str) -> None:
    with pytest.raises(ModelError, match="the model had written no usable plan after 2 tries"):
        acted(ZeroShot(max_retries=1), text)


def test_words_alone_end_a_plan_as_they_end_the_work_call_by_call() -> None:
    for planner in (ZeroShot(), ReAct()):
        found, _, _ = acted(planner, "I cannot do that.")
        assert [(step.call, step.finished, step.malformed) for step in found.steps] == [(None, True, False)]
        assert found.answer == "I cannot do that."


def test_tools_whose_names_no_server_takes_are_called_by_others() -> None:
    tools = (tool("TMDB: find movie", "order"), tool("TMDB. find movie", "order"))
    engine = Native(["", "done"])
    case = episode(engine, tools=tools)
    asyncio.run(ReAct(max_calls=1).solve(case))
    answer = engine.prompts[0].answer
    assert isinstance(answer, FunctionsAnswer)
    (name,) = [name for name, tool in answer.named if tool == "TMDB: find movie"]
    own: Written = ("TMDB. find movie", {"order": "A-1"})
    found = asyncio.run(ReAct(max_calls=2).solve(episode(Native([tagged((name, {"order": "A-1"}), own)]), tools=tools)))
    assert [step.chosen for step in found.steps] == ["TMDB: find movie", "TMDB. find movie"], "by its own name too"


def test_transcripts_have_what_was_handed_over_and_answered_word_for_word(tmp_path: Path) -> None:
    answers = [tagged(FIND, ("nobody", {})), as_message("Now.", [SENT]), "It is so."]
    case = episode(engine := Native(answers))
    asyncio.run(ReAct().solve(case))
    found = transcript_rows("cell", "attempt", case.messages, set())
    rows = [dict(zip(store.schema.TABLES["messages"].names, row, strict=True)) for row in found["messages"]]
    sections = {digest: entries for digest, _, entries, _, _ in found["sections"]}
    kinds = {digest: kind for digest, kind, *_ in found["sections"]}
    assert [list(row["answers"]) for row in rows] == [[answer] for answer in answers]
    assert [row["wanted"] for row in rows] == ["functions"] * 3
    assert [len(row["unreadable"]) for row in rows] == [1, 1, 0]
    (handed,) = {digest for row in rows for digest in row["prompt"] if kinds[digest] == "functions"}
    assert [json.loads(line) for line in sections[handed]] == engine.prompts[0].functions()
    assert "tools" not in kinds.values()

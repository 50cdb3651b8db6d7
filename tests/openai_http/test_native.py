"""Native tool calls over HTTP: what a server is handed, and the calls that it sends back, well formed or not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from grid.core.engine import MESSAGES, NATIVE, SAMPLE, PlanAnswer, ScoreAnswer
from grid.core.errors import ConfigError
from grid.core.types import FINISH, Trajectory
from grid.engines.functions import handed_over
from grid.engines.http.engine import OpenAIHTTP
from grid.episode.episode import Episode
from grid.planners.react import ReAct
from grid.planners.zero_shot import ZeroShot
from grid.settings.check import invalid_reason
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, completion, refusal
from tests.support.native import BOOK, FIND, QUOTE, Written, episode
from tests.support.openai_engine import CHAT, after_load, engine, failure, prompt, well

END: Written = (FINISH, {"answer": "B-9"})


def called(*calls: Written, content: str | None = None) -> Reply:
    """A completion with tool calls, as providers give it."""
    sent = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments) in enumerate(calls)
    ]
    return message(sent, content)


def message(tool_calls: Any, content: str | None = None) -> Reply:
    reply = completion(content, prompt=40, output=9)
    reply.body["choices"][0]["message"]["tool_calls"] = tool_calls
    reply.body["choices"][0]["finish_reason"] = "tool_calls"
    return reply


def native(url: str, **more: Any) -> OpenAIHTTP:
    return engine(url, tools="native", **more)


def solved(planner: ReAct | ZeroShot, *replies: Reply) -> tuple[Trajectory, Episode, LocalServer]:
    with LocalServer(after_load(completion("a conversation's probe"), *replies)) as server:

        async def run() -> tuple[Trajectory, Episode]:
            await (made := native(server.url)).load()
            case = episode(made)  # type: ignore[arg-type]
            return await planner.solve(case), case

        return *asyncio.run(run()), server


def test_a_request_has_the_functions_and_neither_a_list_nor_a_schema() -> None:
    _, case, server = solved(ReAct(), called(END))
    probe, _, asked = server.bodies(CHAT)
    assert [entry["function"]["name"] for entry in probe["tools"]] == ["get_time", "no_tool"]
    assert asked["tools"] == case.messages[0].prompt.functions()
    assert sorted(entry["function"]["name"] for entry in asked["tools"]) == sorted(
        ["find", "quote", "book", "other", "more", FINISH]
    )
    assert asked["tool_choice"] == "auto"
    assert "response_format" not in asked
    assert "find(" not in json.dumps(asked["messages"])


def test_prompts_that_want_no_call_are_still_structured() -> None:
    with LocalServer(well) as server:

        async def run(made: OpenAIHTTP) -> None:
            await made.load()
            await made.sample(handed_over(prompt(answer=ScoreAnswer())), n=1, temperature=0.0, max_tokens=9, seed=1)

        asyncio.run(run(native(server.url)))
    body = server.bodies(CHAT)[-1]
    assert "response_format" in body
    assert "tools" not in body


@pytest.mark.parametrize("planner", [ReAct(), ZeroShot()])
def test_parallel_calls_are_as_many_steps_at_the_cost_of_one_request(planner: ReAct | ZeroShot) -> None:
    found, case, _ = solved(planner, called(FIND, QUOTE, BOOK, END, content="All at once."))
    assert [step.chosen for step in found.steps] == ["find", "quote", "book", FINISH]
    assert [(step.input_tokens, step.output_tokens) for step in found.steps] == [(40, 9), (0, 0), (0, 0), (0, 0)]
    assert (case.usage.llm_calls, case.usage.input_tokens, found.answer) == (1, 40, "B-9")
    kept = json.loads(case.messages[0].answers[0])
    assert kept["content"] == "All at once."
    assert kept["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"order": "A-1"}'}, "as it was sent"


def test_a_message_without_calls_is_the_answer() -> None:
    found, _, _ = solved(ReAct(), called(FIND), completion("<think>done?</think>It was item I-7."))
    assert [step.chosen for step in found.steps] == ["find", FINISH]
    assert found.answer == "It was item I-7."


FUNCTION = {"name": "find", "arguments": '{"order": "A-1"}'}


@pytest.mark.parametrize(
    ("tool_calls", "why"),
    [
        ("find", "no JSON object with a tool"),
        (7, "no JSON object with a tool"),
        ([None], "no JSON object with a tool"),
        ([{"id": "1"}], "no JSON object with a tool"),
        ([{"function": {"name": "nobody", "arguments": "{}"}}], "the tool 'nobody' was not offered"),
        ([{"function": {"name": 3, "arguments": "{}"}}], "no JSON object with a tool"),
        ([{"function": {"name": "find", "arguments": '{"order": '}}], "arguments that are"),
        ([{"function": {"name": "find", "arguments": '{"order": "A-1"} {"order": "B"}'}}], "arguments that are"),
        ([{"function": {"name": "find", "arguments": "\ud800"}}], "half a surrogate pair"),
    ],
)
def test_calls_that_cannot_be_read_are_the_models_failure(tool_calls: Any, why: str) -> None:
    found, case, _ = solved(ReAct(max_calls=1), message(tool_calls))
    assert found.steps[0].malformed
    assert why in case.messages[0].unreadable[0]


@pytest.mark.parametrize("arguments", [{"order": "A-1"}, '{"order": "A-1"}', " {'order': 'A-1'} "])
def test_arguments_are_read_as_text_or_object(arguments: Any) -> None:
    found, _, _ = solved(ReAct(max_calls=1), message([{"function": {"name": "find", "arguments": arguments}}]))
    assert found.steps[0].written is not None
    assert dict(found.steps[0].written.arguments) == {"order": "A-1"}


def test_no_arguments_at_all_are_none() -> None:
    for arguments in ("", None):
        found, _, _ = solved(ReAct(max_calls=1), message([{"function": {"name": "more", "arguments": arguments}}]))
        assert found.steps[0].written is not None
        assert dict(found.steps[0].written.arguments) == {}


def test_calls_that_are_cut_off_are_no_empty_answer() -> None:
    reply = message([{"function": FUNCTION}])
    reply.body["choices"][0]["finish_reason"] = "length"
    _, case, _ = solved(ReAct(max_calls=1), reply)
    assert case.usage.empty_answers == 0


def test_a_server_that_takes_no_tools_is_seen_before_the_sweep() -> None:
    def play(asked: Asked) -> Reply:
        tools = asked.path == CHAT and "tools" in asked.body
        said = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        return refusal(400, said) if tools else well(asked)

    with LocalServer(play) as server:
        error = failure(lambda: native(server.url).load())
        asyncio.run(engine(server.url).load())
    assert isinstance(error, ConfigError)
    assert "tools" in error.allowed
    assert "--enable-auto-tool-choice" in error.allowed


@pytest.mark.parametrize("key", ["tools", "tool_choice"])
def test_tools_are_no_extra_keys(key: str) -> None:
    with pytest.raises(ConfigError, match="keys that the engine does not set itself"):
        native("http://127.0.0.1:1/v1", extra={key: []})
    native("http://127.0.0.1:1/v1", extra={"parallel_tool_calls": False})


@pytest.mark.parametrize("planner", ["egb_logits", "egb_names"])
def test_a_planner_that_chooses_among_listed_tools_is_refused_naming_both_files(planner: str) -> None:
    assert native("http://127.0.0.1:1/v1").provides == {SAMPLE, NATIVE, MESSAGES}
    values = {"exact_choice": True, "tools": "native"}
    reason = invalid_reason(setting_of(model_values=values, model="openai_http", dataset="slate", planner=planner))
    assert reason is not None
    for part in (f"conf/planner/{planner}.yaml needs choices", "conf/model/openai_http.yaml", "model.tools=native"):
        assert part in reason
    assert (
        invalid_reason(setting_of(model_values=values, model="openai_http", dataset="slate", planner="react")) is None
    )


def test_a_plan_over_http_is_all_calls_of_one_answer() -> None:
    _, case, _ = solved(ZeroShot(), called(FIND, END))
    assert not isinstance(case.messages[0].prompt.answer, PlanAnswer)
    assert [line.split(",")[0] for line in case.messages[0].prompt.entries("instruction")[1:]] == [
        "Make all of these calls in this one answer",
        "An answer without a call ends the work.",
    ]

"""What a model thinks before it answers is not its answer, and takes no room from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grid.core.errors import ConfigError
from tests.support.http_server import LocalServer, Reply, completion
from tests.support.openai_engine import CHAT, after_load, engine, failure, sampled, well


def thought(text: str | None, finish: str = "stop", **message: Any) -> Reply:
    reply = completion(text, output=40)
    reply.body["choices"][0] |= {"finish_reason": finish}
    reply.body["choices"][0]["message"] |= message
    reply.body["usage"]["completion_tokens_details"] = {"reasoning_tokens": 30}
    return reply


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (thought("{}", reasoning_content='{"tool": "wrong"}'), "{}"),
        (thought("{}", reasoning="hm"), "{}"),
        (thought('<think>\n{"tool": "wrong"}\n</think>\n{}'), "\n{}"),
        (thought('{"tool": "wrong"}</think>{}'), "{}"),  # a template that opens the thought itself
        (thought('<think>\n{"tool": "wrong"}'), ""),
    ],
)
def test_thoughts_are_not_read_as_the_answer(reply: Reply, answer: str) -> None:
    with LocalServer(after_load(reply)) as server:
        found = asyncio.run(sampled(engine(server.url)))
    assert found.completions == (answer,)
    assert (found.usage.empty_answers, found.usage.output_tokens) == (0, 40)


@pytest.mark.parametrize("text", [None, "", "<think> so many words"])
def test_an_answer_that_thinking_left_no_room_for_is_counted(text: str | None) -> None:
    with LocalServer(after_load(thought(text, "length", reasoning="so many words"), thought("{}"))) as server:
        found = asyncio.run(sampled(engine(server.url), n=2))
    assert sorted(found.completions) == ["", "{}"]
    assert found.usage.empty_answers == 1


def test_thinking_has_room_of_its_own() -> None:
    with LocalServer(well) as server:
        asyncio.run(sampled(engine(server.url, reasoning_tokens=2000)))
    assert {body["max_tokens"] for body in server.bodies(CHAT)} == {2050}


def test_thinking_that_takes_all_room_is_seen_before_the_sweep() -> None:
    full = thought(None, "length", reasoning="so many words")
    with LocalServer(lambda asked: full if asked.path == CHAT else well(asked)) as server:
        error = failure(lambda: engine(server.url, reasoning_tokens=10).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.reasoning_tokens", 10)
    assert "all 60 tokens were used before the answer's first word" in str(error)

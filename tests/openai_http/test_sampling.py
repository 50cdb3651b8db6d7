"""The engine openai_http against a real local server that plays each way to misbehave."""

from __future__ import annotations

import asyncio
import email.utils
import threading
from typing import Any

import pytest

from grid.core.engine import Sampled, ToolCallAnswer
from grid.core.errors import ConfigError, ContextError, EngineError, GridError
from grid.core.types import Parameter, ToolSpec, Usage
from grid.engines.answer_schema import answer_schema
from grid.engines.http.chat import messages
from grid.engines.http.client import MAX_BYTES, RefusedError
from grid.engines.http.engine import OpenAIHTTP
from grid.text.http import retry_after
from tests.support.http_server import Asked, LocalServer, Reply, completion, refusal
from tests.support.openai_engine import CHAT, KEY, NOW, after_load, engine, failure, prompt, sampled, well

TOO_LONG = "This model's maximum context length is 4097 tokens. However, you requested 4120 tokens."
VLLM_TOO_LONG = "Input length (9000) exceeds model's maximum context length (8192)."
LLAMA_TOO_LONG = "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"
WORDS = "what the server\nsays about it " * 20
SHOWN = WORDS.replace("\n", " ")[:200]


def requests_after_load(server: LocalServer) -> int:
    return len(server.bodies(CHAT)) - 1


def test_a_sample_is_a_request_for_each_completion_with_a_seed_of_its_own() -> None:
    tool = ToolCallAnswer((ToolSpec("t", "A tool.", ()),), may_decline=True)

    async def run(made: OpenAIHTTP) -> tuple[Sampled, Sampled, Sampled]:
        first = await sampled(made, n=3)
        second = await made.sample(prompt("a tool", answer=tool), n=3, temperature=0.0, max_tokens=7, seed=5)
        made.structured = False
        return first, second, await made.sample(prompt(answer=tool), n=1, temperature=0.0, max_tokens=7, seed=6)

    play = after_load(completion("a", prompt=11, output=4, cached=8), completion(None), completion("b"))
    with LocalServer(play) as server:
        first, second, _ = asyncio.run(run(engine(server.url, extra={"top_p": 0.9})))
    assert sorted(first.completions) == ["", "a", "b"]
    assert first.usage == Usage(llm_calls=3, input_tokens=11 + 7 + 7, cached_input_tokens=8, output_tokens=4 + 3 + 3)
    assert second.completions == ("b", "b", "b")
    plain, asked, free = server.bodies(CHAT)[1:4], server.bodies(CHAT)[4:7], server.bodies(CHAT)[7]
    assert len({body["seed"] for body in plain}) == 3
    assert {body["seed"] for body in plain} == {body["seed"] for body in asked}
    assert all(0 <= body["seed"] < 2**31 for body in plain)
    assert plain[0] == {
        "seed": plain[0]["seed"],
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "\n\nWhich?\nSay it."}],
        "temperature": 0.7,
        "max_tokens": 50,
        "top_p": 0.9,
    }
    schema = {"type": "json_schema", "json_schema": {"name": "tool_call", "schema": answer_schema(tool)}}
    assert all(body["response_format"] == schema and body["max_tokens"] == 7 for body in asked)
    assert "response_format" not in free
    assert all(asked.headers["authorization"] == f"Bearer {KEY}" for asked in server.asked)


def test_strict_mode_sends_a_strict_schema_and_leaves_out_what_is_null() -> None:
    some = ToolSpec("t", "A tool.", (Parameter("day", "date", ""), Parameter("all", "boolean", "", required=False)))
    anything = ToolSpec("u", "Another.", (Parameter("rows", "array", ""),))
    said = '{"action": {"tool": "t", "arguments": {"day": "today", "all": null}}}'

    async def run(made: OpenAIHTTP) -> list[str]:
        await made.load()
        wanted = [ToolCallAnswer((some,), may_decline=True), ToolCallAnswer((anything,), may_decline=True), None]
        asked = [prompt("a tool", answer=answer) for answer in wanted]
        how: dict[str, Any] = {"n": 1, "temperature": 0.0, "max_tokens": 7, "seed": 5}
        return [(await made.sample(one, **how)).completions[0] for one in asked]

    with LocalServer(after_load(completion(said))) as server:
        found = asyncio.run(run(engine(server.url, strict=True)))
    assert found == ['{"action": {"tool": "t", "arguments": {"day": "today"}}}'] * 2 + [said], "text stays as it is"
    probed, strict, loose, free = [body.get("response_format") for body in server.bodies(CHAT)]
    assert probed["json_schema"]["strict"] is strict["json_schema"]["strict"] is True
    call = strict["json_schema"]["schema"]["properties"]["action"]["anyOf"][0]["properties"]["arguments"]
    assert call["required"] == ["day", "all"]
    assert "strict" not in loose["json_schema"], "a list of anything cannot be said in it"
    assert free is None
    with pytest.raises(ConfigError, match="strict"):
        engine(server.url, strict=True, structured=False)


def test_the_limit_can_have_its_other_name_and_no_key_is_sent_where_none_is_named() -> None:
    with LocalServer(well) as server:
        made = engine(server.url, limit_key="max_completion_tokens", serving={"api_key_env": None})
        asyncio.run(sampled(made))
    assert all(body["max_completion_tokens"] == 50 and "max_tokens" not in body for body in server.bodies(CHAT))
    assert not any("authorization" in asked.headers for asked in server.asked)


def test_control_tokens_in_a_prompt_are_words() -> None:
    told = messages(prompt("a <|im_end|> b </s> c [INST] d <start_of_turn> e <|x y|> f < g"))
    assert told[1]["content"].startswith(
        "a <\u200b|im_end|> b <\u200b/s> c [\u200bINST] d <\u200bstart_of_turn> e <|x y|> f < g\n\nWhich?"
    )


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (refusal(400, TOO_LONG, code="context_length_exceeded"), ContextError, TOO_LONG),
        (refusal(400, VLLM_TOO_LONG, code=400), ContextError, VLLM_TOO_LONG),
        (refusal(400, LLAMA_TOO_LONG, type="exceed_context_size_error", code=400), ContextError, LLAMA_TOO_LONG),
        (refusal(422, "prompt is too long: 9 tokens > 8"), ContextError, "prompt is too long: 9 tokens > 8"),
        (refusal(400, WORDS), RefusedError, SHOWN),
        (refusal(401, WORDS), RefusedError, SHOWN),
        (refusal(403, WORDS), RefusedError, SHOWN),
        (refusal(404, WORDS), RefusedError, SHOWN),
        (refusal(422, WORDS), RefusedError, SHOWN),
        (Reply(400, {"object": "error", "message": WORDS}), RefusedError, SHOWN),
        (Reply(400, {"error": WORDS}), RefusedError, SHOWN),
        (Reply(400, {"detail": [{"loc": ["body"]}]}), RefusedError, "[{'loc': ['body']}]"),
        (Reply(400, WORDS.encode()), RefusedError, SHOWN),
        (refusal(429, "You exceeded your quota.", code="insufficient_quota"), RefusedError, "You exceeded your quota."),
    ],
)
def test_what_will_not_pass_is_asked_once(
    reply: Reply, kind: type[GridError], message: str, waits: list[float]
) -> None:
    with LocalServer(after_load(reply)) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert type(error) is kind
    assert (requests_after_load(server), waits) == (1, [])
    assert str(error) == f"{server.url}/chat/completions: HTTP {reply.status}: {message}"


HUGE = Reply(body=b'"' + b"x" * MAX_BYTES + b'"')
ENDLESS = Reply(body=b'{"a":' * 100_000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (refusal(429, "Slow down."), "HTTP 429: Slow down."),
        *((refusal(status, "Oh."), f"HTTP {status}: Oh.") for status in (408, 409, 425, 500, 502, 503, 504, 529)),
        *((Reply(status, b"<html>cut</html>"), f"HTTP {status}: <html>cut</html>") for status in range(520, 525)),
        (Reply(body=b"<html>hello</html>"), "the answer is not JSON: <html>hello</html>"),
        (Reply(body=b"\xff\xfe\x00"), "the answer is not JSON"),
        (Reply(body=b'{"usage": {"prompt_tokens": NaN}}'), "the answer is not JSON"),
        (ENDLESS, "the answer is not JSON"),
        (Reply(body=[1, 2]), "the answer does not have the expected form"),
        (Reply(body={"choices": [], "usage": {}}), "the answer does not have the expected form: choices: "),
        (
            Reply(body={"choices": [{"message": {"content": 3}}]}),
            "the answer does not have the expected form: choices.0.message.con",
        ),
        (HUGE, f"HTTP 200: the answer has more than {MAX_BYTES:,} bytes"),
    ],
)
def test_what_may_pass_is_tried_again(reply: Reply, says: str, waits: list[float]) -> None:
    with LocalServer(after_load(reply, completion("at last"))) as server:
        answer = asyncio.run(sampled(engine(server.url)))
    assert answer.completions == ("at last",)
    assert answer.usage.resent_requests == 1
    assert (requests_after_load(server), len(waits)) == (2, 1)
    waits.clear()
    with LocalServer(after_load(reply)) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert type(error) is EngineError
    assert str(error).startswith(f"{server.url}/chat/completions: {says}")
    assert str(error).endswith(" (tried 3 times)")
    assert len(str(error)) < 400
    assert (requests_after_load(server), len(waits)) == (3, 2)
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


@pytest.mark.parametrize("begins", [False, True])
def test_a_server_that_hangs_is_left_after_the_time_allowed(begins: bool, waits: list[float]) -> None:
    with LocalServer(well) as server:
        server.play = after_load(Reply(headers={"Content-Length": "100"}, body=b"{}") if begins else server.hang)
        error = failure(lambda: sampled(engine(server.url, serving={"request_seconds": 0.6, "tries": 2})))
        assert requests_after_load(server) == 2
    assert type(error) is EngineError
    assert "no answer within 0.6 s (tried 2 times)" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("2.5", 2.5), (email.utils.formatdate(NOW + 90, usegmt=True), 90), ("soon", 0), ("-3", 0), ("nan", 0)],
)
def test_retry_after_is_honoured(header: str, seconds: float, waits: list[float]) -> None:
    busy = refusal(429, "Slow down.", headers={"Retry-After": header})
    with LocalServer(after_load(busy, busy, completion("x"))) as server:
        answer = asyncio.run(sampled(engine(server.url)))
    assert answer.usage.resent_requests == 2
    assert seconds + 0.25 <= waits[0] <= seconds + 0.5 <= waits[1] <= seconds + 1.0


@pytest.mark.parametrize("header", ["601", "inf", email.utils.formatdate(NOW + 5000, usegmt=True)])
def test_a_server_that_asks_to_wait_too_long_is_given_up(header: str, waits: list[float]) -> None:
    busy = refusal(503, "Maintenance.", headers={"Retry-After": header})
    with LocalServer(after_load(busy)) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert type(error) is EngineError
    assert "HTTP 503: Maintenance.; the server asks to wait" in str(error)
    assert "more than the 600 s allowed" in str(error)
    assert (requests_after_load(server), waits) == (1, [])


def test_dates_that_are_none() -> None:
    assert retry_after("Sun, 99 Nov 1994 08:49:37 GMT", NOW) == 0
    assert retry_after("Sun, 06 Nov 1994 08:49:37 GMT", NOW) == 0
    assert retry_after(None, NOW) == 0


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    together = threading.Barrier(4)  # breaks where fewer than four ever come at once
    seen: list[tuple[int, int]] = []

    def play(asked: Asked) -> Reply:
        if asked.path == CHAT and asked.body["temperature"] == 0.7:
            together.wait(20)
            state = made.occupancy()
            seen.append((state.running, state.waiting))
        return well(asked)

    with LocalServer(play) as server:
        made = engine(server.url, serving={"max_in_flight": 4})
        assert len(asyncio.run(sampled(made, n=12)).completions) == 12
    assert server.most_at_once == 4
    assert max(running for running, _ in seen) == 4
    assert max(waiting for _, waiting in seen) == 8
    state = made.occupancy()
    assert (state.running, state.waiting) == (0, 0)


def test_where_one_completion_fails_the_others_are_ended() -> None:
    async def run(made: OpenAIHTTP) -> tuple[int, int]:
        with pytest.raises(EngineError):
            await sampled(made, n=6)
        for _ in range(100):
            await asyncio.sleep(0)
        return made.occupancy().running, made.occupancy().waiting

    with LocalServer(well) as server:
        server.play = after_load(refusal(400, "No."), server.hang)
        assert asyncio.run(run(engine(server.url, serving={"max_in_flight": 2}))) == (0, 0)


@pytest.mark.parametrize("when", ["at load", "later"])
def test_redirects_are_not_followed(when: str, waits: list[float]) -> None:
    with LocalServer(well) as elsewhere:
        away = Reply(307, headers={"Location": f"{elsewhere.url}/chat/completions?key={KEY}"})
        with LocalServer(after_load(away) if when == "later" else lambda _: away) as server:
            error = failure(lambda: sampled(engine(server.url)))
    assert elsewhere.asked == []
    assert isinstance(error, RefusedError if when == "later" else ConfigError)
    assert f"HTTP 307: redirects are not followed; this one leads to {elsewhere.url}" in str(error)


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_key_that_the_server_repeats_is_not_shown(status: int, waits: list[float]) -> None:
    def play(asked: Asked) -> Reply:
        said = f"Wrong key {asked.headers['authorization']}, {'x' * 300}"
        return Reply(body=said.encode()) if status == 200 else refusal(status, said)

    with LocalServer(play) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert "Wrong key Bearer ***, xxx" in str(error)

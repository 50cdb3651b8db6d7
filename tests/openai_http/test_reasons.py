"""What the model did is the model's, whatever status and words a server has for it: against a real local server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Sampled
from grid.core.errors import ContextError, EngineError, ModelError
from grid.engines.http.client import RefusedError, WithheldError
from grid.episode.requests import Requests
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.text.objects import UnreadableError
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, TinyModel, completion, refusal
from tests.support.openai_engine import after_load, engine, failure, prompt, sampled

GROQ = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
HARMONY = 'unexpected tokens remaining in message header: Some("to=functions.add<|channel|>")'
AZURE = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
TGI = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4500 `inputs` tokens and 20"


def inside(error: Any, **more: Any) -> Reply:
    """A failure that came with HTTP 200."""
    return Reply(body={"error": error, **more})


def in_choice(reason: str, **more: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": reason, **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}
    return Reply(body={"choices": [choice], "usage": usage})


WITHHELD = {
    "groq's tool use": refusal(400, GROQ, code="tool_use_failed", failed_generation="<function=add>{"),
    "groq's arguments": refusal(400, "tool call validation failed: parameters for tool t did not match schema"),
    "groq's json": refusal(400, "Failed to generate JSON.", code="json_validate_failed", failed_generation="{"),
    "groq's parser": refusal(400, "Parsing failed.", code="output_parse_failed"),
    "harmony, 400": refusal(400, HARMONY),
    "harmony, 500": refusal(500, HARMONY),
    "harmony's error": Reply(
        500, {"detail": "HarmonyError: Unexpected token 12606 while expecting start token 200006"}
    ),
    "harmony, inside": inside({"message": HARMONY, "code": 502}),
    "ollama's parser": refusal(500, "error parsing tool call: raw='{\"a\": ', err=unexpected end of JSON input"),
    "llama.cpp's parser": refusal(500, "Failed to parse input at pos 12: <tool_call>", type="server_error"),
    "google's calls": in_choice("error", native_finish_reason="MALFORMED_FUNCTION_CALL"),
    "google's calls, as a reason": in_choice("function_call_filter: MALFORMED_FUNCTION_CALL"),
    "openai's filter": refusal(400, "The response was filtered.", code="content_filter"),
    "azure's words": refusal(400, AZURE),
    "azure's inner code": refusal(400, "Bad request.", innererror={"code": "ResponsibleAIPolicyViolation"}),
    "openrouter's moderation": refusal(403, "Your input was flagged", metadata={"reasons": ["violence"]}),
    "deepseek's filter": refusal(400, "Content Exists Risk"),
    "alibaba's filter": refusal(400, "Output data may contain something", code="data_inspection_failed"),
    "a filter, inside": inside(
        {"message": "Provider returned error", "metadata": {"raw": f'{{"message": "{AZURE}"}}'}}
    ),
    "a filter in the choice": in_choice("error", error={"code": 400, "message": AZURE}),
}
TOO_LONG = {
    "tgi": Reply(422, {"error": TGI, "error_type": "validation"}),
    "tgi, as 500": Reply(500, {"error": TGI}),
    "tgi, without room": refusal(422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1100"),
    "together": refusal(400, TGI, param=None, code=None),
    "vllm, as 500": refusal(500, "The decoder prompt (length 9) is longer than the maximum model length of 8."),
    "anthropic": refusal(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    "cohere": refusal(400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    "bedrock": refusal(400, "Input is too long for requested model."),
    "xai": refusal(400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    "groq": refusal(400, "Please reduce the length of the messages or completion.", code="context_length_exceeded"),
    "moonshot": refusal(400, "Invalid request: Your request exceeded model token limit: 8192"),
    "alibaba": refusal(400, "Range of input length should be [1, 30720]"),
    "tensorrt": refusal(500, "The prompt length (99) and query length max_tokens (9) should not exceed max_num_tokens"),
    "a gateway, inside": inside({"code": 400, "message": "Provider returned error", "metadata": {"raw": TGI}}),
}
SERVERS = {
    "a bill": refusal(402, "Content policy: pay first"),
    "a suspended account": refusal(401, "Your account was flagged"),
    "an unknown key": refusal(400, "Unrecognized request argument supplied: top_k"),
    "a wrong schema": refusal(400, "Invalid schema for response_format: 'additionalProperties' is required"),
    "too much asked for": refusal(400, "max_tokens is too large: 9. This model supports at most 8 completion tokens"),
}


@pytest.mark.parametrize("name", WITHHELD)
def test_what_the_server_keeps_back_is_an_unreadable_answer_of_the_model(name: str, waits: list[float]) -> None:
    play = after_load(WITHHELD[name], completion("b"), WITHHELD[name])
    with LocalServer(play) as server:

        async def run() -> tuple[Sampled, Requests]:
            made = engine(server.url, serving={"max_in_flight": 1})
            await made.load()
            three = await made.sample(prompt(), n=3, temperature=0.7, max_tokens=9, seed=1)
            requests = Requests({"actor": made}, 1)
            answers = await requests.sample("actor", prompt(), n=1, temperature=0.0, max_tokens=9)
            with pytest.raises(UnreadableError, match="the server kept back"):
                answers.read()
            return three, requests

        three, requests = asyncio.run(run())
    assert three.completions == ("", "b", "")
    assert (set(three.withheld), three.cut) == ({0, 2}, frozenset())
    assert (three.usage.llm_calls, three.usage.uncounted_answers, three.usage.input_tokens) == (3, 2, 7)
    assert requests.spent["actor"].uncounted_answers == 1
    assert waits == [], "what the model wrote is not asked for again"


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_prompt_that_does_not_fit_is_told_in_many_words(name: str, waits: list[float]) -> None:
    with LocalServer(after_load(TOO_LONG[name])) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert type(error) is ContextError
    assert (len(server.bodies("/v1/chat/completions")), waits) == (2, [])


@pytest.mark.parametrize("name", SERVERS)
def test_what_the_server_refuses_is_its_own(name: str) -> None:
    with LocalServer(after_load(SERVERS[name])) as server:
        assert type(failure(lambda: sampled(engine(server.url)))) is RefusedError


@pytest.mark.parametrize("words", ["Slow down: too many tokens", "flagged as too fast", "context window of requests"])
def test_a_rate_limit_is_waited_for_whatever_it_says(words: str, waits: list[float]) -> None:
    with LocalServer(after_load(refusal(429, words), completion("at last"))) as server:
        assert asyncio.run(sampled(engine(server.url))).completions == ("at last",)
    assert len(waits) == 1


def test_a_vocabulary_that_is_not_there_is_the_servers(waits: list[float]) -> None:
    with LocalServer(after_load(refusal(500, "HarmonyError: error downloading or loading vocab file"))) as server:
        assert type(failure(lambda: sampled(engine(server.url)))) is EngineError


def test_a_choice_that_is_kept_back_is_the_models_failure() -> None:
    tiny, left = TinyModel(), [-100]  # the first ones, of `load`, are answered

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/completions":
            left[0] += 1
            if left[0] > 1:
                return refusal(400, AZURE)
        return tiny.play(asked)

    from grid.engines.hosted import CHOICE_PROBE

    with LocalServer(play) as server:

        async def run() -> object:
            made = engine(server.url, model="tiny", exact_choice=True)
            await made.load()
            left[0] = 1
            return await made.choose(CHOICE_PROBE, seed=0)

        error = failure(run)
    assert isinstance(error, ModelError)


@pytest.mark.long
@pytest.mark.parametrize("planner", ["react", "zero_shot", "self_consistency"])
@pytest.mark.parametrize("tools", ["prompt", "native"])
def test_cells_go_on_behind_an_answer_that_was_kept_back(planner: str, tools: str) -> None:
    """Every answer is kept back: the model solved nothing, which is known."""
    with LocalServer(after_load(WITHHELD["groq's tool use"])) as server:
        keys = {"base_url": server.url, "model": "m", "structured": False, "sampling": "plain", "tools": tools}
        labels: dict[str, Any] = {"dataset": "slate", "planner": planner, "model": "openai_http"}
        setting = setting_of({"limit": 2}, model_values=keys, **labels)
        built = build(setting, BudgetConfig())

        async def run() -> list[dict[str, Any]]:
            await built.engine.load()  # type: ignore[attr-defined]
            chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
            return (await run_chunk(replace(built), setting, chunk, Stamp("test", None))).take()["episodes"]

        rows = asyncio.run(run())
    for row in rows:
        assert row["success"] is False
        assert row["error_kind"] in (None, "model")
        assert row["uncounted_answers"] == row["llm_calls"] > 0
    assert issubclass(WithheldError, ModelError)

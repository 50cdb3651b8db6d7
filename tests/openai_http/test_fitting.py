"""Answers that are fitted into what a server's context leaves beside the prompt, against a real local server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from grid.cells.run import episode_of
from grid.core.engine import ACTOR, JUDGE, Role
from grid.core.errors import ContextError
from grid.engines.http.chat import room
from grid.engines.http.engine import OpenAIHTTP
from grid.episode.requests import Requests
from grid.planners.refining import Refined, Refining
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Play, Reply, completion, models, refusal
from tests.support.openai_engine import CHAT, engine, prompt

CONTEXT, PROMPT = 8192, 300
WORDS: dict[str, Callable[[int], str]] = {
    "vllm": lambda asked: (
        f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context "
        f"length is {CONTEXT} tokens and your request has {PROMPT} input tokens ({asked} > {CONTEXT} - {PROMPT})."
    ),
    "openai": lambda asked: (
        f"This model's maximum context length is {CONTEXT} tokens. However, you requested "
        f"{asked + PROMPT} tokens ({PROMPT} in the messages, {asked} in the completion). Please reduce the length."
    ),
    "openai, the sum alone": lambda asked: (
        f"This model's maximum context length is {CONTEXT} tokens. However, you requested {asked + PROMPT} tokens."
    ),
    "sglang": lambda asked: (
        f"Requested token count exceeds the model's maximum context length of {CONTEXT} tokens. You "
        f"requested a total of {asked + PROMPT} tokens: {PROMPT} tokens from the input messages and {asked} tokens "
        "for the completion."
    ),
    "tgi": lambda asked: (
        f"`inputs` tokens + `max_new_tokens` must be <= {CONTEXT}. Given: {PROMPT} `inputs` tokens and "
        f"{asked} `max_new_tokens`"
    ),
    "anthropic": lambda asked: (
        f"input length and `max_tokens` exceed context limit: {PROMPT} + {asked} > {CONTEXT}, "
        "decrease input length or `max_tokens` and try again"
    ),
}
MUTE = "Input is too long: it exceeds the context window of this model."


def small(words: Callable[[int], str]) -> Play:
    """A server whose context holds a prompt of `PROMPT` tokens and what is left; `words` say what was too much."""

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m")
        wanted = asked.body["max_tokens"]
        return completion("fine") if PROMPT + wanted <= CONTEXT else refusal(400, words(wanted))

    return play


async def asked_for(made: OpenAIHTTP, fits: bool, role: Role = ACTOR) -> Requests:
    made.max_tokens = 50
    await made.load()
    made.max_tokens = 10_000
    requests = Requests({ACTOR: made, JUDGE: made}, seed=1)
    requests.fit_tokens = fits
    await requests.sample(role, prompt(), "plan", n=2, temperature=0.0, max_tokens=10_000)
    return requests


@pytest.mark.parametrize("words", list(WORDS.values()), ids=list(WORDS))
@pytest.mark.parametrize("thought", [0, 500])
def test_an_answer_has_what_the_context_leaves_and_the_transcript_says_how_much(
    words: Callable[[int], str], thought: int
) -> None:
    with LocalServer(small(words)) as server:
        requests = asyncio.run(asked_for(engine(server.url, reasoning_tokens=thought), fits=True))
    (message,) = requests.messages
    assert message.answers == ("fine", "fine")
    assert message.max_tokens == CONTEXT - PROMPT - thought
    sent = [body["max_tokens"] for body in server.bodies(CHAT)]
    assert sent.count(CONTEXT - PROMPT) == 2  # each sample once more, whichever comes first
    assert requests.spent[ACTOR].llm_calls == 2


@pytest.mark.parametrize(
    ("fits", "role", "words"),
    [(False, ACTOR, WORDS["vllm"]), (True, JUDGE, WORDS["vllm"]), (True, ACTOR, lambda asked: MUTE)],
    ids=["without the key", "another role", "a server that does not tell"],
)
def test_else_it_stays_too_long(fits: bool, role: Role, words: Callable[[int], str]) -> None:
    with LocalServer(small(words)) as server, pytest.raises(ContextError):
        asyncio.run(asked_for(engine(server.url), fits, role))


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (MUTE, 50),
        ("This model's maximum context length is 4097 tokens.", 50),
        ("This model's maximum context length is 4097 tokens. However, your prompt has 5000 tokens.", 50),
        ("Input length (9000) exceeds model's maximum context length (8192).", 50),
        ("maximum context length is 4097 tokens; 12 and 4090 were seen with 4090 and 4095", 50),
    ],
)
def test_what_is_not_told_is_not_guessed(words: str, asked: int) -> None:
    found: Any = room(words, asked)
    assert found is None


@pytest.mark.parametrize("refine", [False, True])
def test_an_episode_fits_the_answers_of_a_planner_that_does(refine: bool) -> None:
    """From the planner's key to the request, refined or not."""
    built = build(setting_of({}, dataset="slate", planner="fh"), BudgetConfig())
    planner: Any = replace(cast(Any, built.planner), fit_tokens=True, max_tokens=10_000)
    planner = Refined(planner, Refining(mode="self")) if refine else planner

    async def run(url: str) -> int | None:
        made = engine(url)
        await made.load()
        made.max_tokens = 10_000
        own = replace(built, planner=planner, engine=made)
        episode = episode_of(own, own.problem(built.dataset.case_ids()[0], 0), seed=1)
        await episode.sample(prompt(), "plan", max_tokens=10_000)
        return episode.messages[-1].max_tokens

    with LocalServer(small(WORDS["vllm"])) as server:
        assert asyncio.run(run(server.url)) == CONTEXT - PROMPT

"""A judge behind OpenAI's interface: in words, and in digits where the server returns what exact choices need."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from grid.core.engine import JUDGE, ScoreAnswer
from grid.core.types import Usage
from grid.engines.answer_schema import answer_schema
from grid.engines.http.engine import OpenAIHTTP
from grid.episode.episode import Episode
from tests.openai_http.test_choices import brute_force
from tests.support.http_server import LocalServer, TinyModel, completion
from tests.support.judged import ASKED, asking
from tests.support.openai_engine import CHAT, after_load, engine


async def judged(made: OpenAIHTTP, run: Episode) -> list[float]:
    await made.load()
    return [await run.judge(prompt, place) for place, prompt in enumerate(ASKED)]


def test_words_are_asked_for_under_the_schema_and_again_where_they_hold_no_score() -> None:
    play = after_load(completion("Good."), completion('{"score": 0.4}'), completion('{"score": 4, "explanation": ""}'))
    with LocalServer(play) as server:
        made = engine(server.url)
        run = asking(made)
        assert asyncio.run(judged(made, run)) == [0.4] * len(ASKED)
        bodies = server.bodies(CHAT)[1:]
    assert len(bodies) == len(ASKED) + 2
    assert {body["temperature"] for body in bodies} == {0.0}
    for body in bodies:
        assert body["response_format"]["json_schema"]["schema"] == answer_schema(ScoreAnswer())
    assert run.spent[JUDGE] == Usage(llm_calls=len(bodies), input_tokens=7 * len(bodies), output_tokens=3 * len(bodies))


@pytest.mark.long
def test_digits_are_the_expectation_by_brute_force() -> None:
    model = TinyModel()
    model.context = 4000
    with LocalServer(model.play) as server:
        made = engine(server.url, model="tiny", exact_choice=True, mass_bound=0.0)
        run = asking(made, "digits")
        found = asyncio.run(judged(made, run))
    for score, message in zip(found, run.messages, strict=True):
        shares, _ = brute_force(model, message.prompt, 11, "")
        assert score == pytest.approx(float(np.arange(11) @ shares) / 10, abs=1e-9)
    assert len(set(found)) > 1

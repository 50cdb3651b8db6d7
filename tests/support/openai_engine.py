"""The engine openai_http for tests, against a local server, with a key that nothing may show."""

from __future__ import annotations

import asyncio
import pickle
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grid.core.engine import Prompt, Sampled, Section, TextAnswer
from grid.core.errors import GridError
from grid.engines.http.engine import OpenAIHTTP
from tests.support.http_server import Asked, Play, Reply, completion, models

KEY, KEY_ENV = "sk-a1b2c3d4e5f6", "GRID_TEST_KEY"
CHAT = "/v1/chat/completions"
NOW = 1_790_000_000.0


def prompt(*lines: str, answer: Any = None) -> Prompt:
    sections = (Section("role", ("Be brief.",)), Section("tools", lines), Section("request", ("Which?", "Say it.")))
    return Prompt(sections, answer or TextAnswer())


def engine(url: str, **more: Any) -> OpenAIHTTP:
    serving = {"api_key_env": KEY_ENV, "tries": 3, **more.pop("serving", {})}
    made = OpenAIHTTP(**{"base_url": url, "model": "m", "max_tokens": 50, "serving": serving, **more})
    assert KEY not in repr(made)
    return made


def well(asked: Asked) -> Reply:
    """A server that does what it should."""
    return models("m", "other") if asked.path == "/v1/models" else completion("fine")


def after_load(*replies: Reply | Play) -> Play:
    """Well until the engine is loaded; then each request's reply, the last one for all that follow."""
    left: list[Reply | Play]
    left, one_at_a_time = [completion("probe"), *replies], threading.Lock()

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m")
        with one_at_a_time:
            reply = left.pop(0) if len(left) > 1 else left[0]
        return reply if isinstance(reply, Reply) else reply(asked)

    return play


def failure(asking: Callable[[], Awaitable[object]]) -> GridError:
    """The error that it ends in, which shows no key and travels between processes."""

    async def run() -> object:
        return await asking()

    with pytest.raises(GridError) as caught:
        asyncio.run(run())
    shown = f"{caught.value}{caught.value!r}" + "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))
    return caught.value


async def sampled(made: OpenAIHTTP, n: int = 1, seed: int = 5) -> Sampled:
    await made.load()
    return await made.sample(prompt(), n=n, temperature=0.7, max_tokens=99, seed=seed)

"""What requests say of the sampler, and what rows say of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from grid.core.errors import ConfigError
from grid.engines.http.engine import OpenAIHTTP
from tests.support.http_server import Asked, LocalServer, Reply, completion
from tests.support.openai_engine import CHAT, engine, sampled, well

PLAIN = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


def sent(**values: Any) -> tuple[OpenAIHTTP, dict[str, Any]]:
    with LocalServer(well) as server:
        made = engine(server.url, **values)
        asyncio.run(sampled(made))
        body = server.bodies(CHAT)[-1]
    return made, {key: value for key, value in body.items() if key in PLAIN}


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({}, {"top_p": 1.0}),
        ({"sampling": "plain"}, PLAIN),
        ({"sampling": "server"}, {}),
        ({"sampling": "plain", "extra": {"top_k": 20}}, PLAIN | {"top_k": 20}),
    ],
)
def test_rows_say_what_requests_carry(values: dict[str, Any], keys: dict[str, Any]) -> None:
    made, found = sent(**values)
    assert found == keys
    assert json.loads(made.sampler) == keys | {"others": "server"}
    unloaded = engine("http://127.0.0.1:1/v1", **values)
    assert unloaded.sampler == made.sampler, "the tasks' own engine is never loaded"


@pytest.mark.parametrize("owner", ["vllm", "sglang"])
def test_a_server_that_fills_in_a_sampler_is_not_let_do_so_in_silence(owner: str) -> None:
    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return Reply(200, {"data": [{"id": "m", "owned_by": owner}]})
        return completion("fine")

    with LocalServer(play) as server:
        with pytest.raises(ConfigError) as caught:
            asyncio.run(engine(server.url).load())
        assert caught.value.key == "model.sampling"
        asyncio.run(engine(server.url, sampling="plain").load())
        asyncio.run(engine(server.url, sampling="server").load())

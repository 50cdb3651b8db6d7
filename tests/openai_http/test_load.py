"""What is wrong with a server, a key or a value of openai_http is said before the sweep starts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.core.engine import CHOOSE, SAMPLE
from grid.core.errors import ConfigError, EngineError
from grid.engines.http.client import checked_url
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.check import check_sweep
from grid.settings.extras import expect_listed
from grid.settings.setting import Setting
from tests.support.configs import job, yaml
from tests.support.http_server import Asked, LocalServer, Reply, refusal
from tests.support.openai_engine import CHAT, KEY, KEY_ENV, engine, failure, well

TOO_LONG = "This model's maximum context length is 4097 tokens. However, you requested 4120 tokens."


def test_building_loads_nothing_heavy() -> None:
    code = (
        "import sys, grid.engines.http.engine as m; m.OpenAIHTTP(base_url='https://h/v1', model='m');"
        "assert not {'httpx', 'openai', 'torch', 'transformers', 'vllm', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_it_says_what_it_is() -> None:
    made = OpenAIHTTP(base_url="https://api.example.org/v1/", model="m")
    assert (made.name, made.home, made.gpus, made.version) == ("openai_http", "gateway", 0, "m@api.example.org")
    assert made.base_url == "https://api.example.org/v1"
    assert made.provides == {SAMPLE}
    assert replace(made, exact_choice=True).provides == {SAMPLE, CHOOSE}


def test_a_server_that_is_not_there(waits: list[float]) -> None:
    with LocalServer(well) as server:
        pass
    error = failure(lambda: engine(server.url).load())
    assert type(error) is EngineError
    assert f"{server.url}/models: ConnectError" in str(error)
    assert len(waits) == 2


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("path", ["/v1/models", CHAT])
def test_a_refused_key_is_seen_before_the_sweep(status: int, path: str, waits: list[float]) -> None:
    with LocalServer(lambda asked: refusal(status, "No such key.") if asked.path == path else well(asked)) as server:
        error = failure(lambda: engine(server.url).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.serving.api_key_env", KEY_ENV)
    assert f"HTTP {status}: No such key." in str(error)
    assert server.paths().count(path) == 1


@pytest.mark.parametrize(
    ("value", "says"), [(None, "is not set"), ("", "is not set"), (f"{KEY}\n", "has characters that no key has")]
)
def test_a_key_that_is_none(value: str | None, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_ENV) if value is None else monkeypatch.setenv(KEY_ENV, value)
    with LocalServer(well) as server:
        error = failure(lambda: engine(server.url).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.serving.api_key_env", KEY_ENV)
    assert says in str(error)
    assert server.asked == []


def test_a_model_that_the_server_does_not_have() -> None:
    with LocalServer(well) as server:
        error = failure(lambda: engine(server.url, model="mm").load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.model", "mm")
    assert str(error).endswith(f"{server.url} lists: m, other")


def settings_of(folder: Path, *models: dict[str, Any]) -> list[Setting]:
    """A setting for each model."""
    given = [yaml("model", "openai_http") | {"serving": {}} | model for model in models]
    return [setting for one in given for setting in check_sweep([job(folder, model=one)]).plan.settings]


def test_servers_are_asked_before_ray_starts(tmp_path: Path) -> None:
    with LocalServer(well) as gone:
        pass
    with LocalServer(well) as server, LocalServer(lambda asked: refusal(404, "No.")) as bare:
        known, without = ({"base_url": one.url, "model": "m"} for one in (server, bare))
        away = {"base_url": gone.url, "model": "m"}
        (line,) = expect_listed(settings_of(tmp_path, known, without, away, known))
        assert line.startswith(f"no server answers yet: {gone.url}/models: ConnectError")
        assert (server.paths(), bare.paths()) == (["/v1/models"], ["/v1/models"]), "each once, for its list"
        with pytest.raises(ConfigError, match=r"model\.model='mm'.* lists: m, other"):
            expect_listed(settings_of(tmp_path, {"base_url": server.url, "model": "mm"}))
        with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
            expect_listed(settings_of(tmp_path, known | {"serving": {"api_key_env": "NO_SUCH_KEY"}}))
    assert expect_listed(check_sweep([job(tmp_path)]).plan.settings) == []


def test_a_server_without_a_list_of_models_is_asked_for_a_completion() -> None:
    with LocalServer(lambda asked: refusal(404, "No.") if asked.path == "/v1/models" else well(asked)) as server:
        asyncio.run(engine(server.url).load())
    assert server.paths() == ["/v1/models", CHAT]


def test_a_server_that_does_not_take_the_requests_is_seen_before_the_sweep() -> None:
    def play(asked: Asked) -> Reply:
        schema = asked.path == CHAT and "response_format" in asked.body
        return refusal(400, "Unsupported parameter: 'response_format'.") if schema else well(asked)

    with LocalServer(play) as server:
        error = failure(lambda: engine(server.url).load())
        asyncio.run(engine(server.url, structured=False).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.base_url", server.url)
    assert "model.structured" in str(error)
    assert "HTTP 400: Unsupported parameter" in str(error)


def test_completions_longer_than_the_context_are_seen_before_the_sweep() -> None:
    with LocalServer(lambda asked: refusal(400, TOO_LONG) if asked.path == CHAT else well(asked)) as server:
        error = failure(lambda: engine(server.url).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.max_tokens", 50)


@pytest.mark.parametrize(
    ("url", "key", "shown"),
    [
        ("http://10.0.0.1:8000/v1", True, "http://10.0.0.1:8000/v1"),
        ("http://example.org/v1", True, "http://example.org/v1"),
        ("ftp://example.org/v1", False, "ftp://example.org/v1"),
        ("127.0.0.1:8000", False, "127.0.0.1:8000"),
        ("http://", False, "http://"),
        ("http://h:port/v1", False, "http://h:port/v1"),
        ("http://[::1", False, "http://[::1"),
        (f"https://me:{KEY}@example.org/v1", False, "example.org/v1"),
        (f"https://me:{KEY}@example.org:port/v1", False, "example.org:port/v1"),
        (f"https://example.org/v1?key={KEY}", False, "https://example.org/v1"),
    ],
)
def test_urls_that_cannot_be(url: str, key: bool, shown: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIHTTP(base_url=url, model="m", serving={"api_key_env": KEY_ENV if key else None})  # type: ignore[arg-type]
    assert (caught.value.key, caught.value.value) == ("model.base_url", shown)
    assert KEY not in str(caught.value)


def test_urls_that_can_be() -> None:
    for url in ("http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8000/v1", "https://example.org/v1"):
        assert checked_url(url, True) == url
    assert checked_url("http://10.0.0.1/v1", False) == "http://10.0.0.1/v1"


@pytest.mark.parametrize("env", [KEY, KEY.replace("-", ""), "A B", ""])
def test_a_key_in_the_place_of_its_variables_name_is_not_shown(env: str) -> None:
    with pytest.raises(ConfigError) as caught:
        engine("https://example.org/v1", serving={"api_key_env": env})
    assert caught.value.key == "model.serving.api_key_env"
    assert not env or env not in str(caught.value)


@pytest.mark.parametrize("name", ["model", "messages", "max_completion_tokens"])
def test_extra_keys_do_not_replace_the_engines_own(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"model.extra=\['{name}'\]"):
        engine("https://example.org/v1", extra={name: 1})

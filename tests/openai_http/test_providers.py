"""Any provider by the library litellm: two dialects on this machine, with all that can be wrong before and in a sweep.

Skipped where the library is not installed; `.ci/run` has an environment for it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import MESSAGES, NATIVE, SAMPLE, Prompt, Sampled, Section, TextAnswer
from grid.core.errors import ConfigError, ContextError, EngineError
from grid.engines.providers import LiteLLM
from grid.settings.build import build
from grid.settings.check import Checked, Job, check_sweep, invalid_reason
from grid.settings.roles import Price, expect_counts, model_key, models
from tests.support.configs import LABELS, job, setting_of
from tests.support.dialects import CLAUDE, GEMINI, Anthropic, Dialect, Gemini
from tests.support.extras import needs
from tests.support.http_server import Asked, LocalServer, Play, Reply
from tests.support.openai_engine import KEY, KEY_ENV, failure

pytestmark = needs("litellm")

ENGINE = "grid.engines.providers.LiteLLM"
WORDS = Prompt((Section("role", ("Be brief.",)), Section("request", ("Which?",))), TextAnswer())
TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
OPENAI = "openai/gpt-4o"


@dataclass(frozen=True)
class Provider:
    """A provider's dialect, its model, where its base is, and what its models lack."""

    dialect: type[Dialect]
    model: str
    base: str
    omit: tuple[str, ...] = ()

    def values(self, server: LocalServer, **more: Any) -> dict[str, Any]:
        """The keys of a model at a server."""
        base = server.url.removesuffix("/v1") + self.base
        serving = {"api_key_env": KEY_ENV, "tries": 3}
        return {"model": self.model, "base_url": base, "omit": [*self.omit], "serving": serving, **more}


PROVIDERS = {
    "anthropic": Provider(Anthropic, CLAUDE, "", ("seed", "top_p")),
    "gemini": Provider(Gemini, GEMINI, "/v1beta"),
    "openai": Provider(Dialect, OPENAI, "/v1"),
}
BOTH = ("anthropic", "gemini")


def made(provider: str, server: LocalServer, **more: Any) -> LiteLLM:
    engine = LiteLLM(**PROVIDERS[provider].values(server, **more))
    assert KEY not in repr(engine)
    return engine


async def sampled(engine: LiteLLM, n: int = 1) -> Sampled:
    await engine.load()
    return await engine.sample(WORDS, n=n, temperature=0.7, max_tokens=9, seed=5)


def checked(root: Path, values: dict[str, Any], **changes: Any) -> Checked:
    return check_sweep([Job(job(root, model={"_target_": ENGINE, **values}, **changes).config, LABELS)])


def after_probe(well: Dialect, *replies: Reply) -> Play:
    """A good answer to the engine's first request; then each of these, and good ones after them."""
    left = [*replies]
    return lambda asked: left.pop(0) if left and well.told else well(asked)


def refused(status: int, said: str, **headers: str) -> Reply:
    """As Anthropic has it."""
    return Reply(status, {"type": "error", "error": {"type": "some_error", "message": said}}, headers)


def config_error(engine: LiteLLM) -> ConfigError:
    error = failure(engine.load)
    assert isinstance(error, ConfigError), error
    return error


@pytest.mark.long
@pytest.mark.parametrize("tools", ["prompt", "native"])
@pytest.mark.parametrize("provider", BOTH)
def test_ten_episodes_have_the_calls_and_tokens_that_the_server_counted(
    provider: str, tools: str, tmp_path: Path
) -> None:
    """ReAct on SLATE, by the sweep's own code; money at the table's prices."""
    dialect = PROVIDERS[provider].dialect(KEY)
    with LocalServer(dialect) as server:
        plan = checked(tmp_path, PROVIDERS[provider].values(server, tools=tools), dataset__limit=10).plan
        (setting,) = plan.settings
        built = build(setting, plan.budget)
        cells = list(plan.cells_of(setting))

        async def run() -> tuple[int, list[dict[str, Any]]]:
            await cast(LiteLLM, built.engine).load()
            probes = len(dialect.told)
            return probes, (await run_chunk(built, setting, cells, Stamp("x", None))).take()["episodes"]

        probes, rows = asyncio.run(run())
    assert len(rows) == 10
    assert {(row["status"], row["error_message"]) for row in rows} == {("ok", None)}
    told = dialect.sums(probes)
    assert len(dialect.told) - probes == len(server.asked) - probes > 20
    assert [sum(row[name] for row in rows) for name in ("llm_calls", *TOKENS)] == [
        len(dialect.told) - probes, told.input, told.cached, told.output, told.thought,
    ]  # fmt: skip
    assert sum(row["tool_calls"] for row in rows) > 20
    assert (dialect.native > 20, dialect.results > 20) == (tools == "native",) * 2
    price = built.prices["actor"]
    assert price is not None
    fresh = told.input - told.cached
    dollars = fresh * price.input + told.cached * (price.cached or 0) + told.output * price.output
    assert sum(row["money"] for row in rows) == pytest.approx(dollars / 1e6)


@pytest.mark.parametrize(("provider", "key"), [("anthropic", "system"), ("gemini", "system_instruction")])
def test_the_role_is_the_systems_and_all_else_the_users(provider: str, key: str) -> None:
    with LocalServer(PROVIDERS[provider].dialect(KEY)) as server:
        asyncio.run(sampled(made(provider, server)))
    body = server.asked[-1].body
    assert "Be brief." in json.dumps(body.pop(key))
    assert "Be brief." not in json.dumps(body)
    assert "Which?" in json.dumps(body)


def test_building_and_pricing_import_no_library() -> None:
    code = (
        "import sys, grid.engines.providers as m; one = m.LiteLLM(model='anthropic/claude-sonnet-4-5');"
        "assert one.listing().input > 0; assert not {'litellm', 'openai', 'httpx', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_it_says_what_it_is() -> None:
    engine = LiteLLM(model=CLAUDE)
    assert (engine.name, engine.home, engine.gpus) == ("litellm", "gateway", 0)
    assert engine.provides == {SAMPLE}
    assert LiteLLM(model=CLAUDE, tools="native").provides == {SAMPLE, NATIVE, MESSAGES}
    assert engine.version == f"{CLAUDE} (litellm {metadata.version('litellm')})"
    own = LiteLLM(model=GEMINI, base_url="https://gate.example.org/v1")
    assert own.version.startswith(f"{GEMINI}@gate.example.org ")
    assert engine.environment == ("ANTHROPIC_API_KEY",)
    serving = {"api_key_env": "MINE", "environment": ["AWS_REGION_NAME"]}
    assert LiteLLM(model=CLAUDE, serving=serving).environment == ("MINE", "AWS_REGION_NAME")  # type: ignore[arg-type]


@pytest.mark.parametrize("planner", ["egb_logits", "egb_names"])
def test_planners_that_choose_are_refused_before_any_request_with_both_files_named(
    planner: str,
) -> None:
    with LocalServer(Anthropic(KEY)) as server:
        values = PROVIDERS["anthropic"].values(server)
        reason = invalid_reason(setting_of(model_values=values, model="litellm", dataset="slate", planner=planner))
    assert server.asked == []
    assert reason is not None
    for part in (f"conf/planner/{planner}.yaml needs choose", "conf/model/litellm.yaml"):
        assert part in reason


# Keys.


@pytest.mark.parametrize(
    ("model", "names"), [(CLAUDE, "ANTHROPIC_API_KEY"), (GEMINI, "GEMINI_API_KEY"), (OPENAI, "OPENAI_API_KEY")]
)
def test_a_missing_key_is_seen_before_any_request(model: str, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with LocalServer(Dialect(KEY)) as server:
        error = config_error(LiteLLM(model=model, base_url=server.url, omit=["seed"]))
    assert (error.key, error.value) == ("model.serving.api_key_env", None)
    assert names in str(error)
    assert server.asked == []


def test_the_providers_own_variable_is_read_and_a_key_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with LocalServer(Anthropic(KEY)) as server:
        values = {"serving": {}, "structured": False}
        asyncio.run(sampled(made("anthropic", server, **values)))
        assert {asked.headers["x-api-key"] for asked in server.asked} == {KEY}
    with LocalServer(lambda asked: refused(403, f"{KEY} may not")) as server:
        error = config_error(made("anthropic", server, **values))
    assert "*** may not" in str(error)


@pytest.mark.parametrize("provider", BOTH)
def test_a_refused_key_is_seen_before_the_sweep(provider: str, waits: list[float]) -> None:
    with LocalServer(PROVIDERS[provider].dialect("another")) as server:
        error = config_error(made(provider, server))
    assert (error.key, error.value) == ("model.serving.api_key_env", KEY_ENV)
    assert "HTTP 401" in str(error)
    assert (len(server.asked), waits) == (1, [])


@pytest.mark.parametrize(
    "key", ["api_key", "aws_secret_access_key", "vertex_credentials", "base_url", "max_retries", "drop_params", "model"]
)
def test_no_further_key_holds_a_secret_or_goes_behind_the_engines_back(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"model\.extra=\['{key}'\]"):
        LiteLLM(model=CLAUDE, extra={key: KEY})


# Names and prices.


@pytest.mark.parametrize(
    ("name", "near"),
    [("anthropic/claude-sonet-4-5", CLAUDE), ("gemini-2.5-flsh", "gemini"), ("a/claude-sonnet-4-5", CLAUDE)],
)
def test_a_name_that_the_table_does_not_have_is_refused_with_the_nearest(name: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(tmp_path, {"model": name, "price": {"input": 1, "output": 1}})
    assert (caught.value.key, caught.value.value) == ("model.model", name)
    assert near in str(caught.value)
    assert "model.listed=false" in str(caught.value)


def test_names_may_stand_in_the_table_without_their_provider_and_with_a_kind_of_it() -> None:
    listed = [LiteLLM(model=f"{provider}{CLAUDE.partition('/')[2]}").listing() for provider in ("", "anthropic/")]
    assert listed[0] == listed[1]
    own = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    assert LiteLLM(model=f"bedrock/{own}").listing() == LiteLLM(model=own).listing()


def test_without_the_library_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid.engines.providers._installed", lambda: None)
    with pytest.raises(ConfigError, match=r"must be installed: pip install -e '\.\[providers\]'"):
        checked(tmp_path, {"model": CLAUDE})


def test_an_unlisted_name_is_taken_where_that_is_wanted_and_its_provider_is_known(tmp_path: Path) -> None:
    with LocalServer(Dialect(KEY)) as server:
        engine = made("openai", server, model="openai/my-own", listed=False)
        assert asyncio.run(sampled(engine)).completions == ("fine",)
        assert {asked.body["model"] for asked in server.asked} == {"my-own"}
        assert engine.listing() is None
        unknown = config_error(made("openai", server, model="claud-3", listed=False))
    assert (unknown.key, unknown.value) == ("model.model", "claud-3")
    assert checked(tmp_path, {"model": "openai/my-own", "listed": False}).priced == []


def test_a_model_that_the_provider_does_not_have() -> None:
    with LocalServer(lambda asked: refused(404, "model: claude-sonnet-4-5")) as server:
        error = config_error(made("anthropic", server))
    assert (error.key, error.value) == ("model.model", CLAUDE)


def _folder() -> list[str]:
    spec = find_spec("litellm")
    assert spec is not None
    return spec.submodule_search_locations or []


def test_prices_are_the_tables_with_its_version_where_none_is_given(tmp_path: Path) -> None:
    table = json.loads(Path(*_folder(), "model_prices_and_context_window_backup.json").read_text(encoding="utf-8"))
    entry = table["claude-sonnet-4-5"]
    keys = ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
    dollars = [entry[key] * 1e6 for key in keys]
    found = checked(tmp_path, {"model": CLAUDE}, budget__money=1.0)
    (setting,) = found.plan.settings
    price = build(setting, found.plan.budget).prices["actor"]
    assert price is not None
    assert [price.input, price.cached, price.output] == pytest.approx(dollars)
    (line,) = found.priced
    shown = ", ".join(f"{key}: {value:g}" for key, value in zip(("input", "cached", "output"), dollars, strict=True))
    assert f"litellm {metadata.version('litellm')} is used: {{{shown}}}" in line
    given = checked(tmp_path, {"model": CLAUDE, "price": {"input": 7, "output": 8}})
    assert given.priced == []
    assert build(given.plan.settings[0], given.plan.budget).prices["actor"] == Price(input=7, output=8)


def test_a_budget_of_money_needs_counts_at_the_tables_price_too(tmp_path: Path) -> None:
    (setting,) = checked(tmp_path, {"model": CLAUDE}).plan.settings
    (key,) = map(model_key, models(setting.config).values())
    with pytest.raises(ConfigError, match="does not report tokens"):
        expect_counts([setting], [key], None, {"money": 5.0})


# What a provider or a model does not take.


def test_seeds_that_a_provider_does_not_take_are_told_before_any_request() -> None:
    with LocalServer(Anthropic(KEY)) as server:
        error = config_error(made("anthropic", server, omit=[]))
        assert (error.key, error.value) == ("model.omit", [])
        assert "[seed], because anthropic/claude-sonnet-4-5 does not accept these keys" in str(error)
        assert server.asked == []
        error = config_error(made("anthropic", server, omit=["seed"]))
        assert (error.key, "[seed, top_p]" in str(error)) == ("model.omit", True), "not both, says its server"
        engine = made("anthropic", server, omit=["seed", "top_p"])
        asyncio.run(engine.load())
    assert json.loads(engine.sampler) == {"omitted": ["seed", "top_p"], "others": "server"}


@pytest.mark.parametrize(
    ("model", "values", "key"),
    [
        ("deepseek/deepseek-reasoner", {"tools": "native"}, "model.tools"),
        ("perplexity/sonar", {"tools": "native", "omit": ["seed", "tool_choice"]}, "model.tools"),
        ("perplexity/sonar", {"omit": ["top_p"]}, "model.omit"),
    ],
)
def test_what_a_model_does_not_take_is_told_before_any_request(model: str, values: dict[str, Any], key: str) -> None:
    with LocalServer(Dialect(KEY)) as server:
        error = config_error(made("openai", server, model=model, **values))
    assert error.key == key
    assert model in str(error)
    assert server.asked == []


def test_a_thought_that_must_go_back_with_its_signature_needs_history_as_text() -> None:
    """Which is told; the signature of Anthropic's thinking is not kept."""
    thinking = {"tools": "native", "extra": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
    with LocalServer(Anthropic(KEY)) as server:
        error = config_error(made("anthropic", server, **thinking))
        engine = made("anthropic", server, **thinking, history="text")
        assert asyncio.run(sampled(engine)).reasoning == {0: ("reasoning_content", "Which is first?")}
    assert error.key == "model.history"
    assert "Expected `thinking`, but found `tool_use`" in str(error)


@pytest.mark.parametrize("provider", BOTH)
def test_a_schema_that_is_refused_is_seen_before_the_sweep(provider: str) -> None:
    def refuses(body: Any) -> str | None:
        with_schema = "output_format" in body or "response_json_schema" in body.get("generationConfig", ())
        return "this schema is not supported" if with_schema else None

    with LocalServer(PROVIDERS[provider].dialect(KEY, refuses)) as server:
        error = config_error(made(provider, server))
        asyncio.run(made(provider, server, structured=False).load())
    assert "model.structured" in str(error)
    assert "HTTP 400: this schema is not supported" in str(error)


# Failures.


@pytest.mark.parametrize(
    ("provider", "status"), [("anthropic", 429), ("anthropic", 529), ("gemini", 503), ("openai", 429), ("openai", 500)]
)
def test_what_may_pass_is_tried_again_and_only_by_the_engine(provider: str, status: int, waits: list[float]) -> None:
    """OpenAI's own client, which the library uses for some, would try too."""
    well = PROVIDERS[provider].dialect(KEY)
    with LocalServer(after_probe(well, refused(status, "busy"), refused(status, "busy"))) as server:
        found = asyncio.run(sampled(made(provider, server, structured=False)))
    assert (found.usage.llm_calls, found.usage.resent_requests) == (1, 2)
    assert (len(server.asked), len(waits)) == (1 + 3, 2)


def test_a_server_that_goes_on_failing_is_an_engines_failure(waits: list[float]) -> None:
    with LocalServer(lambda asked: refused(500, "no disk left")) as server:
        error = failure(made("anthropic", server).load)
    assert type(error) is EngineError
    assert str(error) == f"{CLAUDE}: HTTP 500: no disk left (tried 3 times)"
    assert len(server.asked) == 3


def test_it_waits_as_long_as_it_is_told_and_not_longer_than_it_may(waits: list[float]) -> None:
    with LocalServer(after_probe(Anthropic(KEY), refused(429, "slow", **{"Retry-After": "20"}))) as server:
        asyncio.run(sampled(made("anthropic", server)))
    assert 20 < waits[0] < 21
    with LocalServer(lambda asked: refused(429, "slow", **{"Retry-After": "9000"})) as server:
        error = failure(made("anthropic", server).load)
    assert "the server asks to wait 9,000 s" in str(error)


def test_a_spent_account_is_not_asked_again(waits: list[float]) -> None:
    spent = {"error": {"message": "You exceeded your quota", "type": "quota", "code": "insufficient_quota"}}
    with LocalServer(lambda asked: Reply(429, spent)) as server:
        config_error(made("openai", server))
    assert (len(server.asked), waits) == (1, [])


def test_a_prompt_that_does_not_fit_is_the_prompts() -> None:
    said = "prompt is too long: 300000 tokens > 200000 maximum"
    with LocalServer(after_probe(Anthropic(KEY), refused(400, said))) as server:
        error = failure(lambda: sampled(made("anthropic", server)))
    assert isinstance(error, ContextError)
    assert said in str(error)


def test_a_call_that_the_provider_cannot_read_is_the_models() -> None:
    """Gemini ends such an answer with a reason of its own, which the library calls `stop`."""
    usage = {"promptTokenCount": 20, "totalTokenCount": 20}
    unread = Reply(body={"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}], "usageMetadata": usage})
    with LocalServer(after_probe(Gemini(KEY), unread)) as server:
        found = asyncio.run(sampled(made("gemini", server)))
    assert "MALFORMED_FUNCTION_CALL" in found.withheld[0]
    assert (found.completions, found.usage.uncounted_answers, len(server.asked)) == (("",), 1, 2)


@pytest.mark.parametrize(("provider", "name"), [("anthropic", "usage"), ("gemini", "usageMetadata")])
def test_an_answer_without_usage_says_so(provider: str, name: str, waits: list[float]) -> None:
    """The library does not read one."""
    well = PROVIDERS[provider].dialect(KEY)

    def play(asked: Asked) -> Reply:
        reply = well(asked)
        reply.body.pop(name)
        return reply

    with LocalServer(play) as server:
        error = failure(made(provider, server).load)
    assert type(error) is EngineError
    assert "the answer has no usage, and litellm cannot read such an answer" in str(error)


def test_answers_in_openais_dialect_may_have_no_usage() -> None:
    with LocalServer(Dialect(KEY)) as server:
        engine = made("openai", server)
        found = asyncio.run(sampled(engine))
    assert (engine.counts, found.usage.uncounted_answers, found.usage.input_tokens) == (False, 1, 0)


def test_completions_side_by_side_have_seeds_of_their_own() -> None:
    with LocalServer(Gemini(KEY)) as server:
        found = asyncio.run(sampled(made("gemini", server, extra={"reasoning_effort": "low"}), n=3))
    configs = [asked.body["generationConfig"] for asked in server.asked[1:]]
    assert len({one["seed"] for one in configs}) == found.usage.llm_calls == 3
    assert {(one["temperature"], one["top_p"], one["max_output_tokens"]) for one in configs} == {(0.7, 1.0, 9)}
    assert all("thinkingConfig" in one for one in configs), "further keys reach the provider"


def test_the_librarys_own_mock_answers_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = asyncio.run(sampled(LiteLLM(model=OPENAI, extra={"mock_response": "as was asked"})))
    assert found.completions == ("as was asked",)
    assert found.usage.llm_calls == 1
    assert found.usage.output_tokens > 0

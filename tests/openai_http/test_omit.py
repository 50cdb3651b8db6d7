"""Keys that a server refuses: left out, at another temperature, and found before the first cell."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.load import provenance
from grid.cluster.answering import Answering, loaded
from grid.cluster.fleet import probes_of
from grid.core.engine import ACTOR, CRITIC, EVALUATOR, JUDGE, USER, ScoreAnswer
from grid.core.errors import ConfigError
from grid.engines.answer_schema import answer_schema
from grid.engines.hosted import Probe
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import build
from grid.settings.check import Job, check_sweep
from grid.settings.config import BudgetConfig, ClusterConfig
from tests.support.configs import LABELS, job, yaml
from tests.support.http_server import Asked, LocalServer, Play, Reply, refusal
from tests.support.judged import ASKED, asking
from tests.support.openai_engine import CHAT, engine, failure, sampled, well

LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
HTTP = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
LONG = {**HTTP, "max_tokens": 2048}
ONLY_ONE = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)


def only(refused: str, value: object, message: str) -> Play:
    """A server that takes one value of a key alone, or none at all."""

    def play(asked: Asked) -> Reply:
        wrong = asked.path == CHAT and asked.body.get(refused, value) != value
        return refusal(400, message, param=refused, code="unsupported_value") if wrong else well(asked)

    return play


ONE = only("temperature", 1.0, ONLY_ONE)


async def probed(made: OpenAIHTTP, *probes: Probe) -> OpenAIHTTP:
    await made.load()
    await made.probe(probes)
    return made


def test_keys_are_left_out_of_every_request_and_rows_say_so() -> None:
    with LocalServer(well) as server:
        made = engine(server.url, omit=["temperature", "seed", "top_p", "max_tokens"], extra={"n_keep": 1})
        asyncio.run(sampled(made, n=2))
        bodies = server.bodies(CHAT)
    assert len(bodies) == 3
    assert all({*body} == {"model", "messages", "n_keep"} for body in bodies[1:])
    assert not any({"temperature", "seed", "top_p", "max_tokens"} & {*body} for body in bodies)
    omitted = ["max_tokens", "seed", "temperature", "top_p"]
    assert json.loads(made.sampler) == {"omitted": omitted, "others": "server"}


def test_without_it_a_request_has_what_it_had() -> None:
    with LocalServer(well) as server:
        asyncio.run(sampled(engine(server.url)))
        body = server.bodies(CHAT)[-1]
    assert {"temperature", "seed", "top_p", "max_tokens"} < {*body}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"omit": ["temprature"]}, "keys from max_completion_tokens, max_tokens, min_p, .* top_p .not temprature"),
        ({"omit": ["seed", "messages"]}, "not messages"),
        ({"omit": ["top_p"], "extra": {"top_p": 0.9}}, "keys that model.extra does not set .not top_p"),
    ],
)
def test_what_cannot_be_left_out_is_refused_with_what_can(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        engine("https://example.org/v1", **values)
    assert (caught.value.key, caught.value.value) == ("model.omit", values["omit"])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("seed", "Extra inputs are not permitted: seed"),
        ("top_p", "Unsupported parameter: 'top_p' is not supported."),
        ("top_p", "`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
    ],
)
def test_a_key_that_is_refused_is_found_before_the_sweep_and_named(key: str, message: str) -> None:
    with LocalServer(only(key, None, message)) as server:
        error = failure(lambda: engine(server.url).load())
        asyncio.run(engine(server.url, omit=[key]).load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.omit", [])
    assert f"[{key}]" in str(error)
    assert message in str(error)


@pytest.mark.parametrize(("role", "key"), [(JUDGE, "judge.temperature"), (ACTOR, "its planner's temperature")])
def test_a_model_that_takes_one_temperature_alone_is_found_before_the_sweep(role: Any, key: str) -> None:
    with LocalServer(ONE) as server:
        error = failure(lambda: probed(engine(server.url), Probe(role, 0.0)))
        asyncio.run(probed(engine(server.url, omit=["temperature"]), Probe(role, 0.0)))
        asyncio.run(probed(engine(server.url), Probe(role, 1.0)))
    assert isinstance(error, ConfigError)
    assert error.key == "model.omit"
    assert "[temperature]" in str(error)
    assert f"the {role} is asked at temperature 0 ({key}" in str(error)
    assert ONLY_ONE in str(error)


def test_probes_ask_as_the_roles_do_each_once() -> None:
    probes = (Probe(ACTOR, 1.0), Probe(ACTOR, 0.0), Probe(JUDGE, 0.5), Probe(USER, 0.0), Probe(JUDGE, 0.5))
    for tools in ("prompt", "native"):
        with LocalServer(well) as server:
            asyncio.run(probed(engine(server.url, tools=tools), *probes))
            bodies = server.bodies(CHAT)
        converses = [body for body in bodies if any(message["role"] == "tool" for message in body["messages"])]
        assert len(converses) == (tools == "native"), "tried once, where it will be"
        loaded_at, act, judge, user = (body for body in bodies if body not in converses)
        assert [body["temperature"] for body in (loaded_at, act, judge, user)] == [1.0, 0.0, 0.5, 0.0]
        assert all(("tools" if tools == "native" else "response_format") in body for body in (loaded_at, act))
        assert judge["response_format"]["json_schema"]["schema"] == answer_schema(ScoreAnswer())
        assert not {"tools", "response_format"} & {*user}


def test_a_judge_can_be_asked_at_the_temperature_that_its_model_takes() -> None:
    async def scores(**how: Any) -> list[float]:
        made = engine(server.url)
        await made.load()
        run = asking(made, **how)
        return [await run.judge(prompt, place) for place, prompt in enumerate(ASKED)]

    def play(asked: Asked) -> Reply:
        found = ONE(asked)
        if asked.path == CHAT and found.status == 200:
            found.body["choices"][0]["message"]["content"] = '{"score": 7, "explanation": ""}'
        return found

    with LocalServer(play) as server:
        assert asyncio.run(scores(temperature=1.0)) == [0.7] * len(ASKED)
        error = failure(lambda: scores())
    assert "does not support 0" in str(error)


def setting(tmp_path: Path, **parts: Any) -> Any:
    found = check_sweep([Job(job(tmp_path, **parts).config, LABELS | {JUDGE: "j", EVALUATOR: "e", CRITIC: "c"})])
    return found.plan.settings[0]


def test_a_roles_temperature_at_its_default_is_no_part_of_the_id(tmp_path: Path) -> None:
    planner = yaml("planner", "tooltree")
    plain = setting(tmp_path, planner=planner, judge={"form": "text", **HTTP})
    null = setting(tmp_path, planner=planner, judge={"form": "text", "temperature": None, **HTTP, "omit": []})
    other = setting(tmp_path, planner=planner, judge={"form": "text", "temperature": 1.0, **HTTP})
    without = setting(tmp_path, planner=planner, judge={"form": "text", **HTTP, "omit": ["temperature"]})
    assert plain.id == null.id
    assert plain.config == null.config
    assert len({plain.id, other.id, without.id}) == 3
    assert build(other, BudgetConfig()).judging[JUDGE].temperature == 1.0
    assert build(null, BudgetConfig()).judging[JUDGE].temperature is None


def test_omitting_nothing_is_no_part_of_a_models_id(tmp_path: Path) -> None:
    planner = yaml("planner", "react")
    plain = setting(tmp_path, planner=planner, model=HTTP)
    empty = setting(tmp_path, planner=planner, model={**HTTP, "omit": []})
    assert (plain.id, plain.text) == (empty.id, empty.text)
    assert setting(tmp_path, planner=planner, model={**HTTP, "omit": ["seed"]}).id != plain.id


def test_a_temperature_that_is_the_engines_own_stays_the_engines(tmp_path: Path) -> None:
    """The lexical engine divides its scores by a key of this name."""
    planner, own = yaml("planner", "tooltree"), {**LEXICAL, "temperature": 0.5}
    built = build(setting(tmp_path, planner=planner, judge={"form": "text", **own}), BudgetConfig())
    assert built.judging[JUDGE].temperature is None
    assert vars(built.roles[JUDGE])["temperature"] == 0.5
    built = build(setting(tmp_path, planner=planner, model=own, judge={"temperature": None}), BudgetConfig())
    assert vars(built.roles[JUDGE])["temperature"] == 0.5
    with pytest.raises(ConfigError, match=r"judge.temperature=1.0.*null"):
        setting(tmp_path, planner=planner, model=own, judge={"temperature": 1.0})


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"planner": yaml("planner", "react")}, {(ACTOR, 1.0)}),
        ({"planner": yaml("planner", "zero_shot")}, {(ACTOR, 0.0)}),
        ({"planner": yaml("planner", "tooltree"), "judge": {"form": "text"}}, {(ACTOR, 1.0), (JUDGE, 0.0)}),
        ({"planner": yaml("planner", "tooltree"), "judge": {"temperature": 1.0}}, {(ACTOR, 1.0), (JUDGE, 1.0)}),
        ({"planner": yaml("planner", "tot"), "judge": {"form": "text"}}, {(ACTOR, 0.7), (JUDGE, 0.7)}),
        ({"planner": yaml("planner", "refuser")}, set()),
        ({"planner": yaml("planner", "fh"), "refine": yaml("refine", "self")}, {(ACTOR, 0.0)}),
    ],
)
def test_a_sweep_knows_at_which_temperatures_it_will_ask(
    tmp_path: Path, parts: dict[str, Any], wanted: set[tuple[str, float]]
) -> None:
    found = probes_of([setting(tmp_path, model=LONG, **parts)])
    assert {tuple(probe) for probes in found.values() for probe in probes} == wanted


def test_who_asks_beside_a_sweep_is_refused_before_it_asks() -> None:
    from contextlib import ExitStack

    with LocalServer(ONE) as server, ExitStack() as stack:
        model = {**HTTP, "base_url": server.url}
        asked = Answering("m", model, ClusterConfig(kind="local"), (Probe(EVALUATOR, 0.0),))
        error = failure(lambda: loaded(asked, print, stack))
    assert isinstance(error, ConfigError)
    assert error.key == "model.omit"


def test_a_report_says_what_follows_from_a_key_that_was_left_out() -> None:
    plain = {"model": HTTP, "judge": {**HTTP, "omit": []}}
    without = {"model": {**HTTP, "omit": ["temperature"]}, "judge": {**HTTP, "model": "j", "omit": ["seed", "top_p"]}}
    episodes = pd.DataFrame({"config": [json.dumps(plain), json.dumps(without), json.dumps(without), None]})
    assert provenance.unsent(episodes[:1]) == []
    assert provenance.unsent(episodes) == [
        "requests to j, the judge leave out seed, top_p; trials cannot be repeated",
        "requests to m leave out temperature; the server uses its own temperature, whatever planners and roles ask for",
    ]

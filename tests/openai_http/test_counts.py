"""What servers tell of tokens and of themselves: read in the one way that explains it, else not at all, and said."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from grid.cells.rows import ChunkResult, attempt_row
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import ACTOR, JUDGE, Choice, Source
from grid.core.errors import ConfigError, EngineError
from grid.core.types import Usage
from grid.engines.hosted import CHOICE_PROBE
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import build
from grid.settings.check import Job, check_sweep
from grid.settings.roles import Price, at_least, expect_counts, model_key, models, money
from tests.support.configs import LABELS, job
from tests.support.http_server import Asked, LocalServer, Play, Reply, TinyModel, completion
from tests.support.http_server import models as known
from tests.support.openai_engine import CHAT, after_load, engine, failure, sampled

CALL = '{"action": {"tool": "no_tool", "arguments": {}}}'
PRICE = {"input": 100.0, "cached": 10.0, "output": 1000.0}
MISSING = object()


def told(usage: Any, text: Any = "fine", **message: Any) -> Reply:
    """A completion with this `usage`; MISSING: without one."""
    reply = completion(text)
    del reply.body["usage"]
    reply.body["choices"][0]["message"] |= message
    return reply if usage is MISSING else Reply(body=reply.body | {"usage": usage})


def spent(usage: Any, **message: Any) -> tuple[int, int, int, int] | None:
    """Input, cached, output and reasoning tokens as the engine counts one answer; None: uncounted."""
    with LocalServer(after_load(told(usage, **message))) as server:
        found = asyncio.run(sampled(engine(server.url, structured=False))).usage
    assert found.llm_calls == 1
    if found.uncounted_answers:
        assert found == Usage(llm_calls=1, uncounted_answers=1), "nothing is taken from it"
        return None
    return found.input_tokens, found.cached_input_tokens, found.output_tokens, found.reasoning_tokens


def usage(prompt: Any, completion: Any, total: Any = None, cached: Any = None, thought: Any = None) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (usage(12, 3, 15), (12, 0, 3, 0)),
        (usage(12, 3), (12, 0, 3, 0)),
        ({"prompt_tokens": 12, "completion_tokens": 3}, (12, 0, 3, 0)),
        ({"prompt_tokens": 12.0, "completion_tokens": 3.0, "total_tokens": 15.0}, (12, 0, 3, 0)),
        ({"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": None}, (12, 0, 3, 0)),
        (usage(12, 3, 15, cached=8), (12, 8, 3, 0)),
        # Cached tokens beside the prompt's.
        (usage(12, 3, cached=2495), (2507, 2495, 3, 0)),
        (usage(12, 3, 2510, cached=2495), (2507, 2495, 3, 0)),
        (usage(12, 3, 15, cached=2495), (2507, 2495, 3, 0)),  # a total without them
        (usage(3000, 3, 5498, cached=2495), (5495, 2495, 3, 0)),
        # Thought within the completion, and beside it.
        (usage(12, 150, 162, thought=140), (12, 0, 150, 140)),
        (usage(12, 150, thought=140), (12, 0, 150, 140)),
        (usage(12, 10, 162, thought=140), (12, 0, 150, 140)),
        (usage(12, 150, 302, thought=140), (12, 0, 290, 140)),
        (usage(12, 10, thought=140), (12, 0, 150, 140)),
        ({"prompt_tokens": 12, "completion_tokens": 150, "reasoning_tokens": 140}, (12, 0, 150, 140)),
        # Both.
        (usage(12, 10, 2657, cached=2495, thought=140), (2507, 2495, 150, 140)),
    ],
)
def test_counts_are_read_in_the_one_way_that_explains_them(said: Any, read: tuple[int, int, int, int]) -> None:
    assert spent(said) == read


@pytest.mark.parametrize(
    "said",
    [
        MISSING,
        None,
        [],
        "12 tokens",
        {},
        {"prompt_tokens": 12},
        {"completion_tokens": 3},
        usage(0, 0, 0),
        usage(0, 0),
        usage(12, 0, 12),
        usage(0, 3, 3),
        usage(-12, 3),
        usage(12, -3, 9),
        usage(12.5, 3),
        usage("12", 3),
        usage(True, 3),
        usage(10**12, 3),
        usage(12, 1e300),
        usage(12, 3, cached=-5),
        usage(12, 3, thought=-5),
        usage(12, 3, 100),
        usage(12, 3, 0),
        usage(12, 10, 22, thought=140),
        usage(200, 200, 540, cached=140, thought=140),  # one of them stands beside the others: which?
    ],
)
def test_counts_that_cannot_be_are_none_and_money_is_not_known(said: Any) -> None:
    assert spent(said) is None
    price = Price(**PRICE)
    assert money({ACTOR: price}, {ACTOR: Usage(llm_calls=1, uncounted_answers=1)}) is None


@pytest.mark.parametrize(
    "message",
    [
        {"text": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"text": None, "reasoning_content": "I think so."},
        {"text": [{"type": "thinking", "thinking": "I think so."}]},
        {"text": None, "refusal": "I will not."},
    ],
)
def test_zeros_are_not_believed_whatever_was_said(message: dict[str, Any]) -> None:
    with LocalServer(after_load(_unstopped(told(usage(12, 0, 12), **message)))) as server:
        found = asyncio.run(sampled(engine(server.url, structured=False))).usage
    assert found.uncounted_answers == 1


def _unstopped(reply: Reply) -> Reply:
    reply.body["choices"][0]["finish_reason"] = "length"
    return reply


def test_no_answer_at_all_has_its_prompt_counted() -> None:
    with LocalServer(after_load(_unstopped(told(usage(12, 0, 12), None)))) as server:
        found = asyncio.run(sampled(engine(server.url, structured=False))).usage
    assert (found.input_tokens, found.output_tokens, found.uncounted_answers) == (12, 0, 0)


def test_one_uncounted_answer_of_several_leaves_the_sum_unknown() -> None:
    with LocalServer(after_load(completion("a"), told(MISSING), completion("b"))) as server:
        found = asyncio.run(sampled(engine(server.url, structured=False), n=3)).usage
    assert (found.llm_calls, found.uncounted_answers) == (3, 1)
    assert found.known()["input_tokens"] is None
    assert found.known()["llm_calls"] == 3


@pytest.mark.long
@pytest.mark.parametrize("said", [MISSING, usage(0, 0, 0), usage(12, 3, 100)])
def test_a_tokenizer_counts_what_the_server_does_not(said: Any) -> None:
    tiny = TinyModel()

    def play(asked: Asked) -> Reply:
        if asked.path == CHAT:
            return told(said, "1st answer", reasoning_content="hm")
        reply = tiny.play(asked)
        if asked.path == "/v1/completions":
            reply.body["usage"] = None if said is MISSING else usage(0, 0, 0)
        return reply

    with LocalServer(play) as server:
        made = engine(server.url, model="tiny", exact_choice=True)
        found = asyncio.run(sampled(made))
        (body,) = server.bodies(CHAT)[1:]
    prompt = len(tiny.tokenizer.chat(body["messages"]))
    text = len(tiny.tokenizer.encode("1st answer"))
    assert found.usage == Usage(llm_calls=1, input_tokens=prompt, output_tokens=text + 2, reasoning_tokens=2)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}], "fine"),
        ([{"type": "output_text", "text": "fine"}], "fine"),
        (["fi", "ne"], "fine"),
        ([{"text": "fine"}], "fine"),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "No."}]}, {"type": "text", "text": "fine"}],
            "fine",
        ),
        ([{"type": "thinking", "thinking": "No."}, {"type": "text", "text": "fine"}], "fine"),
        ([{"type": "reasoning", "text": "No."}, {"type": "text", "text": "fine"}], "fine"),
        ([{"type": "refusal", "refusal": "I will not."}], ""),
        ([{"type": "text", "text": "<think>No.</think>fine"}], "fine"),
    ],
)
def test_content_may_be_a_list_of_parts(content: Any, text: str) -> None:
    with LocalServer(lambda asked: known("m") if asked.path == "/v1/models" else completion(content)) as server:
        found = asyncio.run(sampled(engine(server.url, structured=False)))
    assert found.completions == (text,)
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 3)


@pytest.mark.parametrize("content", [7, {"text": "x"}, [7], [{"type": "image_url"}], [{"type": "text", "text": 7}]])
def test_content_that_is_none_is_no_empty_answer(content: Any, waits: list[float]) -> None:
    with LocalServer(after_load(completion(content))) as server:
        error = failure(lambda: sampled(engine(server.url)))
    assert type(error) is EngineError
    assert "the answer does not have the expected form: choices.0.message.content: " in str(error)


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}], [{"type": "thinking", "thinking": ""}]])
def test_parts_without_a_word_and_a_token_are_a_failure_of_the_servers(content: Any, waits: list[float]) -> None:
    with LocalServer(after_load(completion(content, output=0), completion("at last"))) as server:
        found = asyncio.run(sampled(engine(server.url)))
    assert (found.completions, found.usage.resent_requests) == (("at last",), 1)


def by(text: str, **names: Any) -> Reply:
    return Reply(body=completion(text).body | names)


@pytest.mark.parametrize(
    ("names", "source"),
    [
        ({}, Source()),
        ({"model": "m-2024-08-06", "system_fingerprint": "fp_1", "provider": "P"}, Source("m-2024-08-06", "fp_1", "P")),
        ({"model": 7, "system_fingerprint": None, "provider": {"name": "P"}}, Source()),
        ({"model": " a\nb ", "provider": "x" * 999}, Source("a b", None, "x" * 200)),
    ],
)
def test_who_answered_is_told(names: dict[str, Any], source: Source) -> None:
    with LocalServer(after_load(by("x", **names))) as server:
        assert asyncio.run(sampled(engine(server.url))).sources == {source}


def swept(
    root: Path, play: Play, judged: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
    """The episodes of two cases at a server, by the sweep's own code, the row of their try, and their steps.

    `judged` is a planner that asks a judge, another model of the server's.
    """
    with LocalServer(play) as server:
        target = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": server.url, "model": "m"}
        model = target | {"structured": False, "price": PRICE}
        roles = {"planner": judged, "judge": model | {"model": "judge", "form": "text"}} if judged else {}
        plan = check_sweep([Job(job(root, model=model, **roles).config, LABELS | {JUDGE: "judge"})]).plan
        (setting,) = plan.settings
        built = build(setting, plan.budget)

        async def run() -> ChunkResult:
            for one in built.engines.values():
                await cast(OpenAIHTTP, one).load()
            return await run_chunk(built, setting, list(plan.cells_of(setting)), Stamp("x", None), at_once=1)

        result = asyncio.run(run())
    attempt = attempt_row("a", setting.id, built.prices, result, 1.0, None)
    assert at_least(built.prices, result.spent) is not None
    rows = result.take()
    return sorted(rows["episodes"], key=lambda row: row["money"] is None), attempt, rows["steps"]


TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "money")


def test_money_is_never_below_zero_and_thought_is_paid(tmp_path: Path) -> None:
    rows, attempt, _ = swept(tmp_path, after_load(told(usage(12, 10, 2657, cached=2495, thought=140), CALL)))
    each = (12 * 100 + 2495 * 10 + 150 * 1000) / 1_000_000
    for row in rows:
        assert row["money"] == pytest.approx(row["llm_calls"] * each)
        assert row["reasoning_tokens"] == 140 * row["llm_calls"]
    assert attempt["money"] == pytest.approx(sum(row["money"] for row in rows))


def test_a_cell_with_an_uncounted_answer_has_no_tokens_and_no_money(tmp_path: Path) -> None:
    """And its try neither: a sum that lacks some would be too low."""
    rows, attempt, steps = swept(tmp_path, after_load(told(MISSING, CALL), told(usage(12, 3, 15), CALL)))
    assert [row["uncounted_answers"] for row in rows] == [0, 1]
    assert [row[name] for row in rows for name in TOKENS].count(None) == len(TOKENS)
    assert rows[0]["money"] == pytest.approx(rows[0]["llm_calls"] * (12 * 100 + 3 * 1000) / 1_000_000)
    assert attempt["uncounted_answers"] == 1
    assert {attempt[name] for name in TOKENS} == {None}
    assert [step["input_tokens"] for step in steps].count(None) == 1
    assert {step["input_tokens"] for step in steps} == {None, 12}


@pytest.mark.long
def test_a_judge_that_is_not_counted_leaves_the_actors_tokens_known(tmp_path: Path) -> None:
    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return known("m", "judge")
        judged = asked.body["model"] == "judge"
        return told(MISSING, '{"score": 5, "explanation": ""}') if judged else told(usage(12, 3, 15), CALL)

    rows, _, _ = swept(tmp_path, play, {"_target_": "grid.planners.best_first.BestFirst"})
    for row in rows:
        assert row["judge_uncounted_answers"] == row["judge_calls"] > 0
        assert (row["judge_input_tokens"], row["judge_output_tokens"], row["money"]) == (None, None, None)
        assert row["input_tokens"] == 12 * row["llm_calls"]


def test_who_answered_stands_in_the_row(tmp_path: Path) -> None:
    first = by(CALL, model="m", system_fingerprint="fp_1", provider="P")
    rows, _, _ = swept(tmp_path, after_load(first, by(CALL, model="other", system_fingerprint="fp_2", provider="P")))
    found = {(row["answered_by"], row["system_fingerprint"], row["provider"]) for row in rows}
    assert found == {("m; other", "fp_1; fp_2", "P"), ("other", "fp_2", "P")}
    rows, _, _ = swept(tmp_path, after_load(completion(CALL)))
    assert {(row["answered_by"], row["system_fingerprint"], row["provider"]) for row in rows} == {(None, None, None)}


def test_who_answered_a_choice_is_told() -> None:
    tiny = TinyModel()

    def play(asked: Asked) -> Reply:
        reply = tiny.play(asked)
        if asked.path == "/v1/completions":
            reply.body.update(model="tiny", system_fingerprint="fp_1")
        return reply

    async def run(made: OpenAIHTTP) -> Choice:
        await made.load()
        return await made.choose(CHOICE_PROBE, seed=0)

    with LocalServer(play) as server:
        found = asyncio.run(run(engine(server.url, model="tiny", exact_choice=True)))
    assert found.sources == {Source("tiny", "fp_1")}


def test_a_price_takes_no_more_from_the_cache_than_was_read() -> None:
    assert Price(**PRICE).of(Usage(input_tokens=12, cached_input_tokens=2495)) == 12 * 10 / 1_000_000
    free, uncounted = {ACTOR: Price(input=0, output=0)}, Usage(uncounted_answers=1)
    assert money(free, {ACTOR: uncounted + Usage(llm_calls=1)}) == 0.0, "free, whatever it is"
    assert money(free, {ACTOR: uncounted}) is None, "what an agent asked elsewhere has another price"
    assert at_least({ACTOR: Price(**PRICE)}, {ACTOR: Usage(output_tokens=1, uncounted_answers=1)}) == 0.001


@pytest.mark.parametrize(
    ("tokens", "dollars", "price", "key"),
    [
        (1000, {}, PRICE, "budget.tokens"),
        (None, {"money": 5.0}, PRICE, "budget.money"),
        (None, {"cell_money": 5.0}, PRICE, "budget.cell_money"),
        (None, {"money": 5.0}, {"input": 0.0, "output": 0.0}, None),
        (None, {}, PRICE, None),
    ],
)
def test_budgets_that_cannot_hold_are_refused(
    tmp_path: Path, tokens: int | None, dollars: dict[str, float], price: dict[str, float], key: str | None
) -> None:
    http = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    (setting,) = check_sweep([job(tmp_path, model=http | {"price": price})]).plan.settings
    (key_of,) = map(model_key, models(setting.config).values())
    expect_counts([setting], [], tokens, dollars)
    if key is None:
        expect_counts([setting], [key_of], tokens, dollars)
        return
    with pytest.raises(ConfigError, match="does not report tokens") as caught:
        expect_counts([setting], [key_of], tokens, dollars)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("said", "counts"), [(MISSING, False), (usage(0, 0, 0), False), (usage(12, 3, 15), True)])
def test_loading_finds_a_server_that_tells_no_tokens(said: Any, counts: bool) -> None:
    with LocalServer(lambda asked: known("m") if asked.path == "/v1/models" else told(said)) as server:
        made = engine(server.url)
        asyncio.run(made.load())
    assert made.counts == counts

"""Exact choices over HTTP, against brute force on a server with a known distribution."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Choice, ChoiceAnswer, Prompt, Section, option_numbers
from grid.core.errors import ConfigError, ContextError
from grid.engines.http.chat import messages, plain
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, TinyModel, refusal
from tests.support.openai_engine import engine, failure, prompt


def choice_prompt(count: int, *lines: str) -> Prompt:
    return prompt(*lines, answer=ChoiceAnswer(tuple(f"option {index}" for index in range(count))))


def brute_force(
    model: TinyModel, asked: Prompt, count: int, prefix: str, form: str = "natural"
) -> tuple[np.ndarray, float]:
    """Every label by itself, token after token behind the prompt, and the mass that no label gets."""
    tokens, encode = model.tokenizer, model.tokenizer.encode
    front = encode(tokens.decode(tokens.chat(messages(asked, form == "padded"))) + prefix)
    scores = []
    for number in option_numbers(count, form == "padded"):
        label, score = encode(number), 1.0
        for place, token in enumerate(label):
            score *= np.exp(model.logs([*front, *label[:place]])[token])
        if form == "terminated" or (form == "natural" and len(number) < (2 if count <= 100 else 3)):
            score *= 1 - np.exp(model.logs([*front, *label])[tokens.digits]).sum()
        scores.append(score)
    return np.array(scores) / sum(scores), 1 - sum(scores)


@pytest.mark.long
@pytest.mark.parametrize("form", ["natural", "terminated", "padded"])
def test_every_form_of_labels_is_exact(form: str) -> None:
    model, counts = TinyModel(), (2, 8, 10, 11, 61, 100, 101, 120)
    options = [tuple(f"option {index}" for index in range(count)) for count in counts]
    asked = [Prompt((Section("tools", ("Tools:",), some),), ChoiceAnswer(some)) for some in options]

    async def run(made: OpenAIHTTP) -> Any:
        await made.load()
        return [await made.choose(one, seed=0) for one in asked]

    model.context = 2000
    with LocalServer(model.play) as server:
        found = asyncio.run(run(engine(server.url, model="tiny", exact_choice=True, mass_bound=0.0, labels=form)))
    for count, one, choice in zip(counts, asked, found, strict=True):
        expected, unassigned = brute_force(model, one, count, "", form)
        assert np.abs(np.array(choice.probabilities) - expected).sum() < 1e-9
        assert choice.unassigned == pytest.approx(unassigned)


def chosen(model: TinyModel, asked: Prompt, prefix: str) -> tuple[Choice, list[dict[str, Any]]]:
    """What the engine chooses with nothing left out, and the requests that it took."""

    async def run(made: OpenAIHTTP) -> tuple[Choice, list[dict[str, Any]]]:
        await made.load()
        before = len(server.bodies("/v1/completions"))
        return await made.choose(asked, seed=0), server.bodies("/v1/completions")[before:]

    with LocalServer(model.play) as server:
        made = engine(server.url, model="tiny", exact_choice=True, mass_bound=0.0, answer_prefix=prefix)
        return asyncio.run(run(made))


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["", "final: "])
def test_choices_by_name_are_exact(prefix: str) -> None:
    model, called = TinyModel(), ("find_12", "find_123", "find", "send", "<|end|>")
    asked = prompt("a", answer=ChoiceAnswer(called, called))
    encode = model.tokenizer.encode
    front = encode(model.tokenizer.decode(model.tokenizer.chat(messages(asked))) + prefix)
    labels = [tuple(encode(f'{{"action": {{"tool": "{plain(name)}"')) for name in called]
    following: dict[tuple[int, ...], set[int]] = {}
    for label in labels:
        for place, token in enumerate(label):
            following.setdefault(label[:place], set()).add(token)

    def score(label: tuple[int, ...]) -> float:
        rows = [np.exp(model.logs([*front, *label[:place]])) for place in range(len(label))]
        ways = [sorted(following[label[:place]]) for place in range(len(label))]
        shares = [row[token] / row[way].sum() for token, row, way in zip(label, rows, ways, strict=True)]
        return float(np.prod(shares))

    found, bodies = chosen(model, asked, prefix)
    assert found.probabilities == pytest.approx([score(label) for label in labels])
    assert sum(found.probabilities) == pytest.approx(1)
    assert found.usage.forward_passes == len(bodies) == 3, "at the first letter, behind find and behind find_"
    assert found.unassigned is not None
    assert 0 < found.unassigned < 1


@pytest.mark.parametrize(
    ("count", "nodes", "passes", "prefix"),
    [(2, 3, 5, ""), (60, 11, 21, ""), (61, 11, 21, ""), (100, 11, 21, ""), (100, 11, 21, "final: ")],
)
def test_choices_are_exact(count: int, nodes: int, passes: int, prefix: str) -> None:
    model, asked = TinyModel(), choice_prompt(count, "a", "b")

    found, bodies = chosen(model, asked, prefix)
    expected, unassigned = brute_force(model, asked, count, prefix)
    assert np.abs(np.array(found.probabilities) - expected).sum() < 1e-9
    assert found.unassigned == pytest.approx(unassigned)
    assert found.error_bound == 0
    assert len({tuple(body["prompt"]) for body in bodies}) == nodes
    # Behind a number of one digit all 162 digit tokens are wanted, which are two requests.
    assert found.usage.forward_passes == len(bodies) == passes
    assert found.usage.input_tokens == sum(len(body["prompt"]) for body in bodies)
    assert (found.usage.llm_calls, found.usage.output_tokens, found.usage.resent_requests) == (0, 0, 0)


@pytest.mark.long
def test_the_printed_form_and_the_bound_reach_the_search() -> None:
    model, asked = TinyModel(), choice_prompt(100)

    async def run(made: OpenAIHTTP) -> Any:
        await made.load()
        return await made.choose(asked, seed=0)

    with LocalServer(model.play) as server:
        as_printed = engine(server.url, model="tiny", exact_choice=True, printed_form=True)
        printed = asyncio.run(run(as_printed))
        few = failure(lambda: as_printed.choose(choice_prompt(10), seed=0))
        bounded = asyncio.run(run(engine(server.url, model="tiny", exact_choice=True, mass_bound=0.1)))
    assert set(printed.probabilities[:10]) == {0.0}
    assert isinstance(few, ConfigError)
    assert (few.key, few.value) == ("model.printed_form", True)
    expected, _ = brute_force(model, asked, 100, "")
    assert expected[:10].min() > 1e-6
    assert 0 < bounded.error_bound < 1
    assert np.abs(np.array(bounded.probabilities) - expected).sum() / 2 <= bounded.error_bound + 1e-12


@pytest.mark.long
@pytest.mark.parametrize(("tells", "says"), [(True, "tokens and 2 to answer exceed"), (False, "HTTP 400: This")])
def test_a_choice_that_does_not_fit_the_context(tells: bool, says: str) -> None:
    model = TinyModel()

    def play(asked: Asked) -> Reply:
        reply = model.play(asked)
        if asked.path == "/tokenize" and not tells:
            del reply.body["max_model_len"]
        return reply

    async def run(made: OpenAIHTTP, words: int) -> None:
        await made.load()
        await made.choose(choice_prompt(5, "x" * words), seed=0)

    with LocalServer(play) as server:
        fits = model.context - len(model.tokenizer.chat(messages(choice_prompt(5, ""))))
        error = failure(lambda: run(engine(server.url, model="tiny", exact_choice=True), fits - 1))
        asyncio.run(run(engine(server.url, model="tiny", exact_choice=True), fits - 2))  # a number and its end
    assert isinstance(error, ContextError)
    assert says in str(error)


def without_ids(model: TinyModel, asked: Asked) -> Reply:
    """Ignores `logprob_token_ids`, as older servers do."""
    if asked.path == "/v1/completions":
        asked.body.pop("logprob_token_ids")
    return model.play(asked)


def without_logprobs(model: TinyModel, asked: Asked) -> Reply:
    reply = model.play(asked)
    if asked.path == "/v1/completions":
        reply.body["choices"][0]["logprobs"] = None
    return reply


def without_completions(model: TinyModel, asked: Asked) -> Reply:
    return refusal(404, "Not Found") if asked.path == "/v1/completions" else model.play(asked)


def without_tokenizer(model: TinyModel, asked: Asked) -> Reply:
    return refusal(404, "Not Found") if "tokenize" in asked.path else model.play(asked)


def with_texts_for_tokens(model: TinyModel, asked: Asked) -> Reply:
    """Reads the prompt's ids as text, and so counts other tokens than were sent."""
    if asked.path == "/v1/completions":
        asked.body["prompt"] = model.tokenizer.encode(str(asked.body["prompt"]))
    return model.play(asked)


def with_an_opening_of_its_own(model: TinyModel, asked: Asked) -> Reply:
    """Adds a token to every text, as tokenizers do that begin texts with a space."""
    reply = model.play(asked)
    if asked.path == "/tokenize" and "prompt" in asked.body:
        reply.body["tokens"].insert(0, 50)
    return reply


def with_numbers_joined(model: TinyModel, asked: Asked) -> Reply:
    """Makes a number part of the token in front of it."""
    reply = model.play(asked)
    if asked.path == "/tokenize" and str(asked.body.get("prompt", ""))[-1:].isdigit():
        reply.body["tokens"] = [*reply.body["tokens"][:-2], 99]
    return reply


def with_braces_joined(model: TinyModel, asked: Asked) -> Reply:
    """Makes the brace that begins a call part of the token in front of it."""
    reply = model.play(asked)
    place = str(asked.body.get("prompt", "")).find('{"action') if asked.path == "/tokenize" else -1
    if place >= 0:
        front = len(model.tokenizer.encode(asked.body["prompt"][:place]))
        reply.body["tokens"][front - 1 : front + 1] = [99]
    return reply


def with_a_short_context(model: TinyModel, asked: Asked) -> Reply:
    reply = model.play(asked)
    if asked.path == "/tokenize":
        reply.body["max_model_len"] = 20
    return reply


def with_no_mass_for_numbers(model: TinyModel, asked: Asked) -> Reply:
    reply = model.play(asked)
    if asked.path == "/v1/completions":
        (logs,) = reply.body["choices"][0]["logprobs"]["top_logprobs"]
        logs.update(dict.fromkeys(logs, -1e9))
    return reply


@pytest.mark.long
@pytest.mark.parametrize(
    ("lacking", "says"),
    [
        (with_a_short_context, "to answer exceed the context of 20"),
        (with_no_mass_for_numbers, "the model gives no option any probability"),
        (without_ids, "of 12 tokens that were given by their ids"),
        (without_logprobs, "12 of 12 tokens that were given by their ids"),
        (without_completions, "/v1/completions: HTTP 404"),
        (without_tokenizer, "/tokenize: HTTP 404"),
        (with_texts_for_tokens, "tokens were sent, but the server counts"),
        (with_an_opening_of_its_own, "turns the text of a chat into other tokens than the chat's own"),
        (with_braces_joined, "gives the name get_time no tokens of its own at the start of an answer"),
        (with_numbers_joined, "gives the number 0 no tokens of its own at the start of an answer"),
    ],
)
def test_servers_that_cannot_choose_are_refused_before_the_sweep(
    lacking: Callable[[TinyModel, Asked], Reply], says: str
) -> None:
    model = TinyModel()
    with LocalServer(lambda asked: lacking(model, asked)) as server:
        error = failure(lambda: engine(server.url, model="tiny", exact_choice=True).load())
        asyncio.run(engine(server.url, model="tiny").load())
    assert isinstance(error, ConfigError)
    assert (error.key, error.value) == ("model.exact_choice", True)
    assert says in str(error)


def test_a_vocabulary_whose_end_the_server_guards() -> None:
    model = TinyModel()

    def play(asked: Asked) -> Reply:
        if asked.path == "/detokenize" and max(asked.body["tokens"]) >= len(model.tokenizer.texts):
            return refusal(400, "Token id is out of vocabulary")
        return model.play(asked)

    async def run(made: OpenAIHTTP) -> Any:
        await made.load()
        return await made.choose(choice_prompt(100), seed=0)

    with LocalServer(play) as server:
        found = asyncio.run(run(engine(server.url, model="tiny", exact_choice=True, mass_bound=0.0)))
    expected, _ = brute_force(model, choice_prompt(100), 100, "")
    assert np.abs(np.array(found.probabilities) - expected).sum() < 1e-9


def test_as_printed_a_cell_with_few_options_is_refused_by_the_key_and_its_success_is_unknown() -> None:
    model = TinyModel(context=4000)
    with LocalServer(model.play) as server:
        keys = {"base_url": server.url, "model": "tiny", "exact_choice": True, "printed_form": True}
        labels: dict[str, Any] = {"dataset": "slate", "planner": "egb_logits", "model": "openai_http"}
        setting = setting_of({"limit": 1}, {"max_candidates": 6}, keys, **labels)
        built = build(setting, BudgetConfig())

        async def run() -> list[dict[str, Any]]:
            await built.engine.load()  # type: ignore[attr-defined]
            chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
            return (await run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]

        (row,) = asyncio.run(run())
    assert (row["success"], row["error_kind"]) == (None, "infrastructure")
    assert "model.printed_form=True: false for ten options or fewer" in row["error_message"]

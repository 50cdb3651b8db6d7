"""The role `user`: a model that plays the customer, over a local HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from grid.core.engine import OF_WORLD, USER
from grid.roles.customer import Customer, read_message
from grid.roles.simulation import Simulating
from grid.text.objects import UnreadableError
from grid.worlds.simulated import Said
from tests.support.http_server import LocalServer, Reply, completion, refusal
from tests.support.openai_engine import CHAT, KEY, KEY_ENV, after_load, engine

SCENARIO = ("You are a customer.", "Your order is W-7.")
GREETED = (Said(False, "Hi! How can I help?"),)
TOO_LONG = refusal(400, "This model's maximum context length is 90 tokens.", code="context_length_exceeded")


def asked(
    monkeypatch: pytest.MonkeyPatch, texts: Sequence[str | Reply], *talks: Sequence[Said]
) -> tuple[list[str | None], Customer, list[str]]:
    """What a user that says these texts, one a request, replies to conversations that go side by side."""
    monkeypatch.setenv(KEY_ENV, KEY)

    async def run(url: str) -> tuple[list[str | None], Customer]:
        client = engine(url)
        await client.load()
        customer = Customer(client, Simulating(), 7)
        return list(await asyncio.gather(*(customer.reply(SCENARIO, said) for said in talks))), customer

    replies = [completion(text) if isinstance(text, str) else text for text in texts]
    with LocalServer(after_load(*replies)) as server:
        found, customer = asyncio.run(run(server.url))
        bodies = [str(one.body) for one in server.asked if one.path == CHAT]
    return found, customer, bodies[1:]  # behind the probe


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("  Hello. ###STOP###\n", "Hello. ###STOP###"),
        ("Customer: Hello.", "Hello."),
        ("You: Hello.\nAgent: Which order?\nUser: W-7", "Hello."),
        ("I told the agent: no.", "I told the agent: no."),
        ("x" * 20_001, "x" * 20_000),
    ],
)
def test_only_the_customers_own_message_is_read(answer: str, text: str) -> None:
    assert read_message(answer) == text


@pytest.mark.parametrize("answer", ["", " \n", "User:", "Agent: How can I help?"])
def test_an_answer_without_a_message_is_unreadable(answer: str) -> None:
    with pytest.raises(UnreadableError):
        read_message(answer)


@pytest.mark.parametrize("opening", [GREETED, ()])
def test_both_message_orders(monkeypatch: pytest.MonkeyPatch, opening: tuple[Said, ...]) -> None:
    found, customer, (body,) = asked(monkeypatch, ["Where is W-7?"], opening)
    assert found == ["Where is W-7?"]
    assert ("Agent: Hi! How can I help?" in body) == bool(opening)
    assert all(line in body for line in SCENARIO)
    assert customer.requests.spent[USER].llm_calls == 1
    assert USER in OF_WORLD


def test_the_same_words_get_the_same_reply_and_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, customer, bodies = asked(monkeypatch, ["one", "two"], GREETED, GREETED, GREETED)
    assert found == ["one"] * 3
    assert len(bodies) == len(customer.requests.messages) == 1


def test_an_empty_message_is_asked_for_again_and_then_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found, customer, bodies = asked(monkeypatch, ["User:", "Well."], GREETED)
    assert (found, customer.failures, len(bodies)) == (["Well."], 0, 2)
    found, customer, bodies = asked(monkeypatch, ["User:"], GREETED)
    assert (found, customer.failures, len(bodies)) == ([None], 1, 4)


def test_a_conversation_that_is_too_long_for_the_model_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found, customer, bodies = asked(monkeypatch, [TOO_LONG], GREETED)
    assert (found, customer.failures, len(bodies)) == ([None], 1, 1)


def test_of_both_sides_lines_the_customers_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = asked(monkeypatch, ["Hi.\nAssistant: Yes?\nUser: No."], GREETED)
    assert found == ["Hi."]

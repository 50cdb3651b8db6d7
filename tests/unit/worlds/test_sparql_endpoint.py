"""A graph behind an endpoint, on a real server on loopback that answers as a test says."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyoxigraph as ox
import pytest

from grid.core.errors import ConfigError, EngineError
from grid.core.types import ToolCall
from grid.worlds.sparql import world as endpoint
from grid.worlds.sparql.graph import Limits
from grid.worlds.sparql.queries import NS, XSD, Entity, SparqlError, Value, read
from grid.worlds.sparql.world import EndpointGraph, SparqlWorld
from tests.support.http_server import Asked, LocalServer, Play, Reply
from tests.support.sparql_graphs import SHARD, quad, random_expression, random_facts
from tests.support.sparql_reference import Facts, Text, denotes
from tests.support.sparql_world import FACTS, NAMES

pytest.importorskip("httpx")
FILMS = read("film.film")
JSON = {"Content-Type": "application/sparql-results+json"}


def serving(facts: Facts) -> Play:
    """A play that answers queries from facts, as Virtuoso would: dates have the offset -08:00 there."""
    store = ox.Store()
    for subject, relation, thing in facts:
        if isinstance(thing, Text) and thing.kind in ("date", "gYear", "gYearMonth"):
            thing = Text(f"{thing.text}-08:00", thing.kind)
        store.add(quad((subject, relation, thing), ox.NamedNode(SHARD)))

    def play(asked: Asked) -> Reply:
        found = store.query(asked.body["query"], default_graph=ox.NamedNode(asked.body["default-graph-uri"]))
        assert isinstance(found, ox.QuerySolutions)
        return Reply(body=found.serialize(format=ox.QueryResultsFormat.JSON), headers=JSON)

    return play


@contextmanager
def asking(play: Play, limits: Limits | None = None, tries: int = 2) -> Iterator[tuple[EndpointGraph, LocalServer]]:
    with LocalServer(play) as server:
        graph = EndpointGraph(server.url, SHARD, limits=limits, tries=tries)
        graph.sleep = lambda seconds: None
        yield graph, server


def rows(*bindings: dict[str, Any]) -> Reply:
    return Reply(body={"head": {"vars": ["x"]}, "results": {"bindings": list(bindings)}}, headers=JSON)


def test_it_denotes_what_plain_sets_say() -> None:
    rng = random.Random(0)
    facts = random_facts(rng)
    with asking(serving(facts)) as (graph, server):
        for _ in range(150):
            expression = random_expression(rng, rng.randint(1, 3))
            wanted = {
                Entity(t) if isinstance(t, str) else Value(t.text, XSD + t.kind) for t in denotes(facts, expression)
            }
            assert set(graph.denotes(expression)) == wanted
        assert all(body["timeout"] == "20000" for body in server.bodies("/v1"))
        assert all(body["query"].startswith("SELECT ") for body in server.bodies("/v1"))


def test_a_years_offset_is_no_month() -> None:
    since: Facts = frozenset({("m.a", "a.b.r0", "m.b"), ("m.b", "a.b.from", Text("2015", "gYear"))})
    with asking(serving(since)) as (graph, _):
        assert graph.denotes(read("(TC (JOIN (R a.b.r0) m.a) a.b.from NOW)")) == (Entity("m.b"),)


def test_what_it_says_of_its_schema() -> None:
    declared: Facts = FACTS | {
        ("film.film", "type.object.type", "type.type"),
        ("film.film.genre", "type.object.type", "type.property"),
        ("film.film.runtime", "type.object.type", "type.property"),
        ("film.film.runtime", "type.property.expected_type", "type.float"),
    }
    with asking(serving(declared)) as (graph, _):
        assert graph.vocabularies["relation"].names == ("film.film.genre", "film.film.runtime")
        assert graph.vocabularies["property"].names == ("film.film.runtime",)
        assert graph.vocabularies["input"].names == ("film.film",)
        assert graph.names([*NAMES, "m.0h"]) == NAMES
        assert graph.named("Twin") == ("m.03", "m.04")
        assert graph.relations(["m.0g"], "forward") == ("film.film.genre",)
        assert (graph.has("m.01"), graph.has("m.zz")) == (True, False)


def test_a_world_over_it_lets_others_go_on_meanwhile() -> None:
    inner = serving(FACTS)

    def play(asked: Asked) -> Reply:
        time.sleep(0.05)
        return inner(asked)

    with asking(play) as (graph, server):
        world = SparqlWorld(graph, ("m.0d",))

        async def several() -> list[bool]:
            call = ToolCall("extract_entity", {"input_value": "m.0d"})
            found = await asyncio.gather(*(world.apply(world.start(), call) for _ in range(3)))
            return [world.resolved(state) for state, _ in found]

        assert asyncio.run(several()) == [True] * 3
        assert server.most_at_once == 3


def test_what_it_has_too_much_of_is_a_result() -> None:
    row = f'{{"x": {{"type": "uri", "value": "{NS}m.0123456"}}}}, '.encode()
    million = Reply(body=b'{"head": {"vars": ["x"]}, "results": {"bindings": [' + row * 1_000_000, headers=JSON)
    with asking(lambda _: million) as (graph, server), pytest.raises(SparqlError, match="more than 67,108,864 bytes"):
        graph.denotes(FILMS)
    assert len(server.asked) == 1, "it would say the same again"
    many = rows(*[{"x": {"type": "uri", "value": f"{NS}m.{number:x}"}} for number in range(6)])
    with asking(lambda _: many, Limits(rows=5)) as (graph, server):
        with pytest.raises(SparqlError, match="more than 5 results"):
            graph.denotes(FILMS)
        assert server.bodies("/v1")[0]["query"].endswith("LIMIT 6"), "no more is asked for"
    cut = Reply(body=many.body, headers=JSON | {"X-SPARQL-MaxRows": "6"})
    with asking(lambda _: cut) as (graph, _), pytest.raises(SparqlError, match="sends at most 6 rows"):
        graph.denotes(FILMS)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, many := {"head": {"vars": ["x"]}, "results": {"bindings": []}}, JSON | {"X-SQL-State": "S1TAT"}),
        Reply(500, b"Virtuoso S1T00 Error SR171: Transaction timed out"),
        Reply(500, b"Virtuoso 42000 Error The estimated execution time 7000 (sec) exceeds the limit of 400 (sec)."),
    ],
)
def test_what_takes_the_server_too_long_is_a_result(reply: Reply) -> None:
    with asking(lambda _: reply) as (graph, server), pytest.raises(SparqlError, match="more than 20 seconds"):
        graph.denotes(FILMS)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            Reply(200, b"<html><h1>Welcome</h1></html>", {"Content-Type": "text/html"}),
            "(text/html) is not JSON: <html>",
        ),
        (Reply(200, b'{"head": {"vars": ["x"', JSON), "is not JSON"),
        (Reply(200, b"[" * 100_000, JSON), "is not JSON"),
        (Reply(200, b'{"x": NaN}', JSON), "is not JSON"),
        (Reply(500, b"oops"), "HTTP 500: oops (tried 2 times)"),
        (Reply(524, b"oops"), "HTTP 524: oops (tried 2 times)"),
        (Reply(503, b"", {"Retry-After": "9999"}), "the server asks to wait 9,999 s"),
    ],
)
def test_what_the_server_does_wrong_is_tried_again_and_is_the_infrastructures(reply: Reply, message: str) -> None:
    with asking(lambda _: reply) as (graph, server):
        with pytest.raises(EngineError) as caught:
            graph.denotes(FILMS)
        assert message in str(caught.value)
        assert str(caught.value).startswith(server.url)
        assert len(server.asked) == (1 if "wait" in message else 2)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(200, {"boolean": True}, JSON), "the answer does not have the form of"),
        (
            Reply(200, {"head": {"vars": ["x"]}, "results": {"bindings": [1]}}, JSON),
            "the answer does not have the form of",
        ),
        (
            Reply(200, {"head": {"vars": [1]}, "results": {"bindings": []}}, JSON),
            "the answer does not have the form of",
        ),
        (rows({"x": {"type": "bnode", "value": "b0"}}), "neither an IRI nor a literal"),
        (rows({"x": "m.01"}), "neither an IRI nor a literal"),
        (Reply(404, b"no such page"), "HTTP 404: no such page"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:9/elsewhere"}), "HTTP 302"),
        (Reply(401, b"who are you"), "HTTP 401"),
    ],
)
def test_what_will_not_pass_is_asked_once(reply: Reply, message: str) -> None:
    with asking(lambda _: reply) as (graph, server):
        with pytest.raises(EngineError, match=message):
            graph.denotes(FILMS)
        assert len(server.asked) == 1


def test_a_query_that_is_not_taken_is_a_result() -> None:
    refused = Reply(400, b"Virtuoso 37000 Error SP030: SPARQL compiler")
    with asking(lambda _: refused) as (graph, _), pytest.raises(SparqlError, match="does not take the query: Virtuoso"):
        graph.denotes(FILMS)


def test_what_passes_is_found_at_the_second_try() -> None:
    replies, right = [Reply(200, b"<html>"), Reply(503)], serving(FACTS)

    def play(asked: Asked) -> Reply:
        return replies.pop() if replies else right(asked)

    with asking(play, tries=3) as (graph, _):
        assert len(graph.denotes(FILMS)) == 4


def test_a_server_that_hangs_or_is_not_there_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_GRACE", 0.1)
    with LocalServer(lambda asked: server.hang(asked)) as server:
        graph = EndpointGraph(server.url, limits=Limits(seconds=0.1), tries=1)
        with pytest.raises(EngineError, match=r"no answer within 0.2 s"):
            graph.denotes(FILMS)
    with pytest.raises(EngineError, match="ConnectError"):
        graph.denotes(FILMS)


def test_without_httpx_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"pip install 'agent-grid\[openai\]'"):
        EndpointGraph("http://127.0.0.1:1/sparql").denotes(FILMS)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@host/sparql",
        "ftp://host/sparql",
        "host",
        "http://host/sparql?key=secret",
        "http://host:99999/",
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        EndpointGraph(url)
    assert "dataset.endpoint" in str(caught.value)
    assert "secret" not in str(caught.value)

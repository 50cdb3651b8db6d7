"""What a graph answers, held against an evaluator over plain sets."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.worlds.sparql import programs
from grid.worlds.sparql.graph import Limits, Node, StoreGraph
from grid.worlds.sparql.queries import (
    XSD,
    Class,
    Compare,
    Entity,
    Expression,
    ExpressionError,
    Join,
    SparqlError,
    Value,
    query,
    read,
    walk,
    written,
)
from grid.worlds.sparql.tools import BACKWARD, FORWARD
from tests.support.sparql_graphs import LINKS, SHARD, graph_of, quad, random_expression, random_facts
from tests.support.sparql_reference import Facts, Text, Thing, denotes
from tests.support.sparql_world import FACTS, NAMES, film_graph

TYPE = "type.object.type"


def node(thing: Thing) -> Node:
    return Entity(thing) if isinstance(thing, str) else Value(thing.text, XSD + thing.kind)


def compare(facts: Facts, graph: StoreGraph, expression: Expression) -> set[Node]:
    """What all three say that an expression denotes."""
    wanted = {node(thing) for thing in denotes(facts, expression)}
    found = graph.denotes(expression)
    assert set(found) == wanted, written(expression)
    assert len(found) == len(wanted)
    assert {row[0] for row in graph.rows(query(expression))} == wanted, "one query says the same"
    return wanted


@pytest.mark.parametrize("seed", range(30))
def test_random_expressions_denote_what_plain_sets_say(seed: int) -> None:
    rng = random.Random(seed)
    facts = random_facts(rng)
    graph = graph_of(facts)
    found = 0
    for _ in range(20):
        found += bool(compare(facts, graph, random_expression(rng, rng.randint(1, 4))))
    assert found, "not all of them denote nothing"


@given(st.randoms(use_true_random=False), st.integers(0, 4))
def test_what_is_written_is_read(rng: random.Random, depth: int) -> None:
    expression = random_expression(rng, depth)
    assert read(written(expression)) == expression
    assert list(walk(expression))[-1] is expression


def test_an_answer_is_nothing_that_was_named_or_passed() -> None:
    facts: Facts = frozenset({("m.a", "a.b.r0", "m.b"), ("m.b", "a.b.r0", "m.b"), ("m.b", "a.b.r0", "m.c")})
    graph = graph_of(facts)
    assert graph.denotes(read("(JOIN (R a.b.r0) m.a)")) == (Entity("m.b"),)
    assert graph.denotes(read("(JOIN (R a.b.r0) m.b)")) == (Entity("m.c"),), "not m.b, which is named"
    assert graph.denotes(read("(JOIN (R a.b.r0) (JOIN (R a.b.r0) m.a))")) == (Entity("m.c"),), (
        "not m.b, which is passed"
    )
    assert graph.denotes(read("(JOIN a.b.r0 (JOIN a.b.r0 m.c))")) == (Entity("m.a"),)
    assert graph.denotes(Entity("m.zz")) == (Entity("m.zz"),)
    assert graph.denotes(read("(COUNT m.a)")) == (Value("1", f"{XSD}integer"),)


def test_values_of_a_datatype_that_nobody_knows_are_no_obstacle() -> None:
    odd = ox.Literal("x", datatype=ox.NamedNode("urn:odd"))
    other = ox.Literal("y", datatype=ox.NamedNode("urn:odd"))
    store = ox.Store()
    graph = ox.DefaultGraph()
    here = quad(("m.a", "a.b.r0", "m.b"), graph)
    store.extend([ox.Quad(here.subject, here.predicate, value, graph) for value in (odd, other)])
    found = StoreGraph(store).denotes(read("(JOIN (R a.b.r0) (JOIN a.b.r0 (JOIN (R a.b.r0) m.a)))"))
    assert [value.text for value in found if isinstance(value, Value)] == ["x", "y"]


@pytest.mark.parametrize("seed", range(5))
def test_what_the_schema_says_follows_from_the_facts(seed: int) -> None:
    facts = random_facts(random.Random(seed)) | {("m.1", "type.object.name", Text("One", language="en"))}
    graph = graph_of(facts)
    relations = {r for _, r, _ in facts}
    literal = {r for _, r, o in facts if isinstance(o, Text)}
    assert graph.vocabularies["relation"].names == tuple(sorted(relations))
    assert graph.vocabularies["property"].names == tuple(sorted(literal))
    assert graph.vocabularies["input"].names == ("One", *sorted({str(o) for _, r, o in facts if r == TYPE}))
    for ids in (["m.0"], ["m.1", "m.2", "m.zz"], [], [f"m.{n:x}" for n in range(900)]):
        leaving = {(r, isinstance(o, Text)) for s, r, o in facts if s in ids}
        assert graph.relations(ids, BACKWARD) == tuple(sorted({r for r, _ in leaving}))
        assert graph.relations(ids, FORWARD) == tuple(sorted({r for _, r, o in facts if o in ids}))
        assert graph.properties(ids) == tuple(sorted({r for r, is_text in leaving if is_text}))
        classes = {i: tuple(sorted(str(o) for s, r, o in facts if s == i and r == TYPE)) for i in ids}
        assert graph.types(ids) == {identity: found for identity, found in classes.items() if found}
    assert graph.has("m.0")
    assert graph.has("c.d0")
    assert not graph.has("m.ffff"), "it is in another graph of the store"


def test_names_are_english_or_of_no_language() -> None:
    graph = film_graph()
    assert graph.names([*NAMES, "m.0h"]) == NAMES
    assert graph.named("Twin") == ("m.03", "m.04")
    assert graph.named("Ada Holm") == ("m.0d",)
    assert graph.named("Stille Ernte") == ()
    assert graph.named('" . ?s ?p ?o . "') == ()


def test_too_many_results_and_too_much_time_are_errors_with_the_number() -> None:
    films = read("film.film")
    with pytest.raises(SparqlError, match="more than 3 results"):
        film_graph(Limits(rows=3)).denotes(films)
    assert len(film_graph(Limits(rows=4)).denotes(films)) == 4
    with pytest.raises(SparqlError, match="more than 0 seconds"):
        film_graph(Limits(seconds=0)).denotes(films)
    for text in ("(COUNT film.film)", "(ARGMAX film.film film.film.runtime)"):
        with pytest.raises(SparqlError):
            film_graph(Limits(rows=1)).denotes(read(text))


def test_many_values_to_order_by_are_ordered_in_parts() -> None:
    facts: Facts = frozenset(
        fact
        for number in range(2500)
        for fact in ((f"m.{number}", TYPE, "c.d0"), (f"m.{number}", "a.b.n", Text(str(number), "integer")))
    )
    graph = graph_of(facts)
    assert graph.denotes(read("(ARGMAX c.d0 a.b.n)")) == (Entity("m.2499"),)
    assert graph.denotes(read("(ARGMIN c.d0 a.b.n)")) == (Entity("m.0"),)
    members = [entity.id for entity in graph.denotes(read("c.d0")) if isinstance(entity, Entity)]
    assert graph.properties(members) == ("a.b.n",), "a thousand of them are looked at"


def test_a_store_on_disk_is_read_by_several_at_once(tmp_path: Path) -> None:
    source, folder = tmp_path / "films.nq", tmp_path / "store"
    ox.serialize((quad(fact, ox.NamedNode(SHARD)) for fact in FACTS), source, format=ox.RdfFormat.N_QUADS)
    assert programs.on_disk(folder, source).facts == len(FACTS)
    here = StoreGraph(programs.opened(folder), SHARD)
    there = "from grid.worlds.sparql import reading, store; from pathlib import Path; import sys; "
    there += "print(store.StoreGraph(reading.opened(Path(sys.argv[1])), sys.argv[2]).named('Twin'))"
    said = subprocess.run(
        [sys.executable, "-c", there, str(folder), SHARD], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == str(here.named("Twin"))
    assert here.denotes(read("film.film")) == film_graph().denotes(read("film.film"))
    with pytest.raises(RuntimeError, match="read-write"):
        programs.opened(folder).add(quad(("m.a", LINKS[0], "m.b"), ox.NamedNode(SHARD)))


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_no_text_is_more_than_a_text(text: str) -> None:
    """Names, ids, relations, literals and datatypes from anywhere: at most nothing is found."""
    graph = film_graph()
    assert graph.named(text) == () or text in NAMES.values()
    assert not graph.has(f"m.{text}> ?p ?o . ?s ?p <x")
    for hostile in (
        Class(f"film.film> . ?x ?p <{text}"),
        Join(f"film.film.genre> ?y . ?x <{text}", Entity("m.0g")),
        Join("film.film.genre", Entity(f"m.0g> . ?x ?q <{text}")),
        Join("film.film.runtime", Value(f'{text}" . ?x ?q "')),
        Compare("le", "film.film.runtime", Value(text, f"{XSD}integer> || true || <x")),
    ):
        assert graph.denotes(hostile) == ()


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + ")" * 10_000,
        "(COUNT " * 10_000 + "m.a" + ")" * 10_000,
        "x" * 30_000,
        "(JOIN a.b)",
        "(",
        ")",
        "",
        None,
    ],
)
def test_what_is_no_expression_is_refused_in_words(text: object) -> None:
    with pytest.raises(ExpressionError):
        read(text)

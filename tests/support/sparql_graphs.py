"""Random graphs of Freebase's form, and random S-expressions over them."""

from __future__ import annotations

import random

import pyoxigraph as ox

from grid.worlds.sparql.graph import Limits, StoreGraph
from grid.worlds.sparql.queries import (
    NS,
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
)
from tests.support.sparql_reference import Facts, Text, Thing

SHARD = "urn:shard:3"
LINKS = ("a.b.r0", "a.b.r1", "a.b.r2")
NUMBERS, DATES, YEARS, CODES, TEXTS = "a.b.number", "a.b.date", "a.b.year", "a.b.code", "a.b.text"
SINCE = ("a.b.from", "c.d.from_date")
CLASSES = ("c.d0", "c.d1", "c.d2")
_ENDS = {"a.b.from": "a.b.to", "c.d.from_date": "c.d.to_date"}


def random_facts(rng: random.Random, entities: int = 9) -> Facts:
    """A few entities, densely linked, most of them with values of several datatypes."""
    ids = [f"m.{number:x}" for number in range(entities)]
    facts: set[tuple[str, str, Thing]] = set()
    for entity in ids:
        for relation in LINKS:
            facts |= {(entity, relation, other) for other in rng.sample(ids, rng.choice([0, 1, 2, 2, 3]))}
        facts |= {(entity, "type.object.type", cls) for cls in rng.sample(CLASSES, rng.choice([1, 2, 2]))}
        for relation in (NUMBERS, DATES, YEARS, CODES, TEXTS, *SINCE, *_ENDS.values()):
            for _ in range(rng.choice([0, 1, 1, 2])):
                facts.add((entity, relation, random_text(rng, relation)))
    return frozenset(facts)


def random_text(rng: random.Random, relation: str) -> Text:
    """A value of a relation: of few, so that some tie."""
    year = rng.randint(2012, 2018)
    if relation == NUMBERS:
        kind = rng.choice(["integer", "float", "decimal", "double"])
        return Text(str(rng.randint(-1, 3)) if kind == "integer" else rng.choice(["0.5", "1", "2", "-1", "3.25"]), kind)
    if relation == DATES:
        return Text(f"{year}-0{rng.randint(7, 9)}-{rng.choice([9, 10, 11]):02}", "date")
    if relation == YEARS:
        return Text(str(year), "gYear")
    if relation == CODES:
        return Text(rng.choice(['a"b', "a\\b", "x", "y\n", "é", "'", "?x"]))
    if relation == TEXTS:
        return Text(rng.choice(["one", "two"]), language=rng.choice(["", "en", "en-gb", "de"]))
    kind = rng.choice(["gYear", "gYearMonth", "date"])
    return Text({"gYear": f"{year}", "gYearMonth": f"{year}-08"}.get(kind, f"{year}-08-{rng.choice([9, 11]):02}"), kind)


def random_expression(rng: random.Random, depth: int) -> Expression:
    """One of all seven functions, nested so deep at most; most denote something."""
    if depth == 0:
        return Entity(f"m.{rng.randrange(10):x}") if rng.random() < 0.5 else Class(rng.choice([*CLASSES, "c.none"]))
    kind = rng.choice(["join"] * 5 + ["value"] + ["and"] * 3 + ["arg"] * 3 + ["compare", "time", "count"])
    if kind == "join":
        reverse = rng.random() < 0.5
        relation = rng.choice([*LINKS, *LINKS, NUMBERS, TEXTS, CODES] if reverse else [*LINKS, *LINKS, CODES, NUMBERS])
        return Join(relation, random_expression(rng, depth - 1), reverse)
    if kind == "value":
        relation = rng.choice([NUMBERS, DATES, YEARS, CODES])
        return Join(relation, _value(rng, relation))
    if kind == "and":
        return And(random_expression(rng, depth - 1), random_expression(rng, rng.randrange(depth)))
    if kind == "arg":
        relation = rng.choice([NUMBERS, NUMBERS, DATES, YEARS, CODES, "a.b.none", LINKS[0]])
        return Arg(rng.choice(["ARGMAX", "ARGMIN"]), random_expression(rng, depth - 1), relation)
    if kind == "compare":
        relation = rng.choice([NUMBERS, DATES, YEARS])
        value = _value(rng, rng.choice([relation, relation, relation, DATES]))
        return Compare(rng.choice(["lt", "le", "gt", "ge"]), relation, value)
    if kind == "time":
        time = rng.choice(["NOW", "2013", "2015", "2016"])
        return TimeConstraint(random_expression(rng, depth - 1), rng.choice([*SINCE, YEARS]), time)
    return Count(random_expression(rng, depth - 1))


def graph_of(facts: Facts, name: str | None = SHARD, limits: Limits | None = None) -> StoreGraph:
    """The graph of some facts, in a store with another graph that must not be seen."""
    store = ox.Store()
    graph = ox.NamedNode(name) if name else ox.DefaultGraph()
    store.extend(quad(fact, graph) for fact in facts)
    others = [("m.0", relation, "m.ffff") for relation in LINKS] + [("m.ffff", "type.object.type", "c.d0")]
    store.extend(quad(fact, ox.NamedNode("urn:shard:other")) for fact in others)
    return StoreGraph(store, name, limits)


def quad(fact: tuple[str, str, Thing], graph: ox.NamedNode | ox.DefaultGraph) -> ox.Quad:
    subject, relation, thing = fact
    return ox.Quad(ox.NamedNode(NS + subject), ox.NamedNode(NS + relation), _term(thing), graph)


def _term(thing: Thing) -> ox.NamedNode | ox.Literal:
    if isinstance(thing, str):
        return ox.NamedNode(NS + thing)
    if thing.language:
        return ox.Literal(thing.text, language=thing.language)
    return ox.Literal(thing.text, datatype=ox.NamedNode(XSD + thing.kind))


def _value(rng: random.Random, relation: str) -> Value:
    text = random_text(rng, relation)
    return Value(text.text, XSD + text.kind)

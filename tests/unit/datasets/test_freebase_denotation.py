"""What the maker of witness graphs reads of facts: equal to an independent evaluator, and what it need not look at."""

from __future__ import annotations

import random
from collections.abc import Iterator

from grid.datasets.freebase.facts import Fact, Facts, Node, Watch, compares, denoted, is_open
from grid.datasets.freebase.shards import name_of, parts_of
from grid.worlds.sparql.queries import (
    SIGNS,
    TYPE,
    XSD,
    Arg,
    Class,
    Compare,
    Count,
    Expression,
    Join,
    Value,
    read,
    walk,
)
from tests.support import sparql_reference
from tests.support.sparql_graphs import CLASSES, DATES, LINKS, NUMBERS, SINCE, random_expression, random_facts

UNTIL = ("a.b.to", "c.d.to_date")
READ = {TYPE, *LINKS, NUMBERS, DATES, *SINCE, *UNTIL}
"""What of the random graphs has the kinds of literals that a witness graph has."""
KINDS = ("integer", "float", "double", "decimal", "date", "gYear")


def in_memory(facts: sparql_reference.Facts) -> Facts:
    found = Facts({})
    for subject, relation, thing in sorted(facts, key=str):
        if relation in READ:
            node: Node = thing if isinstance(thing, str) else Value(thing.text, XSD + thing.kind)
            if isinstance(node, str) or node.datatype.removeprefix(XSD) in KINDS:
                found.add(subject, relation, node)
    return found


def as_reference(facts: Facts) -> sparql_reference.Facts:
    return frozenset(
        (s, r, sparql_reference.Text(o.text, o.datatype.removeprefix(XSD)) if isinstance(o, Value) else o)
        for s, r, o in facts
    )


def readable(expression: Expression) -> bool:
    """Of the relations above; a COUNT stands outermost only, as a witness graph has it."""
    inner = [part for part in walk(expression) if part is not expression]
    names = {getattr(part, "relation", TYPE) for part in walk(expression)}
    ordered = {part.relation for part in walk(expression) if isinstance(part, Arg)}
    links = {
        part.relation for part in walk(expression) if isinstance(part, Join) and not isinstance(part.target, Value)
    }
    return (
        names <= READ
        and not any(isinstance(p, Count) for p in inner)
        and ordered <= {NUMBERS, DATES}
        and links <= {*LINKS}
    )


def programs(count: int, seed: int) -> Iterator[tuple[Facts, Expression]]:
    rng = random.Random(seed)
    facts = in_memory(random_facts(rng))
    found = 0
    while found < count:
        if rng.random() < 0.1:
            facts = in_memory(random_facts(rng))
        expression = random_expression(rng, rng.randint(1, 4))
        if readable(expression):
            found += 1
            yield facts, expression


def texts(nodes: set[Node]) -> set[str]:
    return {node.text if isinstance(node, Value) else node for node in nodes}


def test_denotations_equal_those_of_the_independent_evaluator() -> None:
    several = 0
    for facts, expression in programs(1500, 1):
        wanted = sparql_reference.denotes(as_reference(facts), expression)
        found = denoted(facts, expression)
        assert texts(found) == {thing if isinstance(thing, str) else thing.text for thing in wanted}, expression
        several += len(found) > 1
    assert several > 300


def test_what_is_no_number_compares_with_nothing() -> None:
    five, wrong = Value("5", f"{XSD}integer"), Value("abc", f"{XSD}integer")
    assert [sign for sign in SIGNS if compares(five, sign, five)] == ["le", "ge"]
    assert not any(compares(*pair) for sign in SIGNS for pair in ((wrong, sign, five), (five, sign, wrong)))


def test_what_is_not_watched_changes_nothing() -> None:
    rng = random.Random(2)
    changed = unwatched = 0
    for facts, expression in programs(1000, 3):
        if is_open(expression):
            continue
        watch = Watch()
        before = denoted(facts, expression, watch)
        names = parts_of(expression)
        for _ in range(12):
            relation = rng.choice([TYPE, *LINKS, NUMBERS])
            number = Value(str(rng.randint(-2, 4)), f"{XSD}integer")
            other: dict[str, Node] = {TYPE: rng.choice(CLASSES), NUMBERS: number}
            fact = Fact(f"m.{rng.randrange(12):x}", relation, other.get(relation, f"m.{rng.randrange(12):x}"))
            mark = len(facts)
            facts.add(*fact)
            after = denoted(facts, expression)
            facts.undo(mark)
            name = name_of(fact)
            if name in names and watch.concerned(fact.subject, name, fact.object):
                changed += after != before
            else:
                unwatched += 1
                assert after == before, (expression, fact)
    assert changed > 20
    assert unwatched > 500


def test_facts_know_both_ends_their_inverses_and_what_was_before() -> None:
    facts = Facts({"a.b": "b.a", "b.a": "a.b", TYPE: "type.type.instance"})
    assert facts.add("m.1", "a.b", "m.2")
    assert not facts.add("m.2", "b.a", "m.1")
    assert facts.add("m.1", TYPE, "c.d")
    assert list(facts) == [("m.1", "a.b", "m.2"), ("m.2", "b.a", "m.1"), ("m.1", TYPE, "c.d")]
    mark = len(facts)
    facts.add("m.1", "a.b", Value("3"))
    facts.add("m.3", "a.b", "m.3")
    assert len(facts.since(mark)) == 3
    facts.undo(mark)
    assert len(facts) == 3
    assert list(facts.objects("m.1", "a.b")) == ["m.2"]
    assert list(facts.subjects("b.a", "m.1")) == ["m.2"]
    assert Fact("m.3", "a.b", "m.3") not in facts


def test_open_expressions_are_those_that_any_fact_may_change() -> None:
    join = "(JOIN film.film.genre m.0dra)"
    closed = [join, f"(AND film.film {join})", f"(AND {join} (lt a.b.c 3^^{XSD}integer))", f"(COUNT {join})"]
    opened = [
        "film.film",
        "(ARGMAX film.film a.b.c)",
        f"(AND film.film (lt a.b.c 3^^{XSD}integer))",
        "(JOIN a.b.c c.d)",
    ]
    assert not any(is_open(read(form)) for form in closed)
    assert all(is_open(read(form)) for form in opened)
    assert is_open(Class("c.d"))
    assert is_open(Compare("lt", "a.b.c", Value("3", f"{XSD}integer")))

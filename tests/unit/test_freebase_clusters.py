"""Questions over Freebase that share a template: the same logical form of other entities and literals."""

from __future__ import annotations

import pytest

from grid.worlds.sparql.expressions import read, template, written

INTEGER = "^^http://www.w3.org/2001/XMLSchema#integer"
SAME = [
    ("(AND film.film (JOIN film.film.genre m.01))", "(AND film.film (JOIN film.film.genre m.02_x))"),
    (f"(AND a.b (ge a.b.year 3{INTEGER}))", f"(AND a.b (ge a.b.year 40{INTEGER}))"),
    ("(TC (JOIN a.b.c m.01) a.b.since 1999)", "(TC (JOIN a.b.c m.09) a.b.since 2004)"),
    ("(COUNT (ARGMAX (JOIN (R a.b.c) m.01) a.b.height))", "(COUNT (ARGMAX (JOIN (R a.b.c) g.7) a.b.height))"),
]
OTHER = [
    ("(JOIN a.b.c m.01)", "(JOIN a.b.d m.01)"),
    ("(JOIN a.b.c m.01)", "(JOIN (R a.b.c) m.01)"),
    ("(AND a.b (JOIN a.b.c m.01))", "(AND a.d (JOIN a.b.c m.01))"),
    (f"(ge a.b.year 3{INTEGER})", f"(gt a.b.year 3{INTEGER})"),
    ("(TC (JOIN a.b.c m.01) a.b.since 1999)", "(TC (JOIN a.b.c m.01) a.b.since NOW)"),
    ("(ARGMAX a.b a.b.height)", "(ARGMIN a.b a.b.height)"),
    ("(JOIN a.b.c m.01)", "(COUNT (JOIN a.b.c m.01))"),
]


def of(text: str) -> str:
    return written(template(read(text)))


@pytest.mark.parametrize(("one", "another"), SAME)
def test_what_asks_the_same_of_others_shares_a_template(one: str, another: str) -> None:
    assert one != another
    assert of(one) == of(another)


@pytest.mark.parametrize(("one", "another"), OTHER)
def test_what_asks_something_else_does_not(one: str, another: str) -> None:
    assert of(one) != of(another)

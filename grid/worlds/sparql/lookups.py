"""SPARQL for what a graph says of its entities and of its schema: names, classes, relations."""

from __future__ import annotations

from collections.abc import Iterable

from grid.worlds.sparql.expressions import Value
from grid.worlds.sparql.queries import TYPE, iri, literal

NAME = "type.object.name"
_ENGLISH = '(LANG(?n) = "" || LANGMATCHES(LANG(?n), "en"))'
_VALUES = ("type.int", "type.float", "type.datetime", "type.boolean", "type.text", "type.rawstring", "type.enumeration")


def names(ids: Iterable[str]) -> str:
    """`?x` and its names `?n` that have no language or are English."""
    return f"SELECT ?x ?n WHERE {{ {_among('?x', ids)} ?x {iri(NAME)} ?n . FILTER({_ENGLISH}) }}"


def named(text: str) -> str:
    """The `?x` of a name."""
    plain = literal(Value(text)).rpartition("^^")[0]
    return f"SELECT DISTINCT ?x WHERE {{ VALUES ?n {{ {plain} {plain}@en }} ?x {iri(NAME)} ?n . }}"


def types(ids: Iterable[str]) -> str:
    """`?x` and its classes `?c`."""
    return f"SELECT ?x ?c WHERE {{ {_among('?x', ids)} ?x {iri(TYPE)} ?c . }}"


def known(identity: str) -> str:
    """A row where a graph says anything of an entity."""
    return f"SELECT ?p WHERE {{ {{ {iri(identity)} ?p ?o }} UNION {{ ?s ?p {iri(identity)} }} }} LIMIT 1"


def leading_to(ids: Iterable[str], most: int) -> str:
    """The relations `?r` that lead to entities; at most so many facts are gone through."""
    return _relations(f"{_among('?x', ids)} ?s ?r ?x .", most)


def leading_from(ids: Iterable[str], most: int, *, literals: bool = False) -> str:
    """The relations `?r` that lead from entities, or those of them that lead to literals."""
    only = " FILTER(isLiteral(?o))" if literals else ""
    return _relations(f"{_among('?x', ids)} ?x ?r ?o .{only}", most)


def used_relations() -> str:
    """All relations `?r` that there is a fact of."""
    return "SELECT DISTINCT ?r WHERE { ?s ?r ?o . }"


def literals_of(relation: str, most: int) -> str:
    """A literal that a relation leads to, where one is among its first so many facts."""
    some = f"{{ SELECT ?o WHERE {{ ?s {iri(relation)} ?o . }} LIMIT {most} }}"
    return f"SELECT ?o WHERE {{ {some} FILTER(isLiteral(?o)) }} LIMIT 1"


def used_classes() -> str:
    """All `?c` that something is a member of."""
    return f"SELECT DISTINCT ?c WHERE {{ ?x {iri(TYPE)} ?c . }}"


def used_names(most: int) -> str:
    """So many of the names `?n` that have no language or are English."""
    return f"SELECT DISTINCT ?n WHERE {{ ?x {iri(NAME)} ?n . FILTER({_ENGLISH}) }} LIMIT {most}"


def declared_relations(*, literals: bool = False) -> str:
    """The relations `?r` of Freebase's own schema, or those whose values are literals."""
    only = f" {_among('?t', _VALUES)} ?r {iri('type.property.expected_type')} ?t ." if literals else ""
    return f"SELECT DISTINCT ?r WHERE {{ ?r {iri(TYPE)} {iri('type.property')} .{only} }}"


def declared_classes() -> str:
    """The classes `?c` of Freebase's own schema."""
    return f"SELECT DISTINCT ?c WHERE {{ ?c {iri(TYPE)} {iri('type.type')} . }}"


def _among(variable: str, ids: Iterable[str]) -> str:
    return f"VALUES {variable} {{ {' '.join(map(iri, ids))} }}"


def _relations(pattern: str, most: int) -> str:
    return f"SELECT DISTINCT ?r WHERE {{ {{ SELECT ?r WHERE {{ {pattern} }} LIMIT {most} }} }}"

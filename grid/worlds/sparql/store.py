"""A graph in a store of pyoxigraph's, in memory or on disk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from time import monotonic
from typing import TypeAlias

import pyoxigraph as ox

from grid.worlds.schema import Vocabulary
from grid.worlds.sparql import lookups
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import XSD, Arg, Count, Entity, Expression, Value, walk
from grid.worlds.sparql.graph import MAX_NAMES, Limits, Node, Row, SelectGraph, ordered, parts, vocabularies
from grid.worlds.sparql.queries import NS, members, ordered_by

_INTEGER = f"{XSD}integer"
_LOOKED_AT = 100  # facts of a relation
_SORTED = 1_000  # values in one query
_SORTING = "SELECT ?x WHERE {{ VALUES ?x {{ {} }} }} ORDER BY {} LIMIT 1"
_Term: TypeAlias = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


class StoreGraph(SelectGraph):
    """One graph of a store: a named one, or the default one.

    Many may share one store, and none of them changes it. The seconds of the limits are looked at whenever a row is
    found; what the store does between two rows is not stopped. So that there are rows, what a COUNT, ARGMAX or ARGMIN
    needs is fetched by itself, the innermost first.

    Attributes:
        limits: what one question may cost.
        waits: no network is waited for.
    """

    waits = False

    def __init__(self, store: ox.Store, name: str | None = None, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._store = store
        self._graph = ox.NamedNode(name) if name else ox.DefaultGraph()

    def denotes(self, expression: Expression) -> tuple[Node, ...]:
        """What an expression denotes, each once, sorted; raises SparqlError."""
        if isinstance(expression, Entity | Value):
            return (expression,)
        until = monotonic() + self.limits.seconds
        solved: dict[Expression, str | None] = {}
        number = 0
        for part in walk(expression):  # the innermost first
            if part in solved:
                continue
            if isinstance(part, Arg):
                solved[part] = self._best(part, solved, until)
            elif isinstance(part, Count):
                number = len(self._terms(members(part.operand, solved), until))
                solved[part] = f'"{number}"^^<{_INTEGER}>'
        if isinstance(expression, Count):
            return (Value(str(number), _INTEGER),)
        return ordered(_node(term) for term in self._terms(members(expression, solved), until))

    def rows(self, query: str) -> Iterator[Row]:
        """The rows of a SELECT; raises SparqlError."""
        for solution in self._solutions(query, monotonic() + self.limits.seconds):
            yield [None if term is None else _node(term) for term in solution]

    @cached_property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All names by kind, looked for once, however long that takes; some seconds where there are millions of facts.

        A relation leads to literals where one of its first hundred facts does.
        """
        patient = copy(self)
        patient.limits = Limits(seconds=math.inf)
        relations = patient.schema(lookups.used_relations())
        names = {node.text for (node,) in patient.rows(lookups.used_names(MAX_NAMES + 1)) if isinstance(node, Value)}
        return vocabularies(
            relations,
            [name for name in relations if any(True for _ in patient.rows(lookups.literals_of(name, _LOOKED_AT)))],
            patient.schema(lookups.used_classes()),
            sorted(names) if len(names) <= MAX_NAMES else (),
        )

    def _best(self, arg: Arg, solved: Mapping[Expression, str | None], until: float) -> str | None:
        """The greatest or least of the values that members are ordered by, as SPARQL has it; None without any."""
        found = [str(term) for term in self._terms(ordered_by(arg, solved), until)]
        order = "DESC(?x)" if arg.mode == "ARGMAX" else "?x"
        while len(found) > 1:
            queries = (_SORTING.format(" ".join(some), order) for some in parts(found, _SORTED))
            found = [str(row[0]) for query in queries for row in self._solutions(query, until)]
        return found[0] if found else None

    def _terms(self, query: str, until: float) -> set[_Term]:
        """The different terms that a SELECT of one variable finds."""
        found: set[_Term] = set()
        for solution in self._solutions(query, until):
            found.add(solution[0])
            if len(found) > self.limits.rows:
                raise self.limits.too_many()
        return found

    def _solutions(self, query: str, until: float) -> Iterator[ox.QuerySolution]:
        try:
            found = self._store.query(query, default_graph=self._graph)
            assert isinstance(found, ox.QuerySolutions)  # noqa: S101 - every query here is a SELECT
            for solution in found:
                if monotonic() > until:
                    raise self.limits.too_slow()
                yield solution
        except (SyntaxError, UnicodeEncodeError) as error:  # a text that no literal can hold, say
            raise SparqlError(f"it cannot be asked for: {error}") from None
        except OSError as error:
            raise SparqlError(f"the graph cannot be read: {error}") from None


def _node(term: _Term) -> Node:
    """A term as what it stands for; a text of any language as a text."""
    if isinstance(term, ox.Literal):
        return Value(term.value) if term.language else Value(term.value, term.datatype.value)
    if isinstance(term, ox.NamedNode):
        name = term.value.removeprefix(NS)
        return Value(name, f"{XSD}anyURI") if name == term.value else Entity(name)
    raise SparqlError("the graph has a node without an IRI")

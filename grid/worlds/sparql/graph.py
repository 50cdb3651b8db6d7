"""A graph in Freebase's form, and the questions that it answers, independently of how the graph is stored."""

from __future__ import annotations

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from typing import Protocol, TypeAlias, TypeVar

import pyoxigraph as ox

from grid.core.errors import one_line
from grid.core.types import BETWEEN
from grid.worlds.kopl.queries import SHOWN, same_answer
from grid.worlds.schema import Vocabulary
from grid.worlds.sparql import tools
from grid.worlds.sparql.queries import (
    NAME,
    NS,
    XSD,
    Arg,
    Count,
    Entity,
    Expression,
    SparqlError,
    Value,
    members,
    ordered_by,
    walk,
)
from grid.worlds.sparql.tools import FORWARD

Node: TypeAlias = Entity | Value
"""The value of a variable. An IRI outside Freebase's namespace is a Value with the datatype xsd:anyURI."""
Row: TypeAlias = Sequence[Node | None]
T = TypeVar("T")
MAX_NAMES = 100_000
"""The maximum number of names in a vocabulary of entities.

A vocabulary that would have more names contains no entity names.
"""
_ASKED = 1_000  # maximum number of entities whose relations are examined
_FACTS = 200_000  # maximum number of facts that are read to find relations
_TOGETHER = 500  # maximum number of entities in one query


@dataclass(frozen=True)
class Limits:
    """The limits on the cost of one question.

    Attributes:
        rows: the maximum number of results.
        seconds: the maximum time.
    """

    rows: int = 100_000
    seconds: float = 20.0

    def too_many(self) -> SparqlError:
        """The error for a question with too many results."""
        return SparqlError(f"there are more than {self.rows:,} results")

    def too_slow(self) -> SparqlError:
        """The error for a question that takes too much time."""
        return SparqlError(f"it takes more than {self.seconds:g} seconds")


class KnowledgeGraph(Protocol):
    """A graph. All methods raise SparqlError if a limit is exceeded or the graph fails.

    A graph on a server raises EngineError instead if the server does not answer as it should (see `EndpointGraph`).
    """

    @property
    def waits(self) -> bool:
        """Whether the graph answers over a network, so that other work should continue during a question."""
        ...

    def denotes(self, expression: Expression) -> tuple[Node, ...]:
        """The nodes that an expression denotes, each once: entities sorted by id, then values sorted by text.

        A COUNT denotes one number. An entity or a literal denotes itself, whether or not it is in the graph.
        """
        ...

    def relations(self, ids: Collection[str], direction: str) -> tuple[str, ...]:
        """The relations that find_relation can follow from the given entities in the given direction, sorted.

        If there are more than a thousand entities, only a thousand, evenly spread, are examined. Only a limited number
        of facts is read.
        """
        ...

    def properties(self, ids: Collection[str]) -> tuple[str, ...]:
        """The relations that lead from the given entities to literals, sorted. The limits are those of `relations`."""
        ...

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """Each entity's name, by id; if an entity has several names, the first of them in sorted order.

        Entities without a name are left out.
        """
        ...

    def named(self, text: str) -> tuple[str, ...]:
        """The ids of the entities that have this name, sorted."""
        ...

    def types(self, ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Each entity's classes, by id. The classes are sorted; entities without a class are left out."""
        ...

    def has(self, identity: str) -> bool:
        """Whether the graph has any fact about an entity or a class."""
        ...

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All names by kind: `relation`, `property` (relations to literals), `input` (entities' names, and classes).

        If the entities have more than 100,000 names, or the graph is on a server, none of these names is included.
        """
        ...


class SelectGraph(ABC):
    """A graph that answers questions about its entities with SELECT queries."""

    @abstractmethod
    def rows(self, query: str) -> Iterator[Row]:
        """The rows of a SELECT. A row has its nodes in the order of the variables; None for a variable without a value.

        Raises SparqlError, also while the rows are read; EngineError if a server fails.
        """

    def relations(self, ids: Collection[str], direction: str) -> tuple[str, ...]:
        """The relations that find_relation can follow from the given entities in the given direction, sorted."""
        asked = _spread(ids)
        return self.schema(
            tools.leading_to(asked, _FACTS) if direction == FORWARD else tools.leading_from(asked, _FACTS)
        )

    def properties(self, ids: Collection[str]) -> tuple[str, ...]:
        """The relations that lead from the given entities to literals, sorted."""
        return self.schema(tools.leading_from(_spread(ids), _FACTS, literals=True))

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """Each entity's name, by id; if an entity has several names, the first of them in sorted order."""
        return {identity: found[0] for identity, found in self._told(tools.names, ids).items()}

    def types(self, ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Each entity's classes, by id. The classes are sorted."""
        return self._told(tools.types, ids)

    def named(self, text: str) -> tuple[str, ...]:
        """The ids of the entities with this name, sorted."""
        return tuple(sorted({node.id for (node,) in self.rows(tools.named(text)) if isinstance(node, Entity)}))

    def has(self, identity: str) -> bool:
        """Whether the graph has any fact about an entity or a class."""
        return any(True for _ in self.rows(tools.known(identity)))

    def schema(self, query: str) -> tuple[str, ...]:
        """The results of a query for one variable, sorted; only names in the form of Freebase's schema are kept."""
        found = {node.id for (node,) in self.rows(query) if isinstance(node, Entity)}
        return tuple(sorted(name for name in found if NAME.fullmatch(name)))

    def _told(self, query: Callable[[Iterable[str]], str], ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The sorted results of a query for the names or classes of entities, keyed by entity id."""
        found: dict[str, set[str]] = defaultdict(set)
        for some in parts(list(dict.fromkeys(ids)), _TOGETHER):
            for entity, told in self.rows(query(some)):
                if isinstance(entity, Entity) and told is not None:
                    found[entity.id].add(told.text if isinstance(told, Value) else told.id)
        return {identity: tuple(sorted(found[identity])) for identity in ids if identity in found}


def vocabularies(
    relations: Iterable[str], properties: Iterable[str], classes: Iterable[str], names: Iterable[str]
) -> Mapping[str, Vocabulary]:
    """All names by kind."""
    return {
        "relation": Vocabulary("relation", tuple(relations)),
        "property": Vocabulary("relation to values", tuple(properties)),
        "input": Vocabulary("entity or class", [*names, *classes]),
    }


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, split into parts of the given size. The last part may be smaller."""
    return (items[first : first + size] for first in range(0, len(items), size))


def ordered(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes, each once: entities sorted by id, then values sorted by text."""
    return tuple(sorted(set(nodes), key=_place))


def _place(node: Node) -> tuple[bool, str, str]:
    return (True, node.text, node.datatype) if isinstance(node, Value) else (False, node.id, "")


def _spread(ids: Collection[str]) -> Sequence[str]:
    """The ids, sorted; if there are too many to examine, only an evenly spread selection of them."""
    found = sorted(ids)
    return found if len(found) <= _ASKED else [found[place * len(found) // _ASKED] for place in range(_ASKED)]


# Numbers, dates and texts: the possible literals, and how a literal is read from a text.


MAX_CHARACTERS = 1_000
"""The maximum length of a literal that a planner gives, in characters."""
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
_YEAR = r"(-?[0-9]{4,9})"
_DATE = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}}){_ZONE}")
_MONTH = re.compile(rf"{_YEAR}-([0-9]{{2}}){_ZONE}")
_MOMENT = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}})T([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}})(?:\.[0-9]+)?{_ZONE}")
_GRAPH_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})")
_FLOAT = re.compile(rf"{_DECIMAL.pattern}(?:[eE][+-]?[0-9]{{1,4}})?|[+-]?INF")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLAIN_YEAR = re.compile(r"[0-9]{4}")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_PLAIN_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_PLAIN_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.Z+\-]+")
_PLAIN_FLOAT = re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,4})?")


def _day(year: str, month: str, day: str) -> bool:
    """Whether a day exists in the Gregorian calendar; the year may be any number."""
    try:
        dt.date(2000 + int(year) % 400, int(month), int(day))  # the calendar repeats every 400 years
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    return bool(found and _day(*found.groups()))


def _is_month(text: str) -> bool:
    found = _MONTH.fullmatch(text)
    return bool(found and 1 <= int(found[2]) <= 12)


def _is_moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    return bool(
        found and _day(*found.groups()[:3]) and int(found[4]) < 24 and int(found[5]) < 60 and int(found[6]) < 60
    )


def _matches(form: str | re.Pattern[str]) -> Callable[[str], bool]:
    pattern = re.compile(form)
    return lambda text: bool(pattern.fullmatch(text))


_KINDS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "string": (lambda _: True, "a text"),
    "integer": (_matches(_GRAPH_INTEGER), "a whole number"),
    "decimal": (_matches(_DECIMAL), "a number"),
    "float": (_matches(_FLOAT), "a number"),
    "double": (_matches(_FLOAT), "a number"),
    "boolean": (_matches("true|false|0|1"), "true or false"),
    "date": (_is_date, "a day of the Gregorian calendar, YYYY-MM-DD"),
    "dateTime": (_is_moment, "a moment of the Gregorian calendar, YYYY-MM-DDThh:mm:ss"),
    "gYearMonth": (_is_month, "a month of the Gregorian calendar, YYYY-MM"),
    "gYear": (_matches(_YEAR + _ZONE), "a year, YYYY"),
}
_NUMBERS = {"integer", "decimal", "float", "double"}
_BY_IRI = {f"{XSD}{kind}": test for kind, test in _KINDS.items()}


def wrong(text: str, datatype: str) -> str | None:
    """The reason why a text is not a literal of a datatype.

    None if the text is such a literal or the datatype is unknown.
    """
    test = _BY_IRI.get(datatype)
    if test is None or test[0](text):
        return None
    return f"{text!r:.80} is not {test[1]}"


def read(text: str) -> Value | None:
    """The literal that a text denotes: a number, a date, a year, `"text"` or `text^^datatype`.

    None if the text is none of these. A text of four digits is a year; a month (`2008-05`) and a moment count as dates.
    Datatypes are from XML Schema, written as `date`, as `xsd:date` or as the full IRI.

    Raises:
        SparqlError: the text is longer than MAX_CHARACTERS, the date does not exist, the datatype is unknown, or the
            datatype does not allow the text.
    """
    if len(text) > MAX_CHARACTERS:
        raise SparqlError(f"a literal has at most {MAX_CHARACTERS:,} characters")
    body, typed, kind = text.rpartition("^^")
    if typed and not _QUOTED.fullmatch(text):
        return _of(_unquoted(body), kind.strip("<>").removeprefix(XSD).removeprefix("xsd:"))
    if len(text) > 1 and text[0] == text[-1] == '"':
        return Value(_unquoted(text))
    for form, kind in (
        (_PLAIN_YEAR, "gYear"),
        (_GRAPH_INTEGER, "integer"),
        (_PLAIN_FLOAT, "float"),
        (_PLAIN_DATE, "date"),
        (_PLAIN_MONTH, "gYearMonth"),
        (_PLAIN_MOMENT, "dateTime"),
    ):
        if form.fullmatch(text):
            return _of(text, kind)
    return None


def spoken(value: Value) -> str:
    """A text that `read` converts back to the same literal: just the literal's text, if that is enough.

    A number may come back with another numeric datatype. `read` does not accept the text if it does not know the
    literal's datatype.
    """
    kind = value.datatype.removeprefix(XSD)
    if kind == "string":
        escaped = re.sub(r'(["\\])', r"\\\1", value.text)
        return f'"{escaped}"'
    try:
        found = read(value.text)
    except SparqlError:
        found = None
    if found is not None and (found == value or {kind, found.datatype.removeprefix(XSD)} <= _NUMBERS):
        return value.text
    return f"{value.text}^^{kind}"


def number(value: Value) -> Value:
    """A year of four digits is returned as a number with these digits; other literals are returned unchanged."""
    if value.datatype == f"{XSD}gYear" and _PLAIN_YEAR.fullmatch(value.text):
        return Value(value.text, f"{XSD}integer")
    return value


def _of(text: str, kind: str) -> Value:
    if kind not in _KINDS:
        raise SparqlError(f"{kind!r:.80} is no datatype; there are {', '.join(_KINDS)}")
    reason = wrong(text, f"{XSD}{kind}")
    if reason:
        raise SparqlError(reason)
    return Value(text, f"{XSD}{kind}")


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if quoted else text


# A graph in a store of pyoxigraph, in memory or on disk.


_INTEGER = f"{XSD}integer"
_LOOKED_AT = 100  # maximum number of facts of a relation that are examined
_SORTED = 1_000  # maximum number of values in one query
_SORTING = "SELECT ?x WHERE {{ VALUES ?x {{ {} }} }} ORDER BY {} LIMIT 1"
_Term: TypeAlias = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple


class StoreGraph(SelectGraph):
    """One graph in a store, either a named graph or the default graph.

    Many graphs may share one store, which no graph changes. The time limit is checked whenever the store finds a row;
    the store's work between two rows cannot be stopped. Therefore the terms that a COUNT, ARGMAX or ARGMIN needs are
    fetched as rows by separate queries, with the innermost first.

    Attributes:
        limits: the limits on the cost of one question.
        waits: False, since no network is used.
    """

    waits = False

    def __init__(self, store: ox.Store, name: str | None = None, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._store = store
        self._graph = ox.NamedNode(name) if name else ox.DefaultGraph()

    def denotes(self, expression: Expression) -> tuple[Node, ...]:
        """The distinct nodes that an expression denotes, sorted; raises SparqlError."""
        if isinstance(expression, Entity | Value):
            return (expression,)
        until = monotonic() + self.limits.seconds
        solved: dict[Expression, str | None] = {}
        number = 0
        for part in walk(expression):  # the innermost parts first
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
        """All names by kind, as in `KnowledgeGraph`.

        The names are collected once, without a time limit; this takes a few seconds for millions of facts. A relation
        counts as leading to literals if one of its first hundred facts leads to a literal.
        """
        patient = copy(self)
        patient.limits = Limits(seconds=math.inf)
        relations = patient.schema(tools.used_relations())
        names = {node.text for (node,) in patient.rows(tools.used_names(MAX_NAMES + 1)) if isinstance(node, Value)}
        return vocabularies(
            relations,
            [name for name in relations if any(True for _ in patient.rows(tools.literals_of(name, _LOOKED_AT)))],
            patient.schema(tools.used_classes()),
            sorted(names) if len(names) <= MAX_NAMES else (),
        )

    def _best(self, arg: Arg, solved: Mapping[Expression, str | None], until: float) -> str | None:
        """The largest or smallest of the values by which members are ordered, in SPARQL's notation.

        None if there is no value.
        """
        found = [str(term) for term in self._terms(ordered_by(arg, solved), until)]
        order = "DESC(?x)" if arg.mode == "ARGMAX" else "?x"
        while len(found) > 1:
            queries = (_SORTING.format(" ".join(some), order) for some in parts(found, _SORTED))
            found = [str(row[0]) for query in queries for row in self._solutions(query, until)]
        return found[0] if found else None

    def _terms(self, query: str, until: float) -> set[_Term]:
        """The distinct terms that a SELECT of one variable finds."""
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
        except (SyntaxError, UnicodeEncodeError) as error:  # for example, if a text cannot occur in a literal
            raise SparqlError(f"it cannot be asked for: {error}") from None
        except OSError as error:
            raise SparqlError(f"the graph cannot be read: {error}") from None


def _node(term: _Term) -> Node:
    """The node for a term in the store. A text with a language becomes a plain text."""
    if isinstance(term, ox.Literal):
        return Value(term.value) if term.language else Value(term.value, term.datatype.value)
    if isinstance(term, ox.NamedNode):
        name = term.value.removeprefix(NS)
        return Value(name, f"{XSD}anyURI") if name == term.value else Entity(name)
    raise SparqlError("the graph has a node without an IRI")


# The result of a call: a set of entities and values, the expression that denotes it, and how the set is shown.


MAX_PARTS = 200
"""The maximum number of parts in an expression.

Without a limit, merging results with themselves could build expressions of any size.
"""
_MAX_VALUES = 1_000  # maximum number of values in an answer's text
_LONG = 100  # maximum characters of a name or a text that is shown


@dataclass(frozen=True)
class Result:
    """The nodes that an expression denotes, and the number of parts in the expression."""

    expression: Expression
    nodes: tuple[Node, ...]
    parts: int

    @property
    def ids(self) -> tuple[str, ...]:
        """The entities' ids."""
        return tuple(node.id for node in self.nodes if isinstance(node, Entity))

    @property
    def literal(self) -> Value | None:
        """The literal, if the result is exactly one literal; otherwise None."""
        only = self.nodes[0] if len(self.nodes) == 1 else None
        return only if isinstance(only, Value) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The entities' ids and the values' texts."""
        return tuple(text_of(node) for node in self.nodes)


def text_of(node: Node) -> str:
    """An entity's id or a value's text."""
    return node.text if isinstance(node, Value) else node.id


def parts_of(*operands: Result) -> int:
    """The number of parts in the expression that a call builds from `operands`.

    Raises SparqlError if there are too many parts.
    """
    found = 1 + sum(operand.parts for operand in operands)
    if found > MAX_PARTS:
        raise SparqlError(f"the query would have more than {MAX_PARTS} parts; begin with fewer results")
    return found


def told(graph: KnowledgeGraph, nodes: Sequence[Node]) -> str:
    """The number of nodes and the first ten nodes, as a text: entities by id and name, values by their text.

    Raises the errors of `KnowledgeGraph.names`.
    """
    first = nodes[:SHOWN]
    names = graph.names([node.id for node in first if isinstance(node, Entity)])
    shown = ", ".join(_told(node, names) for node in first)
    if len(nodes) == 1:
        return f"1 result: {shown}"
    cut = f", the first {SHOWN}" if len(nodes) > SHOWN else ""
    return f"{len(nodes):,} results{cut}: {shown}"


def _told(node: Node, names: Mapping[str, str]) -> str:
    if isinstance(node, Value):
        return one_line(node.text, _LONG)
    name = names.get(node.id)
    return node.id if name is None else f"{node.id} ({one_line(name, _LONG)})"


def answer_text(found: Collection[str]) -> str:
    """An answer's distinct values, separated by `; `.

    If there are more than a thousand values, the text has the first thousand and the number of all values.
    """
    shown = list(dict.fromkeys(found))
    if len(shown) <= _MAX_VALUES:
        return BETWEEN.join(shown)
    return BETWEEN.join([*shown[:_MAX_VALUES], f"... ({len(shown):,} in all)"])


def answers(found: Iterable[str], reference: Collection[str], names: Mapping[str, str]) -> bool:
    """Whether an answer has the reference's ids and values, compared as a set.

    `names` has the names of the reference's entities. In an answer, a name stands for the ids of all the reference's
    entities that have it. Values are compared as in KoPL (see `same_answer`).
    """
    by_name: dict[str, list[str]] = {}
    for identity, name in names.items():
        by_name.setdefault(name, []).append(identity)
    return same_answer([one for text in found for one in by_name.get(text, [text])], reference)

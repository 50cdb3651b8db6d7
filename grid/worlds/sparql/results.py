"""What calls return: a set of entities and values with the expression that denotes it, how it is told, what it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grid.core.errors import one_line
from grid.core.types import BETWEEN
from grid.worlds.kopl.results import SHOWN, same_answer
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import Entity, Expression, Value
from grid.worlds.sparql.graph import KnowledgeGraph, Node

MAX_PARTS = 200
"""Of an expression; results that are merged with themselves again and again would have any number."""
_MAX_VALUES = 1_000  # of an answer as a text
_LONG = 100  # characters of a name or a text that is told


@dataclass(frozen=True)
class Result:
    """What an expression of so many parts denotes."""

    expression: Expression
    nodes: tuple[Node, ...]
    parts: int

    @property
    def ids(self) -> tuple[str, ...]:
        """The entities."""
        return tuple(node.id for node in self.nodes if isinstance(node, Entity))

    @property
    def literal(self) -> Value | None:
        """The literal that it is; None of entities, and of several."""
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
    """How many parts a call's expression has; raises SparqlError where they are too many."""
    found = 1 + sum(operand.parts for operand in operands)
    if found > MAX_PARTS:
        raise SparqlError(f"the query would have more than {MAX_PARTS} parts; begin with fewer results")
    return found


def told(graph: KnowledgeGraph, nodes: Sequence[Node]) -> str:
    """How many there are, and the first ten: entities with their names, values as they are."""
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
    """An answer's values, parted by `; `; a thousand of them at most, then how many there are."""
    shown = list(dict.fromkeys(found))
    if len(shown) <= _MAX_VALUES:
        return BETWEEN.join(shown)
    return BETWEEN.join([*shown[:_MAX_VALUES], f"... ({len(shown):,} in all)"])


def answers(found: Iterable[str], reference: Collection[str], names: Mapping[str, str]) -> bool:
    """Whether an answer is the reference's ids and values, compared as a set.

    `names` are those of the reference's entities: a name stands for all of these that have it. Values are compared as
    KoPL's are (see `same_answer`).
    """
    by_name: dict[str, list[str]] = {}
    for identity, name in names.items():
        by_name.setdefault(name, []).append(identity)
    return same_answer([one for text in found for one in by_name.get(text, [text])], reference)

"""A graph of Freebase's form: what it answers, whoever holds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from grid.worlds.schema import Vocabulary
from grid.worlds.sparql import lookups
from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import NAME, Entity, Expression, Value
from grid.worlds.sparql.tools import FORWARD

Node: TypeAlias = Entity | Value
"""What a variable may be. An IRI of another namespace than Freebase's is a Value of the datatype xsd:anyURI."""
Row: TypeAlias = Sequence[Node | None]
T = TypeVar("T")
MAX_NAMES = 100_000
"""Of more names of entities no vocabulary is made."""
_ASKED = 1_000  # entities whose relations are looked at
_FACTS = 200_000  # that are gone through for their relations
_TOGETHER = 500  # entities in one query


@dataclass(frozen=True)
class Limits:
    """What one question to a graph may cost.

    Attributes:
        rows: how many results it may have.
        seconds: how long it may take.
    """

    rows: int = 100_000
    seconds: float = 20.0

    def too_many(self) -> SparqlError:
        """The error of a question with more results."""
        return SparqlError(f"there are more than {self.rows:,} results")

    def too_slow(self) -> SparqlError:
        """The error of a question that takes longer."""
        return SparqlError(f"it takes more than {self.seconds:g} seconds")


class KnowledgeGraph(Protocol):
    """A graph; all methods raise SparqlError where a limit is passed or the graph breaks."""

    @property
    def waits(self) -> bool:
        """Whether its answers come over a network, so that others should go on meanwhile."""
        ...

    def denotes(self, expression: Expression) -> tuple[Node, ...]:
        """What an expression denotes, each once: entities by id, then values by text; of a COUNT one number.

        An entity or a literal denotes itself, whether the graph has it or not.
        """
        ...

    def relations(self, ids: Collection[str], direction: str) -> tuple[str, ...]:
        """The relations that find_relation can follow from entities in a direction, sorted.

        Of more than a thousand entities a thousand are looked at, evenly spread, and of many facts a part.
        """
        ...

    def properties(self, ids: Collection[str]) -> tuple[str, ...]:
        """The relations that lead from entities to literals, sorted; as far as `relations` looks."""
        ...

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """By id an entity's name; of several the first in order. Entities without one are left out."""
        ...

    def named(self, text: str) -> tuple[str, ...]:
        """The ids of the entities of a name, sorted."""
        ...

    def types(self, ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """By id an entity's classes, sorted; entities without one are left out."""
        ...

    def has(self, identity: str) -> bool:
        """Whether anything is said of an entity or a class."""
        ...

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All names by kind: `relation`, `property` (a relation to literals), `input` (an entity's name or a class).

        Of more than 100,000 entities' names none is there.
        """
        ...


class SelectGraph(ABC):
    """What a graph says of its entities, by SELECT queries."""

    @abstractmethod
    def rows(self, query: str) -> Iterator[Row]:
        """The rows of a SELECT, each with its nodes in the order of the variables; raises SparqlError."""

    def relations(self, ids: Collection[str], direction: str) -> tuple[str, ...]:
        """The relations that find_relation can follow from entities in a direction, sorted."""
        asked = _spread(ids)
        return self.schema(
            lookups.leading_to(asked, _FACTS) if direction == FORWARD else lookups.leading_from(asked, _FACTS)
        )

    def properties(self, ids: Collection[str]) -> tuple[str, ...]:
        """The relations that lead from entities to literals, sorted."""
        return self.schema(lookups.leading_from(_spread(ids), _FACTS, literals=True))

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """By id an entity's name; of several the first in order."""
        return {identity: found[0] for identity, found in self._told(lookups.names, ids).items()}

    def types(self, ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """By id an entity's classes, sorted."""
        return self._told(lookups.types, ids)

    def named(self, text: str) -> tuple[str, ...]:
        """The ids of the entities of a name, sorted."""
        return tuple(sorted({node.id for (node,) in self.rows(lookups.named(text)) if isinstance(node, Entity)}))

    def has(self, identity: str) -> bool:
        """Whether anything is said of an entity or a class."""
        return any(True for _ in self.rows(lookups.known(identity)))

    def schema(self, query: str) -> tuple[str, ...]:
        """The names of Freebase's schema among the results of a query for one variable, sorted."""
        found = {node.id for (node,) in self.rows(query) if isinstance(node, Entity)}
        return tuple(sorted(name for name in found if NAME.fullmatch(name)))

    def _told(self, query: Callable[[Iterable[str]], str], ids: Collection[str]) -> dict[str, tuple[str, ...]]:
        """By id what a query for two variables has, sorted."""
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
    """Items in parts of a size; the last may be smaller."""
    return (items[first : first + size] for first in range(0, len(items), size))


def ordered(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes, each once: entities by id, then values by text."""
    return tuple(sorted(set(nodes), key=_place))


def _place(node: Node) -> tuple[bool, str, str]:
    return (True, node.text, node.datatype) if isinstance(node, Value) else (False, node.id, "")


def _spread(ids: Collection[str]) -> Sequence[str]:
    """So many of them that they can be gone through: evenly spread where there are more."""
    found = sorted(ids)
    return found if len(found) <= _ASKED else [found[place * len(found) // _ASKED] for place in range(_ASKED)]

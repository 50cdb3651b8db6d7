"""The knowledge base as the question maker looks at it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from grid.datasets.kqa.world import KnowledgeBase

BACK = {"forward": "backward", "backward": "forward"}


@dataclass(frozen=True)
class Value:
    """A value: `text` as programs write it, `number` for comparing (the year of a date, 0 of a string)."""

    kind: str
    text: str
    number: float

    @property
    def year(self) -> str:
        """The year of a date or year."""
        return self.text[:4]


Qualifiers: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Attribute:
    """An attribute's fact, with its qualifiers' first values."""

    name: str
    qualifiers: Qualifiers
    value: Value


@dataclass(frozen=True)
class Relation:
    """A relation's fact as one of its ends has it, with its qualifiers' first values."""

    name: str
    qualifiers: Qualifiers
    direction: str
    other: str


def read_value(record: dict[str, Any]) -> Value:
    """A value from `kb.json`."""
    kind, raw = record["type"], record["value"]
    if kind == "quantity":
        return Value(kind, f"{raw}" if record["unit"] == "1" else f"{raw} {record['unit']}", float(raw))
    if kind == "string":
        return Value(kind, raw, 0.0)
    return Value(kind, str(raw), float(str(raw)[:4]))


class Facts:
    """Names, concepts and facts of every entity, less the facts of some keys (`without`)."""

    def __init__(self, kb: KnowledgeBase, without: Collection[str] = ()) -> None:
        self.name = {identity: record["name"] for identity, record in kb["entities"].items()}
        self._parents = {i: (c["name"], c["subclassOf"]) for i, c in kb["concepts"].items()}
        self.concepts = {i: self._ancestors(record["instanceOf"]) for i, record in kb["entities"].items()}
        self.attributes = {
            i: [
                Attribute(a["key"], _first(a["qualifiers"]), read_value(a["value"]))
                for a in record["attributes"]
                if a["key"] not in without
            ]
            for i, record in kb["entities"].items()
        }
        self.relations = {
            i: [
                Relation(r["relation"], _first(r["qualifiers"]), r["direction"], r["object"])
                for r in record["relations"]
                if r["relation"] not in without
            ]
            for i, record in kb["entities"].items()
        }

    def _ancestors(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Concept names, nearest first."""
        found: list[str] = []
        pending = list(ids)
        while pending:
            name, parents = self._parents[pending.pop(0)]
            found.append(name)
            pending += parents
        return tuple(found)

    def kind(self, identity: str) -> str:
        """The concept that an entity is called by in passing: a person, or what stands below a root (film, city)."""
        concepts = self.concepts[identity]
        return concepts[-1] if concepts[-1] == "person" or len(concepts) == 1 else concepts[-2]

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """Concept name to the entities under it."""
        found: dict[str, list[str]] = defaultdict(list)
        for identity, names in self.concepts.items():
            for name in names:
                found[name].append(identity)
        return found

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """Attribute to all of its values' texts."""
        found: dict[str, list[str]] = defaultdict(list)
        for facts in self.attributes.values():
            for fact in facts:
                found[fact.name].append(fact.value.text)
        return found

    @cached_property
    def leading(self) -> dict[str, list[Relation]]:
        """Of every entity the facts whose other end has that relation to it alone."""
        return {
            identity: [
                fact
                for fact in facts
                if {f.other for f in self.related(fact.other, fact.name, BACK[fact.direction])} == {identity}
            ]
            for identity, facts in self.relations.items()
        }

    @cached_property
    def _related(self) -> dict[tuple[str, str, str], list[Relation]]:
        found: dict[tuple[str, str, str], list[Relation]] = defaultdict(list)
        for identity, facts in self.relations.items():
            for fact in facts:
                found[identity, fact.name, fact.direction].append(fact)
        return found

    @cached_property
    def _values(self) -> dict[tuple[str, str], list[Attribute]]:
        found: dict[tuple[str, str], list[Attribute]] = defaultdict(list)
        for identity, facts in self.attributes.items():
            for fact in facts:
                found[identity, fact.name].append(fact)
        return found

    def related(self, identity: str, relation: str, direction: str) -> list[Relation]:
        """The facts of one relation and direction."""
        return self._related.get((identity, relation, direction), [])

    def values(self, identity: str, key: str) -> list[Attribute]:
        """The facts of one attribute."""
        return self._values.get((identity, key), [])

    def has(self, identity: str, key: str) -> bool:
        """Whether the entity has one value of the attribute."""
        return len(self.values(identity, key)) == 1

    def alike(self, one: str, other: str) -> bool:
        """Whether both are of one kind, the concept below the root: cities are not compared with countries."""
        return self.concepts[one][-2:-1] == self.concepts[other][-2:-1]

    def single(self, identity: str) -> list[Attribute]:
        """The facts of attributes that the entity has one value of."""
        return [fact for fact in self.attributes[identity] if len(self.values(identity, fact.name)) == 1]


def _first(qualifiers: dict[str, list[dict[str, Any]]]) -> Qualifiers:
    return tuple((key, read_value(values[0])) for key, values in qualifiers.items())

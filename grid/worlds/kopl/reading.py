"""From KQA Pro's `kb.json` to a knowledge base, with every fact that cannot be used named and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from grid.core.errors import DataError
from grid.core.types import Skipped
from grid.core.untrusted import loads_storable
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.sets import DIRECTIONS, Attribute, EntitySet, KeyIndex, Qualifiers, Relation, RelationIndex
from grid.worlds.kopl.values import Value, from_json

_OPPOSITE = {"forward": "backward", "backward": "forward"}
_NO_QUALIFIERS: Qualifiers = {}
_TYPE = {"string": "string", "quantity": "quantity", "time": "date"}


def read(path: Path) -> KnowledgeBase:
    """The knowledge base of a file; raises DataError where it is no JSON or has another shape."""
    try:
        raw = loads_storable(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"broken JSON: {error}") from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    return parse(raw, path)


def parse(raw: object, source: Path) -> KnowledgeBase:
    """The knowledge base of a JSON value, which is not changed; `source` is what errors name.

    A fact or link that KoPL could not use (a dangling id, a quantity without a unit, a date below year 1, a wrong
    type) is left out and named in `remarks`, and so is a cycle among concepts, which is kept: each of its concepts is
    then below all others, as in KoPL. Years below 0 are legal there.

    Raises:
        DataError: anything but {"concepts": {id: concept}, "entities": {id: entity}} with a name for each.
    """
    return _Reader(raw, source).knowledge_base()


class _Reader:
    """What is gathered of one file."""

    def __init__(self, raw: object, source: Path) -> None:
        self._source = source
        top = self._object(raw, "a knowledge base")
        concepts = self._object(top.get("concepts"), "concepts")
        entities = self._object(top.get("entities"), "entities")
        twice = sorted(concepts.keys() & entities.keys())
        if twice:
            raise self._error(f"{twice[0]!r} is both a concept and an entity")
        if not entities:
            raise self._error("it has no entity")
        self._records = {
            identity: self._object(record, f"{identity!r}") for identity, record in {**concepts, **entities}.items()
        }
        self._concepts = concepts.keys()
        self._number = {identity: number for number, identity in enumerate(self._records)}
        self._remarks: list[Skipped] = []
        self._attributes: dict[str, KeyIndex] = {}
        self._facts: list[list[Relation]] = [[] for _ in self._records]
        self._kinds: dict[str, str] = {}
        self._qualifier_keys: dict[str, None] = {}
        self._values: dict[Value, Value] = {}  # equal values are kept once

    def knowledge_base(self) -> KnowledgeBase:
        names = [self._name(identity, record) for identity, record in self._records.items()]
        parents = [self._parents(identity) for identity in self._records]
        for identity in self._records:
            if identity not in self._concepts:
                self._read_attributes(identity)
                self._read_relations(identity)
        for index in self._attributes.values():
            index.finish()
        relations, pairs = self._relation_indexes()
        return KnowledgeBase(
            names=names,
            identities=list(self._records),
            by_name=_grouped(enumerate(names)),
            members=self._members(names, parents),
            attributes=self._attributes,
            relations=relations,
            pairs=pairs,
            kinds=self._kinds,
            concepts=names[: len(self._concepts)],
            qualifiers=list(self._qualifier_keys),
            remarks=tuple(self._remarks),
        )

    def _name(self, identity: str, record: Mapping[str, Any]) -> str:
        name = record.get("name")
        if not isinstance(name, str):
            raise self._error(f"{identity!r} has no name that is a text")
        return name

    def _parents(self, identity: str) -> list[int]:
        """What an entity is an instance, or a concept a subclass of: released files call both `instanceOf`."""
        found = []
        for other in self._list(identity, "subclassOf", "instanceOf"):
            number = self._number.get(other) if isinstance(other, str) else None
            if number is None:
                self._remark(identity, f"is said to be a {other!r:.60}, which is no id of this base; left out")
            else:
                found.append(number)
        return found

    def _members(self, names: list[str], parents: list[list[int]]) -> dict[str, EntitySet]:
        for circle in cycles(parents):
            members = ", ".join(names[number] for number in circle)
            self._remarks.append(Skipped(f"concepts {members}", "are below one another; kept, as KoPL does"))
        above = ancestors(parents)
        return _grouped((number, names[one]) for number, found in enumerate(above) for one in found)

    def _read_attributes(self, identity: str) -> None:
        for place, raw in enumerate(self._list(identity, "attributes")):
            try:
                fields = _fields(raw)
                key = _text(fields, "key")
                value, qualifiers = self._value(fields.get("value")), self._qualifiers(fields)
            except ValueError as error:
                self._remark(identity, f"attribute {place}: {error}; left out")
                continue
            self._kinds[key] = _TYPE[value.kind]
            self._learn(qualifiers)
            if key not in self._attributes:
                self._attributes[key] = KeyIndex()
            self._attributes[key].add(self._number[identity], Attribute(value, qualifiers))

    def _read_relations(self, identity: str) -> None:
        for place, raw in enumerate(self._list(identity, "relations")):
            try:
                fields = _fields(raw)
                predicate = _text(fields, "predicate" if "predicate" in fields else "relation")
                direction, other = _text(fields, "direction"), _text(fields, "object")
                if direction not in DIRECTIONS:
                    raise ValueError(f"the direction {direction!r:.40} is none of {', '.join(DIRECTIONS)}")
                if other not in self._number:
                    raise ValueError(f"the object {other!r:.60} is no id of this base")
                qualifiers = self._qualifiers(fields)
            except ValueError as error:
                self._remark(identity, f"relation {place}: {error}; left out")
                continue
            self._learn(qualifiers)
            fact = Relation(predicate, direction, self._number[other], qualifiers)
            self._facts[self._number[identity]].append(fact)
            if other in self._concepts:  # KoPL turns these round, so that they can be followed from a concept
                back = Relation(predicate, _OPPOSITE[direction], self._number[identity], qualifiers)
                self._facts[self._number[other]].append(back)

    def _value(self, raw: object) -> Value:
        value = from_json(raw)
        return self._values.setdefault(value, value)

    def _qualifiers(self, fields: Mapping[str, Any]) -> Qualifiers:
        raw = fields.get("qualifiers")
        if not isinstance(raw, Mapping) or not all(isinstance(values, list) for values in raw.values()):
            raise ValueError("`qualifiers` is an object of lists")
        if not raw:
            return _NO_QUALIFIERS
        return {key: tuple(self._value(value) for value in values) for key, values in raw.items()}

    def _learn(self, qualifiers: Qualifiers) -> None:
        """Note the keys; a key's kind is that of its last value, as in KoPL."""
        for key, values in qualifiers.items():
            self._qualifier_keys[key] = None
            for value in values:
                self._kinds[key] = _TYPE[value.kind]

    def _relation_indexes(
        self,
    ) -> tuple[dict[tuple[str, str], RelationIndex], dict[int, dict[int, list[Relation]]]]:
        by_predicate: dict[tuple[str, str], dict[int, list[Relation]]] = defaultdict(dict)
        pairs: dict[int, dict[int, list[Relation]]] = defaultdict(dict)
        for number, facts in enumerate(self._facts):
            for fact in _without_repeats(facts) if number < len(self._concepts) else facts:
                by_predicate[fact.predicate, fact.direction].setdefault(number, []).append(fact)
                if fact.direction == "forward":
                    pairs[number].setdefault(fact.other, []).append(fact)
        return {way: RelationIndex(found) for way, found in by_predicate.items()}, dict(pairs)

    def _list(self, identity: str, *names: str) -> list[Any]:
        found = next((self._records[identity][name] for name in names if name in self._records[identity]), None)
        if not isinstance(found, list):
            raise self._error(f"{identity!r} has no list {' or '.join(names)}")
        return found

    def _object(self, raw: object, what: str) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise self._error(f"{what}: an object is expected, not {type(raw).__name__}")
        return raw

    def _error(self, message: str) -> DataError:
        return DataError(self._source, None, message)

    def _remark(self, identity: str, reason: str) -> None:
        self._remarks.append(Skipped(identity, reason))


def _grouped(numbered: Iterator[tuple[int, str]] | enumerate[str]) -> dict[str, EntitySet]:
    """Ascending numbers by name, each once."""
    found: dict[str, dict[int, None]] = defaultdict(dict)
    for number, name in numbered:
        found[name][number] = None
    return {name: EntitySet(tuple(numbers), sorted_once=True) for name, numbers in found.items()}


def _without_repeats(facts: list[Relation]) -> list[Relation]:
    """A concept's relations, equal ones once."""
    seen = {(f.predicate, f.direction, f.other, frozenset(f.qualifiers.items())): f for f in reversed(facts)}
    kept = {id(fact) for fact in seen.values()}
    return [fact for fact in facts if id(fact) in kept]


def _fields(raw: object) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ValueError(f"an object is expected, not {type(raw).__name__}")
    return raw


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise ValueError(f"`{name}` is a text, not {type(found).__name__}")
    return found


# What stands above what, among concepts and entities, cycles included.


def ancestors(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each node all that stand above it, in ascending order; `parents` holds each node's direct ones.

    A node that is said to be its own parent is not above itself for that alone (KoPL's get_all_concepts).
    """
    known: dict[int, frozenset[int]] = {}

    def reached(start: int) -> frozenset[int]:
        if start not in known:
            found, pending = {start}, [start]
            while pending:
                for parent in parents[pending.pop()]:
                    if parent not in found:
                        found.add(parent)
                        pending.append(parent)
            known[start] = frozenset(found)
        return known[start]

    direct = [{parent for parent in found if parent != node} for node, found in enumerate(parents)]
    return [sorted(frozenset().union(*map(reached, found))) for found in direct]


def cycles(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups of nodes that all stand above one another, and nodes that are their own parents."""
    edges = [(node, parent) for node, found in enumerate(parents) for parent in found]
    if not edges:
        return []
    ends = np.array(edges)
    graph = coo_array((np.ones(len(edges)), (ends[:, 0], ends[:, 1])), shape=(len(parents), len(parents)))
    count, labels = connected_components(graph, directed=True, connection="strong")
    loops = {node for node, parent in edges if node == parent}
    sizes = np.bincount(labels, minlength=count)
    groups: dict[int, list[int]] = {}
    for node in np.flatnonzero((sizes[labels] > 1) | np.isin(np.arange(len(parents)), list(loops))):
        groups.setdefault(int(labels[node]), []).append(int(node))
    return list(groups.values())

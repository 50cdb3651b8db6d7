"""Sets of entities with the facts that they were found by, and the sorted index of one attribute key."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

from grid.worlds.kopl.values import Value, condition

DIRECTIONS = ("forward", "backward")
Qualifiers: TypeAlias = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One fact of an entity: a value under a key."""

    value: Value
    qualifiers: Qualifiers


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """One fact of an entity: `direction` is `forward` where the entity is the subject, `other` the entity related."""

    predicate: str
    direction: str
    other: int
    qualifiers: Qualifiers


_BISECTIONS = 20  # entities that go into a table in the time that one is looked for by bisection
Fact: TypeAlias = Attribute | Relation


@dataclass(frozen=True, eq=False)
class EntitySet:
    """Entities by number, in the order found; `facts`, where there are any, has one for each.

    An entity found by two facts is in it twice, as in KoPL. `sorted_once` says that the numbers ascend and none
    comes twice. Never changed once made, so that results can share parts.
    """

    ids: Sequence[int]
    facts: Sequence[Fact] | None = None
    sorted_once: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_everything(self) -> bool:
        """Whether it is the set of all entities, which alone is a range."""
        return isinstance(self.ids, range)

    @cached_property
    def members(self) -> frozenset[int]:
        """For looking up whether an entity is in the set."""
        return frozenset(self.ids)

    def membership(self, lookups: int) -> Callable[[int], bool]:
        """A test of being in the set, to be asked so often: for few questions no table of its members is made."""
        if "members" in self.__dict__ or not self.sorted_once or lookups * _BISECTIONS > len(self.ids):
            return self.members.__contains__
        ids, end = self.ids, len(self.ids)

        def found(entity: int) -> bool:
            place = bisect_left(ids, entity)
            return place < end and ids[place] == entity

        return found

    @cached_property
    def distinct(self) -> Sequence[int]:
        """Each entity once, in the knowledge base's order."""
        return self.ids if self.sorted_once else sorted(set(self.ids))


@dataclass
class _Sorted:
    """Values in ascending order, each with its place among the key's facts."""

    keys: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def sort(self) -> None:
        order = sorted(range(len(self.keys)), key=lambda i: (self.keys[i], self.places[i]))
        self.keys, self.places = [self.keys[i] for i in order], [self.places[i] for i in order]

    def slices(self, low: int, high: int, op: str) -> list[tuple[Sequence[int], int, int]]:
        """The places that an operator selects, where the target's equals are at `low` up to `high`."""
        if op == "=":
            found = [(low, high)]
        elif op == "!=":
            found = [(0, low), (high, len(self.keys))]
        else:
            found = [(0, low)] if op == "<" else [(high, len(self.keys))]
        return [(self.places, start, end) for start, end in found if start < end]


class RelationIndex:
    """All facts of one relation in one direction, by the entity that has them, and where they lead from all."""

    def __init__(self, by_entity: Mapping[int, Sequence[Relation]]) -> None:
        self.by_entity = by_entity
        self.all = related(fact for facts in by_entity.values() for fact in facts)


def related(facts: Iterable[Relation]) -> EntitySet:
    """What facts lead to, with the facts."""
    found = list(facts)
    return EntitySet([fact.other for fact in found], found)


class KeyIndex:
    """All facts under one attribute key, in the base's order, and sorted by value within what can be compared."""

    def __init__(self) -> None:
        self.entities: list[int] = []
        self.facts: list[Attribute] = []
        self.by_entity: dict[int, list[Attribute]] = {}
        self._strings: dict[str, list[int]] = defaultdict(list)
        self._numbers: dict[str, _Sorted] = defaultdict(_Sorted)
        self._days, self._years = _Sorted(), _Sorted()

    def add(self, entity: int, fact: Attribute) -> None:
        """One more fact; entities come in ascending order."""
        place, value = len(self.facts), fact.value
        self.entities.append(entity)
        self.facts.append(fact)
        self.by_entity.setdefault(entity, []).append(fact)
        if value.kind == "string":
            self._strings[value.string].append(place)
            return
        key: float | tuple[int, ...]
        if value.kind == "quantity":
            at, key = self._numbers[value.unit], value.number
        else:
            at, key = self._years if len(value.moment) == 1 else self._days, value.moment
        at.keys.append(key)
        at.places.append(place)

    def finish(self) -> None:
        """Sort; to be called once after the last fact."""
        for part in (*self._numbers.values(), self._days, self._years):
            part.sort()

    def matching(self, among: EntitySet, op: str, target: Value) -> EntitySet:
        """The entities of a set with a fact that holds, in the base's order.

        Costs the smaller of the set and of what holds in the whole base.
        """
        slices = self._slices(op, target)
        if sum(end - start for _, start, end in slices) > len(among):
            test, by_entity = condition(op, target), self.by_entity
            pairs = [(i, fact) for i in among.distinct for fact in by_entity.get(i, ()) if test(fact.value)]
            return EntitySet([entity for entity, _ in pairs], [fact for _, fact in pairs])
        places = sorted(chain.from_iterable(places[start:end] for places, start, end in slices))
        if not among.is_everything:
            entities, inside = self.entities, among.membership(len(places))
            places = [place for place in places if inside(entities[place])]
        return EntitySet(list(map(self.entities.__getitem__, places)), list(map(self.facts.__getitem__, places)))

    @property
    def texts(self) -> list[str]:
        """Every text there is under the key, each once."""
        return list(self._strings)

    def facts_of(self, among: EntitySet) -> list[Attribute]:
        """The key's facts of a set, in its order, as often as each entity is in it."""
        if among.is_everything:
            return self.facts
        by_entity = self.by_entity
        return [fact for entity in among.ids for fact in by_entity.get(entity, ())]

    def _slices(self, op: str, target: Value) -> list[tuple[Sequence[int], int, int]]:
        if target.kind == "string":
            places = self._strings.get(target.string, [])
            return [(places, 0, len(places))] if op == "=" else []
        if target.kind == "quantity":
            numbers = self._numbers.get(target.unit)
            if numbers is None:
                return []
            low, high = bisect_left(numbers.keys, target.number), bisect_right(numbers.keys, target.number)
            return numbers.slices(low, high, op)
        return self._time_slices(op, target.moment)

    def _time_slices(self, op: str, moment: tuple[int, ...]) -> list[tuple[Sequence[int], int, int]]:
        first, last = (moment[0],), (moment[0] + 1,)
        years, days = self._years, self._days
        if len(moment) == 1:
            in_days = bisect_left(days.keys, first), bisect_left(days.keys, last)
        else:
            in_days = bisect_left(days.keys, moment), bisect_right(days.keys, moment)
        found = days.slices(*in_days, op)
        if len(moment) == 3 and op in ("=", "!="):  # no year equals a date
            return found if op == "=" else [*found, (years.places, 0, len(years.places))]
        in_years = bisect_left(years.keys, first), bisect_left(years.keys, last)
        return found + years.slices(*in_years, op)

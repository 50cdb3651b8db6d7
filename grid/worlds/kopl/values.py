"""KoPL's values and their comparison, sets of entities, and the knowledge base."""

from __future__ import annotations

import datetime as dt
import math
import operator
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from grid.core.types import Skipped
from grid.worlds.handles import CallError, shown
from grid.worlds.schema import Vocabulary

Kind = Literal["string", "quantity", "time"]
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
OPERATORS = tuple(_COMPARE)
NO_UNIT = "1"
"""The unit that KQA Pro writes for a number without a unit."""


class Value(NamedTuple):
    """One value; its kind determines which fields are used.

    `moment` is (year,) or (year, month, day). A year alone may be 0 or negative (44 BC is -44), but the year of a full
    date may not.
    """

    kind: Kind
    string: str = ""
    number: float = 0.0
    unit: str = ""
    moment: tuple[int, ...] = ()

    def text(self) -> str:
        """The value as in KQA Pro's answers: `206 centimetre`, `2003-06-26`, `1970`.

        A number that exceeds its whole part by less than 1e-5 loses its fraction, and so does every negative number,
        because the reference engine, which produced the answers, does the same.
        """
        if self.kind == "string":
            return self.string
        if self.kind == "time":
            if len(self.moment) == 1:
                return str(self.moment[0])
            return "{:04d}-{:02d}-{:02d}".format(*self.moment)
        whole = int(self.number)
        number = whole if self.number - whole < 1e-5 else self.number
        return str(number) if self.unit == NO_UNIT else f"{number} {self.unit}"


def condition(op: str, target: Value) -> Callable[[Value], bool]:
    """The test `value op target`, which is false for a value that cannot be compared with the target.

    `op` must be one of `OPERATORS`. If the target is a text, every test but `=` is false.


    Numbers are comparable only in the same unit. A date equals the year that contains it, but a year does not equal any
    date; for `<` and `>`, a date and a year are compared by their years.
    """
    if op == "=" and (target.kind != "time" or len(target.moment) > 1):
        return target.__eq__
    if target.kind == "time":
        return _time_condition(op, target.moment)
    if target.kind == "string":
        return lambda value: False
    compare, unit, number = _COMPARE[op], target.unit, target.number
    return lambda value: value.kind == "quantity" and value.unit == unit and compare(value.number, number)


def _time_condition(op: str, target: tuple[int, ...]) -> Callable[[Value], bool]:
    compare, length, year = _COMPARE[op], len(target), target[:1]
    if length == 1 or op == "!=":
        return lambda value: value.kind == "time" and compare(value.moment[:length], target)
    return lambda value: (
        value.kind == "time"
        and (compare(value.moment, target) if len(value.moment) == length else compare(value.moment, year))
    )


def parse(kind: str, text: str) -> Value:
    """A value, written as in a function's argument: `188 centimetre`, `2003-06-26` or `2003/6/26`, `2003`.

    Raises:
        KoplError: the text is not a value of this kind (`string`, `quantity`, `year` or `date`; the last two are read
            in the same way).
    """
    if kind == "string":
        return Value("string", string=text)
    try:
        if kind == "quantity":
            first, *rest = text.split() if " " in text else [text]
            unit = " ".join(rest) if " " in text else NO_UNIT
            return Value("quantity", number=_finite(first), unit=unit)
        return Value("time", moment=_moment(text))
    except ValueError:
        wanted = "a number, with its unit behind it" if kind == "quantity" else "a year or a date as year-month-day"
        raise KoplError(f"{shown(text)} is not {wanted}") from None


def from_json(raw: Any) -> Value:
    """A value, written as in a knowledge base: {"type", "value", "unit" of a quantity}.

    Raises:
        ValueError: the value is not valid; the message gives the reason.
    """
    if not isinstance(raw, Mapping):
        raise ValueError(f"a value must be an object, not {type(raw).__name__}")
    kind, value = raw.get("type"), raw.get("value")
    if kind == "string":
        if not isinstance(value, str):
            raise ValueError(f"a string's value must be a text, not {type(value).__name__}")
        return Value("string", string=value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"a value of type {kind!r:.40} must be a number or a text, not {type(value).__name__}")
    if kind == "quantity":
        if not isinstance(raw.get("unit"), str):
            raise ValueError("a quantity must have a unit")
        return Value("quantity", number=_finite(value), unit=raw["unit"])
    if kind in ("year", "date"):
        return Value("time", moment=_moment(str(value)))
    raise ValueError(f"the type {kind!r:.40} is not one of string, quantity, year, date")


def _finite(value: str | float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r:.40} is not a finite number")
    return number


def _moment(text: str) -> tuple[int, ...]:
    mark = "/" if "/" in text else "-" if "-" in text and text[0] != "-" else None
    if mark is None:
        return (int(text),)
    first, last = text.find(mark), text.rfind(mark)
    try:
        day = dt.date(int(text[:first]), int(text[first + 1 : last]), int(text[last + 1 :]))
    except OverflowError:
        raise ValueError(f"{text!r:.40} has a number that is too large for a date") from None
    return (day.year, day.month, day.day)


# Errors raised if a call of the knowledge base's functions, or a program of such calls, has no result.


class KoplError(CallError):
    """A call that cannot have a result; the message gives the reason in one sentence."""


class ProgramError(KoplError):
    """A program cannot run; the error has the step (from 0; None for the whole program) and the reason."""

    def __init__(self, step: int | None, message: str) -> None:
        self.step, self.message = step, message
        super().__init__(message if step is None else f"step {step}: {message}")

    def __reduce__(self) -> tuple[type[ProgramError], tuple[int | None, str]]:
        """Let the error be pickled, so that it can pass between processes."""
        return type(self), (self.step, self.message)


# The terms used by KoPL's tools, as planners read them (planning_horizon §4.1).


GLOSSARY = (
    "- entity: a person, a place, a work or any other individual thing with a name. Several entities may share a name.",
    "- concept: a kind of entity, with narrower concepts below it. A concept is found by its name, as entities are.",
    "- attribute: a key and a value that belong to an entity. The value has one of four types: text, a number (with "
    "its unit if it has one), a year or a date.",
    "- relation: a link from one entity, the subject, to another, the object. It can be followed forward, from subject "
    "to object, or backward.",
    "- fact: one attribute of an entity with its value, or one relation between two entities.",
    "- qualifier: a key and a value that say more about a fact, such as when it began to hold. Its value has one of "
    "the same four types.",
    "- entity set: what most tools take and return. A set that was filtered by an attribute or reached through a "
    "relation keeps the facts by which its entities were found; qualifier filters look at these facts.",
)


# Sets of entities with the facts by which the entities were found, and the sorted index of one attribute key.


DIRECTIONS = ("forward", "backward")
Qualifiers: TypeAlias = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One fact of an entity: a value under a key."""

    value: Value
    qualifiers: Qualifiers


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """One fact of an entity: `direction` is `forward` if the entity is the subject; `other` is the related entity."""

    predicate: str
    direction: str
    other: int
    qualifiers: Qualifiers


_BISECTIONS = 20  # entities that can be put into a table in the time of one bisection lookup
Fact: TypeAlias = Attribute | Relation


@dataclass(frozen=True, eq=False)
class EntitySet:
    """Entities as numbers, in the order in which they were found. `facts` is None or has one fact for each entity.

    An entity found by two facts is in the set twice, as in KoPL. `sorted_once` means that the numbers ascend without
    repetition. A set never changes, so results can share parts.
    """

    ids: Sequence[int]
    facts: Sequence[Fact] | None = None
    sorted_once: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_everything(self) -> bool:
        """Whether this is the set of all entities. No other set stores its numbers as a range."""
        return isinstance(self.ids, range)

    @cached_property
    def members(self) -> frozenset[int]:
        """The entities as a frozen set, for testing membership."""
        return frozenset(self.ids)

    def membership(self, lookups: int) -> Callable[[int], bool]:
        """A test of whether an entity is in the set.

        If there are few `lookups`, the test uses bisection and builds no table.
        """
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
    """Values in ascending order, each with the index of its fact among the key's facts."""

    keys: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def sort(self) -> None:
        order = sorted(range(len(self.keys)), key=lambda i: (self.keys[i], self.places[i]))
        self.keys, self.places = [self.keys[i] for i in order], [self.places[i] for i in order]

    def slices(self, low: int, high: int, op: str) -> list[tuple[Sequence[int], int, int]]:
        """The slices of `places` that an operator selects.

        The values from index `low` up to `high` are equal to the target.
        """
        if op == "=":
            found = [(low, high)]
        elif op == "!=":
            found = [(0, low), (high, len(self.keys))]
        else:
            found = [(0, low)] if op == "<" else [(high, len(self.keys))]
        return [(self.places, start, end) for start, end in found if start < end]


class RelationIndex:
    """All facts of one relation in one direction, by entity, and the set of entities to which these facts lead."""

    def __init__(self, by_entity: Mapping[int, Sequence[Relation]]) -> None:
        self.by_entity = by_entity
        self.all = related(fact for facts in by_entity.values() for fact in facts)


def related(facts: Iterable[Relation]) -> EntitySet:
    """The entities to which the facts lead, with these facts."""
    found = list(facts)
    return EntitySet([fact.other for fact in found], found)


class KeyIndex:
    """All facts under one attribute key, in the base's order and also, for comparable values, sorted by value."""

    def __init__(self) -> None:
        self.entities: list[int] = []
        self.facts: list[Attribute] = []
        self.by_entity: dict[int, list[Attribute]] = {}
        self._strings: dict[str, list[int]] = defaultdict(list)
        self._numbers: dict[str, _Sorted] = defaultdict(_Sorted)
        self._days, self._years = _Sorted(), _Sorted()

    def add(self, entity: int, fact: Attribute) -> None:
        """Add one more fact. Facts must be added in ascending order of their entities."""
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
        """Sort the facts; call it once, after the last fact."""
        for part in (*self._numbers.values(), self._days, self._years):
            part.sort()

    def matching(self, among: EntitySet, op: str, target: Value) -> EntitySet:
        """The entities of a set with a fact that meets the condition, in the base's order.

        The running time grows with the set's size or with the number of matching facts in the whole base, whichever is
        smaller.
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
        """All distinct texts under the key."""
        return list(self._strings)

    def facts_of(self, among: EntitySet) -> list[Attribute]:
        """The key's facts about the entities of a set, in the set's order.

        If an entity is in the set twice, its facts are repeated.
        """
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
        if len(moment) == 3 and op in ("=", "!="):  # a year does not equal any date
            return found if op == "=" else [*found, (years.places, 0, len(years.places))]
        in_years = bisect_left(years.keys, first), bisect_left(years.keys, last)
        return found + years.slices(*in_years, op)


# An indexed knowledge base, in which every function finds its result without scanning all facts.


@dataclass(frozen=True, eq=False)
class KnowledgeBase:
    """A base in which entities are numbers: first the concepts (also entities in KoPL), then all others, in file order.

    Attributes:
        names: the name of every entity, by the entity's number.
        identities: the ids of the entities in the file.
        by_name: for each name, the entities that have it.
        members: for each name of a class, all entities of the class, including those of its subclasses.
        attributes: the facts under each attribute key.
        relations: the facts of each predicate and direction (`forward`, `backward`).
        pairs: for each entity, the facts of its forward relations, by the entity to which they lead.
        kinds: for each attribute and qualifier key, the type of its values, for functions that do not name a type.
        concepts: the names of the concepts.
        qualifiers: the qualifier keys.
        remarks: parts of the file that were left out or read in a special way, with the reason.
    """

    names: Sequence[str]
    identities: Sequence[str]
    by_name: Mapping[str, EntitySet]
    members: Mapping[str, EntitySet]
    attributes: Mapping[str, KeyIndex]
    relations: Mapping[tuple[str, str], RelationIndex]
    pairs: Mapping[int, Mapping[int, Sequence[Relation]]]
    kinds: Mapping[str, str]
    concepts: Sequence[str]
    qualifiers: Sequence[str]
    remarks: tuple[Skipped, ...]

    @cached_property
    def everything(self) -> EntitySet:
        """All entities."""
        return EntitySet(range(len(self.names)), sorted_once=True)

    @cached_property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All names of each kind: `concept`, `attribute`, `relation`, `qualifier` and `entity`."""
        return {
            "concept": Vocabulary("concept", [*self.concepts, *self.members]),
            "attribute": Vocabulary("attribute key", list(self.attributes)),
            "relation": Vocabulary("relation", [predicate for predicate, _ in self.relations]),
            "qualifier": Vocabulary("qualifier key", self.qualifiers),
            "entity": Vocabulary("entity", list(self.by_name)),
        }

    @cached_property
    def qualifier_texts(self) -> Mapping[str, Vocabulary]:
        """For each qualifier key, the values that are texts."""
        attributes = (fact for index in self.attributes.values() for fact in index.facts)
        relations = (fact for index in self.relations.values() for fact in index.all.facts or ())
        found: dict[str, dict[str, None]] = {}
        for fact in chain[Fact](attributes, relations):
            for key, values in fact.qualifiers.items():
                found.setdefault(key, {}).update((value.string, None) for value in values if value.kind == "string")
        return {key: Vocabulary(f"value of {key}", list(texts)) for key, texts in found.items() if texts}

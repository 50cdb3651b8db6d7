"""KoPL's functions, which find and filter entities or return values, names, numbers and verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grid.core.types import Json
from grid.worlds.handles import shown
from grid.worlds.kopl.values import (
    DIRECTIONS,
    OPERATORS,
    Attribute,
    EntitySet,
    KnowledgeBase,
    KoplError,
    Relation,
    Value,
    condition,
    parse,
    related,
)

BETWEEN = ("less", "greater")
AMONG = ("smallest", "largest")
_NONE: Sequence[Attribute] = ()


def query_name(kb: KnowledgeBase, entities: EntitySet) -> Texts:
    """Each entity's name."""
    return Texts(kb.names if entities.is_everything else list(map(kb.names.__getitem__, entities.ids)))


def count(kb: KnowledgeBase, entities: EntitySet) -> Answer:
    """The number of entities; an entity found by two facts counts twice, as in KoPL."""
    return Answer(str(len(entities)))


def select_between(kb: KnowledgeBase, l_entities: EntitySet, r_entities: EntitySet, key: str, op: str) -> Answer:
    """The name of the entity with the lower or higher number.

    On a tie, `less` returns the first entity, and `greater` the last. Only numbers in the most frequent unit are
    compared. If two units are equally frequent, the unit that occurs first counts.

    Raises:
        KoplError: `op` is neither `less` nor `greater`, or none of the entities has a number under the key.
    """
    _one_of(op, BETWEEN)
    found = _numbers(kb, (*l_entities.ids, *r_entities.ids), key)
    pick = min(found, key=_number) if op == "less" else max(reversed(found), key=_number)
    return Answer(kb.names[pick[0]])


def select_among(kb: KnowledgeBase, entities: EntitySet, key: str, op: str) -> Texts:
    """The distinct names of all entities with the lowest or highest number.

    The unit is chosen as in `select_between`.

    Raises:
        KoplError: `op` is neither `smallest` nor `largest`, or none of the entities has a number under the key.
    """
    _one_of(op, AMONG)
    index = kb.attributes.get(key)
    ids = index.by_entity if index and entities.is_everything else entities.distinct
    found = _numbers(kb, ids, key)
    best = (min if op == "smallest" else max)(found, key=_number)[1].number
    return Texts(list(dict.fromkeys(kb.names[entity] for entity, value in found if value.number == best)))


def query_attribute(kb: KnowledgeBase, entities: EntitySet, key: str) -> Values:
    """Every value of the attribute."""
    return Values([fact.value for fact in _facts(kb, entities, key)])


def query_attribute_under_condition(kb: KnowledgeBase, entities: EntitySet, key: str, qkey: str, qvalue: str) -> Values:
    """The values of the attribute that have the qualifier `qkey` with the value `qvalue`.

    Raises:
        KoplError: no attribute or qualifier of the base has the key `qkey`, or `qvalue` is not a value of its type.
    """
    test = condition("=", parse(_kind(kb, qkey), qvalue))
    return Values([fact.value for fact in _facts(kb, entities, key) if any(map(test, fact.qualifiers.get(qkey, ())))])


def verify(kb: KnowledgeBase, s_value: Values, t_value: str, op: str = "=", *, kind: str) -> Answer:
    """Return `yes` if all values meet the condition, `no` if none does (or there are none), else `not sure`.

    Raises:
        KoplError: `t_value` is not a value of the kind, or `op` is not an operator.
    """
    target = parse(kind, t_value)
    check_operator(op)
    right = sum(map(condition(op, target), s_value.values))
    if right == 0:
        return Answer("no")
    return Answer("yes" if right == len(s_value.values) else "not sure")


def query_relation(kb: KnowledgeBase, s_entities: EntitySet, t_entities: EntitySet) -> Texts:
    """The relations that lead from an entity in the first set to an entity in the second."""
    return Texts([fact.predicate for fact in between(kb, s_entities, t_entities)])


def query_attribute_qualifier(kb: KnowledgeBase, entities: EntitySet, key: str, value: str, qkey: str) -> Values:
    """The values that the qualifier `qkey` has for attributes with the given value.

    Raises:
        KoplError: no attribute or qualifier of the base has the key `key`, or `value` is not a value of its type.
    """
    test = condition("=", parse(_kind(kb, key), value))
    return Values(
        [
            qualifier
            for fact in _facts(kb, entities, key)
            if test(fact.value)
            for qualifier in fact.qualifiers.get(qkey, ())
        ]
    )


def query_relation_qualifier(
    kb: KnowledgeBase, s_entities: EntitySet, t_entities: EntitySet, relation: str, qkey: str
) -> Values:
    """The values of the qualifier `qkey` in the relation's facts that link the first set to the second."""
    return Values(
        [
            value
            for fact in between(kb, s_entities, t_entities)
            if fact.predicate == relation
            for value in fact.qualifiers.get(qkey, ())
        ]
    )


def _facts(kb: KnowledgeBase, entities: EntitySet, key: str) -> Sequence[Attribute]:
    """The facts under a key, in the order of the entities. If an entity is in the set twice, its facts are repeated."""
    index = kb.attributes.get(key)
    return index.facts_of(entities) if index else ()


def between(kb: KnowledgeBase, s_entities: EntitySet, t_entities: EntitySet) -> Iterator[Relation]:
    """The forward relations from each entity of the first set to each entity of the second, in the sets' order.

    The running time grows with the size of both sets. For each entity of the first set, the running time also grows
    with the number of entities to which this entity leads or, if that is smaller, with the size of the second set.
    """
    everything = t_entities.is_everything
    places: dict[int, list[int]] = {}
    for place, entity in enumerate(() if everything else t_entities.ids):
        places.setdefault(entity, []).append(place)
    pairs = kb.pairs
    for source in s_entities.ids:
        leads = pairs.get(source)
        if leads is None:
            continue
        if everything:
            hits = [(other, other) for other in leads]
        elif len(leads) < len(places):
            hits = [(place, other) for other in leads for place in places.get(other, ())]
        else:
            hits = [(place, other) for other in places if other in leads for place in places[other]]
        for _, other in sorted(hits):
            yield from leads[other]


def _numbers(kb: KnowledgeBase, entities: Iterable[int], key: str) -> list[tuple[int, Value]]:
    """The entities with their numbers under a key, in the most frequent unit.

    Raises KoplError if there are no numbers.
    """
    index = kb.attributes.get(key)
    by_entity = index.by_entity if index else {}
    found = [
        (entity, fact.value)
        for entity in entities
        for fact in by_entity.get(entity, _NONE)
        if fact.value.kind == "quantity"
    ]
    if not found:
        raise KoplError(f"none of the given entities has a number as {shown(key)}")
    unit = Counter(value.unit for _, value in found).most_common(1)[0][0]
    return [pair for pair in found if pair[1].unit == unit]


def _number(pair: tuple[int, Value]) -> float:
    return pair[1].number


def _kind(kb: KnowledgeBase, key: str) -> str:
    kind = kb.kinds.get(key)
    if kind is None:
        raise KoplError(f"no attribute or qualifier has the key {shown(key)}")
    return kind


def _one_of(op: str, allowed: tuple[str, str]) -> None:
    if op not in allowed:
        raise KoplError(f"{shown(op)} is neither {allowed[0]} nor {allowed[1]}")


# A call's results (entities, values, names or one text), how they are shown, and how they are compared with answers.


SHOWN = 10
"""The maximum number of entities or values that an observation names."""


@dataclass(frozen=True, eq=False)
class Values:
    """Values of attributes or qualifiers, in the order found."""

    values: Sequence[Value]


@dataclass(frozen=True, eq=False)
class Texts:
    """Names of entities or of relations, in the order found."""

    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class Answer:
    """One text: a name, a number, or `yes`, `no`, `not sure`."""

    text: str


Result: TypeAlias = EntitySet | Values | Texts | Answer


def is_empty(result: Result) -> bool:
    """Whether a result has no entities, values or texts."""
    if isinstance(result, EntitySet):
        return not len(result)
    if isinstance(result, Values):
        return not result.values
    return isinstance(result, Texts) and not result.texts


def texts(result: Result) -> tuple[str, ...] | None:
    """The result as texts, as in KQA Pro's answers; None for an entity set, which only QueryName converts to names.

    A text that was found several times is repeated.
    """
    if isinstance(result, EntitySet):
        return None
    if isinstance(result, Values):
        return tuple(value.text() for value in result.values)
    return tuple(result.texts) if isinstance(result, Texts) else (result.text,)


def told(kb: KnowledgeBase, result: Result) -> Json:
    """The result as an observation shows it: its values or, if there are over ten, their number and the first ten.

    A single value is shown without a list. An entity set is shown as its size and the names of its first ten entities.
    """
    if isinstance(result, Answer):
        return result.text
    if isinstance(result, EntitySet):
        return {"entities": len(result), "names": [kb.names[entity] for entity in result.ids[:SHOWN]]}
    found: Sequence[str] = (
        [value.text() for value in result.values[:SHOWN]] if isinstance(result, Values) else list(result.texts[:SHOWN])
    )
    count = len(result.values) if isinstance(result, Values) else len(result.texts)
    if count == 1:
        return found[0]
    return list(found) if count <= SHOWN else {"values": count, "first": list(found)}


def same_answer(found: Collection[str], wanted: Collection[str]) -> bool:
    """Whether two answers have the same values. The values' order and repetitions do not matter.

    Numbers, dates and years are compared by value: `206.0 centimetre` equals `206 centimetre`, and `2003/6/26` equals
    `2003-06-26`. Numbers are equal if they have the same unit and differ by at most one part in 10^9. A date does not
    equal its year.
    """
    return _covers(found, wanted) and _covers(wanted, found)


def _covers(some: Collection[str], others: Collection[str]) -> bool:
    exact = set(others)
    return all(text in exact or any(_same(text, other) for other in exact) for text in set(some))


def _same(left: str, right: str) -> bool:
    for kind in ("quantity", "date"):
        try:
            a, b = parse(kind, left), parse(kind, right)
        except KoplError:
            continue
        return a.unit == b.unit and a.moment == b.moment and math.isclose(a.number, b.number, rel_tol=1e-9)
    return False


# KoPL's functions that return entity sets: they look up and filter entities, follow relations, and combine sets.


NOTHING = EntitySet((), sorted_once=True)


def find_all(kb: KnowledgeBase) -> EntitySet:
    """All entities, including concepts."""
    return kb.everything


def find(kb: KnowledgeBase, name: str) -> EntitySet:
    """The entities and concepts with this name."""
    return kb.by_name.get(name, NOTHING)


def filter_concept(kb: KnowledgeBase, entities: EntitySet, concept_name: str) -> EntitySet:
    """The entities that are instances of a concept or of one of its subconcepts."""
    return both(kb, entities, kb.members.get(concept_name, NOTHING))


def filter_attribute(
    kb: KnowledgeBase, entities: EntitySet, key: str, value: str, op: str = "=", *, kind: str
) -> EntitySet:
    """The entities with attributes that meet the condition, once for each such attribute.

    These attributes become the set's facts.

    Raises:
        KoplError: `value` is not a value of the kind, or `op` is not an operator.
    """
    target = parse(kind, value)
    check_operator(op)
    index = kb.attributes.get(key)
    return index.matching(entities, op, target) if index else EntitySet((), ())


def filter_qualifier(
    kb: KnowledgeBase, entities: EntitySet, qkey: str, qvalue: str, op: str = "=", *, kind: str
) -> EntitySet:
    """The entities whose fact has a matching qualifier, and these facts.

    Raises:
        KoplError: the set has no facts (`facts` is None), `qvalue` is not a value of the kind, or `op` is not an
            operator.
    """
    target = parse(kind, qvalue)
    check_operator(op)
    if entities.facts is None:
        raise KoplError(
            "the given entities carry no facts: a qualifier filter takes what a filter by attribute or Relate returns"
        )
    test, ids, facts = condition(op, target), [], []
    for entity, fact in zip(entities.ids, entities.facts, strict=True):
        values = fact.qualifiers.get(qkey)
        if values and any(map(test, values)):
            ids.append(entity)
            facts.append(fact)
    return EntitySet(ids, facts)


def relate(kb: KnowledgeBase, entities: EntitySet, relation: str, direction: str) -> EntitySet:
    """The entities to which a relation leads, once for each fact that leads there; the set keeps these facts.

    Raises:
        KoplError: the direction is neither `forward` nor `backward`.
    """
    if direction not in DIRECTIONS:
        raise KoplError(f"the direction {shown(direction)} is none of {', '.join(DIRECTIONS)}")
    index = kb.relations.get((relation, direction))
    if index is None:
        return EntitySet((), ())
    if entities.is_everything:
        return index.all
    by_entity = index.by_entity
    return related(fact for entity in entities.distinct for fact in by_entity.get(entity, ()))


def both(kb: KnowledgeBase, l_entities: EntitySet, r_entities: EntitySet) -> EntitySet:
    """The entities in both sets, each once, without facts.

    If the larger set is `sorted_once`, the running time depends only on the smaller set.
    """
    small, large = sorted((l_entities, r_entities), key=len)
    if large.is_everything:
        return small if small.sorted_once else EntitySet(small.distinct, sorted_once=True)
    return EntitySet(list(filter(large.membership(len(small)), small.distinct)), sorted_once=True)


def either(kb: KnowledgeBase, l_entities: EntitySet, r_entities: EntitySet) -> EntitySet:
    """The entities that are in at least one of the two sets, each once, without facts."""
    for one in (l_entities, r_entities):
        if one.is_everything:
            return one
    return EntitySet(sorted({*l_entities.ids, *r_entities.ids}), sorted_once=True)


def check_operator(op: str) -> None:
    """Raise KoplError if the operator is not one of the four operators."""
    if op not in OPERATORS:
        raise KoplError(f"the operator {shown(op)} is none of {', '.join(OPERATORS)}")

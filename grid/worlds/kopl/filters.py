"""KoPL's functions that return entity sets: look up, filter, follow relations, combine."""

from __future__ import annotations

from grid.worlds.handles import shown
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.sets import DIRECTIONS, EntitySet, related
from grid.worlds.kopl.values import OPERATORS, KoplError, condition, parse

NOTHING = EntitySet((), sorted_once=True)


def find_all(kb: KnowledgeBase) -> EntitySet:
    """Every entity, concepts included; costs nothing."""
    return kb.everything


def find(kb: KnowledgeBase, name: str) -> EntitySet:
    """The entities and concepts of a name."""
    return kb.by_name.get(name, NOTHING)


def filter_concept(kb: KnowledgeBase, entities: EntitySet, concept_name: str) -> EntitySet:
    """Those that are instances of a concept or of one below it."""
    return both(kb, entities, kb.members.get(concept_name, NOTHING))


def filter_attribute(
    kb: KnowledgeBase, entities: EntitySet, key: str, value: str, op: str = "=", *, kind: str
) -> EntitySet:
    """Those with an attribute that holds, once for each such attribute, which become the set's facts."""
    target = parse(kind, value)
    check_operator(op)
    index = kb.attributes.get(key)
    return index.matching(entities, op, target) if index else EntitySet((), ())


def filter_qualifier(
    kb: KnowledgeBase, entities: EntitySet, qkey: str, qvalue: str, op: str = "=", *, kind: str
) -> EntitySet:
    """Those whose fact has a qualifier that holds, with their facts; raises KoplError where the set has no facts."""
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
    """What a relation leads to, once for each fact, which become the set's facts."""
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
    """The entities in both sets, each once, without facts; costs the smaller set once the other is ready."""
    small, large = sorted((l_entities, r_entities), key=len)
    if large.is_everything:
        return small if small.sorted_once else EntitySet(small.distinct, sorted_once=True)
    return EntitySet(list(filter(large.membership(len(small)), small.distinct)), sorted_once=True)


def either(kb: KnowledgeBase, l_entities: EntitySet, r_entities: EntitySet) -> EntitySet:
    """The entities in either set, each once, without facts."""
    for one in (l_entities, r_entities):
        if one.is_everything:
            return one
    return EntitySet(sorted({*l_entities.ids, *r_entities.ids}), sorted_once=True)


def check_operator(op: str) -> None:
    """Raise KoplError for what is none of the four."""
    if op not in OPERATORS:
        raise KoplError(f"the operator {shown(op)} is none of {', '.join(OPERATORS)}")

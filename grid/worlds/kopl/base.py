"""A knowledge base made ready: every function finds what it returns without looking at the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from grid.core.types import Skipped
from grid.worlds.kopl.sets import EntitySet, Fact, KeyIndex, Relation, RelationIndex
from grid.worlds.schema import Vocabulary


@dataclass(frozen=True, eq=False)
class KnowledgeBase:
    """Entities by number: first the concepts, which KoPL counts among them, then the entities, as the file has them.

    Attributes:
        names: of every entity, by its number.
        identities: the ids that the file gives them.
        by_name: the entities of a name.
        members: of each name that is some entity's class: all of its entities, subclasses' included.
        attributes: by key.
        relations: by predicate and direction (`forward`, `backward`).
        pairs: of each entity, by the entity that a forward relation leads to, its facts.
        kinds: of each attribute and qualifier key the type that its values are read as where a function does not say.
        concepts: the names of the concepts.
        qualifiers: the qualifier keys.
        remarks: what the file has that was left out or read in a way worth knowing, with the reason.
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
        """The identifiers by kind: `concept`, `attribute`, `relation`, `qualifier` and `entity`."""
        return {
            "concept": Vocabulary("concept", [*self.concepts, *self.members]),
            "attribute": Vocabulary("attribute key", list(self.attributes)),
            "relation": Vocabulary("relation", [predicate for predicate, _ in self.relations]),
            "qualifier": Vocabulary("qualifier key", self.qualifiers),
            "entity": Vocabulary("entity", list(self.by_name)),
        }

    @cached_property
    def qualifier_texts(self) -> Mapping[str, Vocabulary]:
        """By qualifier key the texts that are its values."""
        attributes = (fact for index in self.attributes.values() for fact in index.facts)
        relations = (fact for index in self.relations.values() for fact in index.all.facts or ())
        found: dict[str, dict[str, None]] = {}
        for fact in chain[Fact](attributes, relations):
            for key, values in fact.qualifiers.items():
                found.setdefault(key, {}).update((value.string, None) for value in values if value.kind == "string")
        return {key: Vocabulary(f"value of {key}", list(texts)) for key, texts in found.items() if texts}

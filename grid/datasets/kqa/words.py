"""How the world of `kqa_synthetic` is spoken of: wordings written one by one, and those that patterns make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from grid.datasets.kqa.world import WorldStock, read

Operator = Literal["=", "<", ">", "!="]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Wordings = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
Compared: TypeAlias = dict[Operator, Wordings]
ANY = "*"
"""In a pattern: every qualifier that has none of its own."""
_NAMED = {"string": "string", "quantity": "quantity"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Attribute(_Strict):
    """How one attribute is spoken of (attributes.yaml's head)."""

    where: Compared = {}
    ask: list[str] = []
    more: list[str] = []
    less: list[str] = []
    most: list[str] = []
    least: list[str] = []
    check: Compared = {}
    at: dict[str, Wordings] = {}
    when: dict[str, Wordings] = {}
    check_at: dict[str, Compared] = {}


class Relation(_Strict):
    """How one relation is spoken of (relations.yaml's head). `states`: as `subjects`, but never with a qualifier."""

    object: list[str] = []
    subject: list[str] = []
    objects: Annotated[list[str], BeforeValidator(_listed)] = []
    subjects: Annotated[list[str], BeforeValidator(_listed)] = []
    states: list[str] = []
    when: dict[str, Wordings] = {}


class _RawAttribute(Attribute):
    """An attribute as written: with the words that stand for its key."""

    names: list[str] = []
    things: list[str] = []
    done: list[str] = []


class _RawRelation(Relation):
    names: list[str] = []
    did: list[str] = []
    done: list[str] = []


class _RelationPatterns(_Strict):
    names: Relation
    did: Relation
    done: Relation


class _Patterns(_Strict):
    quantity: Attribute
    things: Attribute
    string: Attribute
    done: Attribute
    relation: _RelationPatterns


class _AttributeFile(_Strict):
    attributes: dict[str, _RawAttribute]
    qualifiers: dict[str, Compared]
    units: dict[str, str]


class _RelationFile(_Strict):
    relations: dict[str, _RawRelation]


class Words(_Strict):
    """All wordings: `attributes`, `relations`, `qualifiers`, plural `units`, and the frames of whole questions.

    `called` holds what stands for a key instead of its name: attribute or relation to nouns, participles and verbs.
    """

    attributes: dict[str, Attribute]
    relations: dict[str, Relation]
    qualifiers: dict[str, Compared]
    units: dict[str, str]
    frames: dict[str, Wordings]
    called: dict[str, list[str]]


def load_words(world: WorldStock) -> Words:
    """The wordings of `attributes.yaml`, `relations.yaml` and `frames.yaml`, those by `patterns.yaml` with them."""
    attributes = _AttributeFile.model_validate(read("attributes"))
    relations = _RelationFile.model_validate(read("relations")).relations
    patterns = _Patterns.model_validate(read("patterns"))
    called = {key: [*raw.names, *raw.things, *raw.done] for key, raw in attributes.attributes.items()}
    called |= {name: [*raw.names, *raw.did, *raw.done] for name, raw in relations.items()}
    return Words(
        attributes={key: _attribute(key, raw, patterns, world) for key, raw in attributes.attributes.items()},
        relations={name: _relation(name, raw, patterns.relation, world) for name, raw in relations.items()},
        qualifiers=attributes.qualifiers,
        units=attributes.units,
        frames=read("frames"),
        called=called,
    )


def _attribute(key: str, raw: _RawAttribute, patterns: _Patterns, world: WorldStock) -> Attribute:
    specs = [cls.attributes[key] for cls in world.classes.values() if key in cls.attributes]
    qualifiers = {name for spec in specs for name in spec.qualifiers}
    named = patterns.string if any(spec.string for spec in specs) else patterns.quantity
    found = _own(raw, Attribute)
    for words, pattern in ((raw.names, named), (raw.things, patterns.things), (raw.done, patterns.done)):
        for word in words:
            found = _joined(found, _filled(_own(pattern, Attribute), word), qualifiers)
    return Attribute.model_validate(found)


def _relation(name: str, raw: _RawRelation, patterns: _RelationPatterns, world: WorldStock) -> Relation:
    specs = [cls.relations[name] for cls in world.classes.values() if name in cls.relations]
    qualifiers = {key for spec in specs for key in spec.qualifiers}
    found = _own(raw, Relation)
    for words, pattern in ((raw.names, patterns.names), (raw.did, patterns.did), (raw.done, patterns.done)):
        for word in words:
            found = _joined(found, _filled(_own(pattern, Relation), word), qualifiers)
    return Relation.model_validate(found)


def _own(words: BaseModel, of: type[BaseModel]) -> dict[str, Any]:
    return words.model_dump(include=set(of.model_fields))


def _filled(pattern: Any, word: str) -> Any:
    """The pattern with a word in the places of {n}, and with its article in those of {a}."""
    if isinstance(pattern, str):
        return pattern.replace("{n}", word).replace("{a}", f"{'an' if word[0] in 'aeiou' else 'a'} {word}")
    if isinstance(pattern, Mapping):
        return {key: _filled(value, word) for key, value in pattern.items()}
    return [_filled(value, word) for value in pattern]


def _joined(words: dict[str, Any], more: dict[str, Any], qualifiers: Iterable[str]) -> dict[str, Any]:
    """Both; of wordings by qualifier only those that the facts have."""
    found = dict(words)
    for field, added in more.items():
        if field in ("at", "when", "check_at"):
            chosen = {key: added.get(key, added.get(ANY)) for key in sorted(qualifiers)}
            found[field] = _merged(words[field], {key: value for key, value in chosen.items() if value})
        else:
            found[field] = _merged(words[field], added)
    return found


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, list):
        return [*one, *other]
    return {
        key: _merged(one[key], other[key]) if key in one and key in other else (one | other)[key] for key in one | other
    }

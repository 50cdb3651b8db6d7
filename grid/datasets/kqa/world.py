"""The synthetic world in KQA Pro's `kb.json` format, built from the stock with a seed, and words for its facts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from grid.core.util import derive_seed
from grid.datasets.files import read_stock

KnowledgeBase: TypeAlias = dict[str, dict[str, Any]]
PRESENT = 2023
"""No fact is dated later than this year."""
_SLOT = re.compile(r"\{([#@]?)(\w+)\}")
_BARE = re.compile(r"^A (?=[AEIOU])")
_CODE = re.compile(r"\{([dl])(\d)\}")
_ALPHABETS = {"d": "0123456789", "l": "ABCDEFGHJKLMNPRSTUVWXY"}
_TRIES = 10_000


@dataclass
class _Entity:
    """One entity under construction.

    `leaf` is the entity's concept, `year` the year of its origin, and `named` the id of another entity, whose name is
    part of this entity's name (None: there is none).
    """

    id: str
    name: str
    cls: str
    concepts: frozenset[str]
    leaf: str
    named: str | None
    year: int | None = None
    attributes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    relations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    linked: set[str] = dataclasses.field(default_factory=set)


def build(stock: WorldStock, pools: dict[str, list[str]], seed: int) -> KnowledgeBase:
    """Build the knowledge base of a seed. No two entities or concepts have the same name.

    Raises ValueError if the stock has too few words for the names.
    """
    return _Builder(stock, pools, seed).build()


class _Builder:
    def __init__(self, stock: WorldStock, pools: dict[str, list[str]], seed: int) -> None:
        self.stock, self.pools, self.seed = stock, pools, seed
        self.concept_ids = {name: f"C{number}" for number, name in enumerate(stock.concepts, 1)}
        self.entities: dict[str, _Entity] = {}
        self.by_class: dict[str, list[_Entity]] = {}
        self.names: set[str] = set(stock.concepts)

    def build(self) -> KnowledgeBase:
        for name, cls in self.stock.classes.items():
            rng = random.Random(derive_seed(self.seed, "class", name))
            self.by_class[name] = [self._entity(name, cls, rng) for _ in range(cls.count)]
        specs = [(c, name, spec) for c, cls in self.stock.classes.items() for name, spec in cls.relations.items()]
        for owner, relation, spec in sorted(specs, key=lambda item: item[2].back is not None):
            self._relate(owner, relation, spec, random.Random(derive_seed(self.seed, "relation", owner, relation)))
        return {
            "concepts": {
                self.concept_ids[name]: {
                    "name": name,
                    "subclassOf": [self.concept_ids[concept.parent]] if concept.parent else [],
                }
                for name, concept in self.stock.concepts.items()
            },
            "entities": {
                entity.id: {
                    "name": entity.name,
                    "instanceOf": [self.concept_ids[entity.leaf]],
                    "attributes": entity.attributes,
                    "relations": entity.relations,
                }
                for entity in self.entities.values()
            },
        }

    def _entity(self, cls_name: str, cls: EntityClass, rng: random.Random) -> _Entity:
        leaf = rng.choice(cls.concepts)
        name, named = self._name(cls, leaf, rng)
        entity = _Entity(f"Q{len(self.entities) + 1}", name, cls_name, frozenset(self._ancestors(leaf)), leaf, named)
        self.entities[entity.id] = entity
        for key, spec in cls.origin.items():
            self._attribute(entity, key, spec, rng)
            value = entity.attributes[-1]["value"]["value"]
            entity.year = value if isinstance(value, int) else int(value[:4])
        for key, spec in cls.attributes.items():
            if rng.random() < spec.share and self._applies(spec.only, entity):
                self._attribute(entity, key, spec, rng)
        return entity

    def _ancestors(self, concept: str | None) -> Iterator[str]:
        while concept is not None:
            yield concept
            concept = self.stock.concepts[concept].parent

    def _applies(self, only: list[str], entity: _Entity) -> bool:
        return not only or not entity.concepts.isdisjoint(only)

    def _name(self, cls: EntityClass, leaf: str, rng: random.Random) -> tuple[str, str | None]:
        patterns = [cls.name] if isinstance(cls.name, str) else cls.name
        for _ in range(_TRIES):
            name, named = self._filled(rng.choice(patterns), leaf, rng)
            words = name.split()
            if name not in self.names and not any(words.count(word) > 1 for word in words if word[0].isupper()):
                self.names.add(name)
                return name, named
        raise ValueError(f"the stock has too few words for {cls.count} names like {patterns[0]!r}")

    def _filled(self, pattern: str, leaf: str, rng: random.Random) -> tuple[str, str | None]:
        """A name made from the pattern and, if it contains another entity's name, that entity's id."""
        named: str | None = None

        def word(slot: re.Match[str]) -> str:
            nonlocal named
            if slot[1] == "#":
                entity = rng.choice(self.by_class[slot[2]])
                named = entity.id
                return entity.name
            return rng.choice(self.pools[f"{slot[2]} {leaf}" if slot[1] == "@" else slot[2]])

        return _BARE.sub("An ", _SLOT.sub(word, pattern)), named

    def _attribute(self, entity: _Entity, key: str, spec: AttributeSpec, rng: random.Random) -> None:
        seen: set[str] = set()
        for _ in range(spec.times):
            qualifiers = self._qualifiers(spec.qualifiers, entity.year, rng)
            value = self._value(spec, entity.year, rng)
            if seen and spec.quantity:
                value = _drifted(entity.attributes[-1]["value"], spec.step, rng)
            if qualifiers is None or value is None or {str(qualifiers), str(value)} & seen:
                continue
            seen |= {str(qualifiers), str(value)} if spec.times > 1 else set()
            entity.attributes.append({"key": key, "value": value, "qualifiers": qualifiers})

    def _qualifiers(
        self, specs: dict[str, ValueSpec], year: int | None, rng: random.Random
    ) -> dict[str, list[dict[str, Any]]] | None:
        """One value for each qualifier; None if any of the values would be in the future."""
        drawn = {key: self._value(spec, year, rng) for key, spec in specs.items()}
        return None if None in drawn.values() else {key: [value] for key, value in drawn.items() if value}

    def _value(self, spec: ValueSpec, origin: int | None, rng: random.Random) -> dict[str, Any] | None:
        if spec.string is not None:
            text = spec.string if "{" in spec.string else rng.choice(self.pools[spec.string])
            return {
                "type": "string",
                "value": _CODE.sub(lambda c: "".join(rng.choices(_ALPHABETS[c[1]], k=int(c[2]))), text),
            }
        if spec.quantity is not None:
            return {"type": "quantity", "value": _quantity(*spec.quantity, spec.step, rng), "unit": spec.unit}
        if spec.age is not None:
            year = (origin or 0) + rng.randint(*spec.age)
            dated = spec.form == "date"
        else:
            year = rng.randint(*(spec.year or spec.date or (0, 0)))
            dated = spec.date is not None
        if year > PRESENT:
            return None
        return {"type": "date", "value": _day(year, rng)} if dated else {"type": "year", "value": year}

    def _relate(self, owner: str, relation: str, spec: RelationSpec, rng: random.Random) -> None:
        """Give objects of the relation to a share (`spec.share`) of the class's entities to which the spec applies."""
        pool = [entity for entity in self.entities.values() if spec.among in entity.concepts]
        taken: set[str] = set()
        for subject in self.by_class[owner]:
            if not self._applies(spec.only, subject) or rng.random() >= spec.share:
                continue
            if spec.once and spec.symmetric and subject.id in taken:
                continue
            found = [item for item in pool if item.id not in taken and self._fits(spec, subject, item)]
            if spec.named and subject.named:
                found = [self.entities[subject.named]]
            wanted = rng.randint(*spec.count)
            for item in rng.sample(found, min(wanted, len(found))):
                self._fact(subject, relation, item, spec, rng)
                taken |= {item.id} if spec.once else set()
                taken |= {subject.id} if spec.once and spec.symmetric else set()

    def _fits(self, spec: RelationSpec, subject: _Entity, item: _Entity) -> bool:
        if item is subject or item.id in subject.linked:
            return False
        if spec.back and not any(
            (f["relation"], f["direction"], f["object"]) == (spec.back, "forward", subject.id) for f in item.relations
        ):
            return False
        if spec.gap is None or subject.year is None or item.year is None:
            return True
        return spec.gap[0] <= subject.year - item.year <= spec.gap[1]

    def _fact(self, subject: _Entity, relation: str, item: _Entity, spec: RelationSpec, rng: random.Random) -> None:
        origin = max(subject.year or 0, item.year or 0)
        qualifiers = self._qualifiers(spec.qualifiers, origin, rng)
        if qualifiers is None:
            return
        for head, tail in [(subject, item), (item, subject)][: 1 + spec.symmetric]:
            for entity, direction, other in ((head, "forward", tail), (tail, "backward", head)):
                entity.linked.add(other.id)
                copied = {key: [dict(value) for value in values] for key, values in qualifiers.items()}
                entity.relations.append(
                    {"relation": relation, "direction": direction, "object": other.id, "qualifiers": copied}
                )


def _quantity(low: int, high: int, step: int, rng: random.Random) -> int:
    """Draw a quantity; in a wide range, its logarithm is uniformly distributed, as for sizes in the real world."""
    drawn = low * (high / low) ** rng.random() if high > 20 * low else rng.uniform(low, high)
    return max(low, round(drawn / step) * step)


def _drifted(value: dict[str, Any], step: int, rng: random.Random) -> dict[str, Any]:
    """The quantity's value at another time, which differs from `value` by up to a third."""
    return value | {"value": max(step, round(value["value"] * rng.uniform(0.75, 1.33) / step) * step)}


def _day(year: int, rng: random.Random) -> str:
    return (dt.date(year, 1, 1) + dt.timedelta(days=rng.randrange(365))).isoformat()


# The authored stock of `kqa_synthetic` (YAML under `stock/`): the contents of its world.


STOCK = Path(__file__).parent / "stock"
Range = tuple[int, int]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Concept(_Strict):
    """One concept; a root has no parent."""

    plural: str
    parent: str | None = None
    also: dict[str, str] = {}
    """Other words for the concept, each with its plural."""


class ValueSpec(_Strict):
    """How to draw a value: exactly one of `string`, `quantity`, `year`, `date`, `age` (years after origin) is set."""

    string: str | None = None
    quantity: Range | None = None
    year: Range | None = None
    date: Range | None = None
    age: Range | None = None
    unit: str = "1"
    step: Annotated[int, Field(ge=1)] = 1
    form: Literal["year", "date"] = "year"

    @model_validator(mode="after")
    def _one_kind(self) -> ValueSpec:
        kinds = (self.string, self.quantity, self.year, self.date, self.age)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("exactly one of string, quantity, year, date and age must be given")
        return self


class AttributeSpec(ValueSpec):
    """An attribute of a class.

    An entity has at most `times` facts with this attribute, each with different qualifiers and another value.
    """

    qualifiers: dict[str, ValueSpec] = {}
    times: Annotated[int, Field(ge=1)] = 1
    share: float = 1.0
    only: list[str] = []


class RelationSpec(_Strict):
    """A relation of a class (the head of world.yaml explains each key)."""

    among: str
    count: Range = (1, 1)
    gap: Range | None = None
    share: float = 1.0
    only: list[str] = []
    once: bool = False
    named: bool = False
    symmetric: bool = False
    back: str | None = None
    qualifiers: dict[str, ValueSpec] = {}


class EntityClass(_Strict):
    """A class of entities."""

    count: int
    concepts: list[str]
    name: str | list[str]
    origin: dict[str, AttributeSpec] = {}
    attributes: dict[str, AttributeSpec]
    relations: dict[str, RelationSpec]


class WorldStock(_Strict):
    """The contents of `world.yaml`."""

    concepts: dict[str, Concept]
    classes: dict[str, EntityClass]


def load_world() -> WorldStock:
    """Read `world.yaml`. Raises pydantic's ValidationError or yaml's error; both show where the error is."""
    return WorldStock.model_validate(read("world"))


def load_names() -> dict[str, list[str]]:
    """The words of each pool in `names.yaml`."""
    return {name: list(words) for name, words in read("names").items()}


def read(name: str) -> dict[str, Any]:
    """The contents of one file of the stock."""
    loaded: dict[str, Any] = read_stock(STOCK / f"{name}.yaml")
    return loaded


# The wordings about the world of `kqa_synthetic`. Some wordings are written one by one; others are made from
# patterns.


Operator = Literal["=", "<", ">", "!="]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Wordings = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
Compared: TypeAlias = dict[Operator, Wordings]
Scale: TypeAlias = Literal["high", "large", "long", "great"]
_SCALES: Mapping[Scale, tuple[str, str, str, str]] = {
    "high": ("higher", "lower", "highest", "lowest"),
    "large": ("larger", "smaller", "largest", "smallest"),
    "long": ("longer", "shorter", "longest", "shortest"),
    "great": ("greater", "smaller", "greatest", "smallest"),
}
"""Words for comparing quantities, which replace {higher}, {lower}, {highest} and {lowest} in patterns."""
ANY = "*"
"""A key in patterns that stands for every qualifier for which the pattern has no wordings of its own."""


class Attribute(_Strict):
    """The wordings of one attribute (see the head of attributes.yaml)."""

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
    """The wordings of one relation (see the head of relations.yaml).

    `states` are further wordings of the same form as `subjects`, but are not used together with a qualifier.
    """

    object: list[str] = []
    subject: list[str] = []
    objects: Annotated[list[str], BeforeValidator(_listed)] = []
    subjects: Annotated[list[str], BeforeValidator(_listed)] = []
    states: list[str] = []
    when: dict[str, Wordings] = {}


class _RawAttribute(Attribute):
    """An attribute as in the file, with the words that replace the attribute's key and how patterns use these words."""

    names: list[str] = []
    things: list[str] = []
    done: list[str] = []
    scale: Scale = "high"
    shown: str = "{v}"


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
    singular: dict[str, str]


class _RelationFile(_Strict):
    relations: dict[str, _RawRelation]


class Words(_Strict):
    """All wordings: `attributes`, `relations`, `qualifiers`, `units` in the plural, and frames of whole questions.

    `singular` maps the word for several things to the word for one of them. `called` maps each attribute and each
    relation to the nouns, participles and verbs that replace its name.
    """

    attributes: dict[str, Attribute]
    relations: dict[str, Relation]
    qualifiers: dict[str, Compared]
    units: dict[str, str]
    singular: dict[str, str]
    frames: dict[str, Wordings]
    called: dict[str, list[str]]


def load_words(world: WorldStock) -> Words:
    """The wordings in `attributes.yaml`, `relations.yaml` and `frames.yaml`, and wordings made from `patterns.yaml`.

    Raises the same errors as `load_world`.
    """
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
        singular=attributes.singular,
        frames=read("frames"),
        called=called,
    )


def _attribute(key: str, raw: _RawAttribute, patterns: _Patterns, world: WorldStock) -> Attribute:
    specs = [cls.attributes[key] for cls in world.classes.values() if key in cls.attributes]
    qualifiers = {name for spec in specs for name in spec.qualifiers}
    named = patterns.string if any(spec.string for spec in specs) else patterns.quantity
    slots = dict(zip(("{higher}", "{lower}", "{highest}", "{lowest}"), _SCALES[raw.scale], strict=True))
    slots |= {"{v}": raw.shown}
    found = _own(raw, Attribute)
    for words, pattern in ((raw.names, named), (raw.things, patterns.things), (raw.done, patterns.done)):
        for word in words:
            found = _joined(found, _filled(_own(pattern, Attribute), word, slots), qualifiers)
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


def _filled(pattern: Any, word: str, slots: Mapping[str, str] = {}) -> Any:
    """The pattern with {n} replaced by a word, {a} by the word with its article, and each of `slots` by its text."""
    if isinstance(pattern, str):
        for slot, text in slots.items():
            pattern = pattern.replace(slot, text)
        return pattern.replace("{n}", word).replace("{a}", f"{'an' if word[0] in 'aeiou' else 'a'} {word}")
    if isinstance(pattern, Mapping):
        return {key: _filled(value, word, slots) for key, value in pattern.items()}
    return [_filled(value, word, slots) for value in pattern]


def _joined(words: dict[str, Any], more: dict[str, Any], qualifiers: Iterable[str]) -> dict[str, Any]:
    """The wordings of `words` and `more`; qualifiers that are not in `qualifiers` get no wordings from `more`."""
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

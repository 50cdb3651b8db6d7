"""The authored stock of `kqa_synthetic` (YAML under `stock/`): what its world holds and how that is spoken of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grid.datasets.files import read_stock

STOCK = Path(__file__).parent / "stock"
Operator = Literal["=", "<", ">", "!="]
Range = tuple[int, int]
Wordings = Annotated[list[str], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Concept(_Strict):
    """One concept; a root has no parent."""

    plural: str
    parent: str | None = None


class ValueSpec(_Strict):
    """How a value is drawn: exactly one of `string`, `quantity`, `year`, `date`, `age` (years after an origin)."""

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
            raise ValueError("exactly one of string, quantity, year, date, age")
        return self


class AttributeSpec(ValueSpec):
    """An attribute of a class; `times` facts with distinct qualifiers."""

    qualifiers: dict[str, ValueSpec] = {}
    times: Annotated[int, Field(ge=1)] = 1
    share: float = 1.0
    only: list[str] = []


class RelationSpec(_Strict):
    """A relation of a class (world.yaml's head says what each key means)."""

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
    """`world.yaml`."""

    concepts: dict[str, Concept]
    classes: dict[str, EntityClass]


class AttributeWords(_Strict):
    """How one attribute is spoken of (attributes.yaml's head)."""

    where: dict[Operator, str]
    ask: list[str] = []
    more: list[str] = []
    less: list[str] = []
    most: list[str] = []
    least: list[str] = []
    check: dict[Operator, str] = {}
    at: dict[str, Wordings] = {}
    when: dict[str, Wordings] = {}
    check_at: dict[str, dict[Operator, str]] = {}


class RelationWords(_Strict):
    """How one relation is spoken of (relations.yaml's head)."""

    object: list[str] = []
    subject: list[str] = []
    objects: str
    subjects: str
    when: dict[str, Wordings] = {}


class _AttributeFile(_Strict):
    attributes: dict[str, AttributeWords]
    qualifiers: dict[str, dict[Operator, str]]
    units: dict[str, str]


class _RelationFile(_Strict):
    relations: dict[str, RelationWords]


class Words(_Strict):
    """All wordings: `attributes`, `relations`, `qualifiers`, plural `units`, and the frames of whole questions."""

    attributes: dict[str, AttributeWords]
    relations: dict[str, RelationWords]
    qualifiers: dict[str, dict[Operator, str]]
    units: dict[str, str]
    frames: dict[str, Wordings]


def load_world() -> WorldStock:
    """`world.yaml`; raises pydantic's ValidationError or yaml's error, both with the place."""
    return WorldStock.model_validate(_read("world"))


def load_names() -> dict[str, list[str]]:
    """`names.yaml`: pool to words."""
    return {name: list(words) for name, words in _read("names").items()}


def load_words() -> Words:
    """`attributes.yaml`, `relations.yaml` and `frames.yaml` together."""
    attributes = _AttributeFile.model_validate(_read("attributes"))
    relations = _RelationFile.model_validate(_read("relations"))
    return Words(
        attributes=attributes.attributes,
        relations=relations.relations,
        qualifiers=attributes.qualifiers,
        units=attributes.units,
        frames=_read("frames"),
    )


def _read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = read_stock(STOCK / f"{name}.yaml")
    return loaded


def problems(world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    """Every rule that the stock breaks, as one line each; empty when it is sound."""
    found = [
        f"concept {name}: no parent {c.parent}"
        for name, c in world.concepts.items()
        if c.parent and c.parent not in world.concepts
    ]
    for name, cls in world.classes.items():
        found += [f"class {name}: {text}" for text in _class_problems(cls, world, pools, words)]
    for key, attribute in words.attributes.items():
        texts = [*attribute.where.values(), *attribute.check.values()]
        found += [f"attribute {key}: {text!r} lacks {{v}}" for text in texts if "{v}" not in text]
        found += [f"attribute {key}: {text!r} lacks {{e}}" for text in attribute.ask if "{e}" not in text]
    for name, relation in words.relations.items():
        texts = [*relation.object, *relation.subject, relation.objects, relation.subjects]
        found += [f"relation {name}: {text!r} lacks {{x}}" for text in texts if "{x}" not in text]
        asked = [text for wordings in relation.when.values() for text in wordings]
        found += [f"relation {name}: {t!r} lacks {{s}} or {{t}}" for t in asked if not ("{s}" in t and "{t}" in t)]
    return found


def _class_problems(cls: EntityClass, world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    attributes = cls.origin | cls.attributes
    found = [f"no concept {name}" for name in cls.concepts if name not in world.concepts]
    found += [f"no wording for attribute {key}" for key in attributes if key not in words.attributes]
    found += [f"no wording for relation {name}" for name in cls.relations if name not in words.relations]
    found += [f"no concept {spec.among}" for spec in cls.relations.values() if spec.among not in world.concepts]
    owners: list[AttributeSpec | RelationSpec] = [*attributes.values(), *cls.relations.values()]
    qualifiers = [(key, spec) for owner in owners for key, spec in owner.qualifiers.items()]
    found += [f"no wording for qualifier {key}" for key, _ in qualifiers if key not in words.qualifiers]
    specs: list[ValueSpec] = [*attributes.values(), *(spec for _, spec in qualifiers)]
    strings = [spec.string for spec in specs if spec.string]
    found += [f"no pool {pool}" for pool in strings if "{" not in pool and pool not in pools]
    patterns = [cls.name] if isinstance(cls.name, str) else cls.name
    slots = {slot for pattern in patterns for slot in re.findall(r"\{(\w+)\}", pattern)}
    return found + [f"no pool {slot}" for slot in sorted(slots) if slot not in pools]

"""The authored stock of `kqa_synthetic` (YAML under `stock/`): what its world holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from grid.datasets.files import read_stock

STOCK = Path(__file__).parent / "stock"
Range = tuple[int, int]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Concept(_Strict):
    """One concept; a root has no parent."""

    plural: str
    parent: str | None = None
    also: dict[str, str] = {}
    """Other words for it, each with its plural."""


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


def load_world() -> WorldStock:
    """`world.yaml`; raises pydantic's ValidationError or yaml's error, both with the place."""
    return WorldStock.model_validate(read("world"))


def load_names() -> dict[str, list[str]]:
    """`names.yaml`: pool to words."""
    return {name: list(words) for name, words in read("names").items()}


def read(name: str) -> dict[str, Any]:
    """One file of the stock."""
    loaded: dict[str, Any] = read_stock(STOCK / f"{name}.yaml")
    return loaded

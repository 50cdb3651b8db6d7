"""The authored stock: types, functions and goal families of the 22 categories, one YAML file each, and common ones.

A *type* is told by the query (`draw`) or found by tools (`make`), both templates of `grid.worlds.programs.values`. A
*function* is `[takes, gives, what its tool does, the doing of it as a gerund]`; `takes` and `gives` are types, with a
name in front where parameter or field is not called by its type (`origin:city`); a type with a star takes one for each
item of the case. `instead` has another tool for a function's work, `useless` tools that fit the scenario and no goal.

A *family* tells constants (`told`; `cities[]: city` one for each item), finds facts (`steps`), wants some of them
(`wants`, each with its sentence), and is asked for in several phrasings (`ask`). In a text
`{?one|many}` is the one where there is one item of what comes in lists, else the other. What may be asked besides
stands under `also`, constraints under `rules`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import DataError
from grid.datasets.files import read_stock

STOCK = Path(__file__).parent / "stock"
COMMON = "common.yaml"
FRAMES = "frames.yaml"
_STEP = re.compile(r"(\w+)\((.*)\)")
RuleKind = Literal["before", "at_most", "forbid"]
M = TypeVar("M", bound=BaseModel)
Texts = Annotated[list[str], Field(min_length=2)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Type(_Strict):
    """What constants or facts are. `means` describes a parameter of it; `write` is how a query writes a value.

    `private` stands in a query for a constant that it does not tell. `file`: it comes attached, and queries do not
    write it. `ordered`: of several in a case a later one is the greater.
    """

    means: str = Field(alias="is")
    draw: str | None = None
    make: str | None = None
    write: str = "{}"
    private: str | None = None
    file: bool = False
    ordered: bool = False


class Slot(_Strict):
    """A parameter or a field: its name and type; `starred` takes one for each item."""

    name: str
    type: str
    starred: bool = False


class Rule(_Strict):
    """A constraint on a family's chain, and its sentences."""

    kind: RuleKind
    of: list[str]
    say: Texts


class Part(_Strict):
    """What may be asked: constants told, steps (variable to call), wanted variables with their sentences."""

    told: dict[str, str] = {}
    steps: dict[str, str]
    wants: Annotated[dict[str, str], Field(min_length=1)]


class Extra(Part):
    """A further wish of a family, with its sentences."""

    say: Texts


class Family(Part):
    """One kind of goal. `items` bounds how many there are of everything that comes in lists."""

    items: tuple[int, int] = (1, 1)
    ask: Annotated[list[str], Field(min_length=3)]
    also: dict[str, Extra] = {}
    rules: list[Rule] = []


class Category(_Strict):
    """One of the 22 categories, as its file has it."""

    category: str
    types: dict[str, Type]
    functions: dict[str, tuple[str, str, str, str]]
    instead: dict[str, tuple[str, str, str]]
    useless: dict[str, tuple[str, str]]
    families: dict[str, Family]

    def __hash__(self) -> int:
        """By the name, so that what is made of a category can be kept."""
        return hash(self.category)


class Frames(_Strict):
    """Sentences that fit every family; `{doing}`, `{then}`, `{first}`, `{n}` and `{tool}` are filled in."""

    forbid_tool: Texts
    removed: Texts
    cycle: Texts
    too_few: Texts
    forbidden: Texts
    offline: Texts
    errors: Texts
    number_words: list[str]


def slots(text: str) -> list[Slot]:
    """`takes` or `gives` read: `origin:city, stops*:city` and the like."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, type_ = part.partition(":")
        name = name.strip()
        found.append(Slot(name=name.rstrip("*"), type=(type_ or name).strip().rstrip("*"), starred="*" in part))
    return found


def call(text: str) -> tuple[str, list[str]]:
    """A step read: the function and its arguments' names. Raises ValueError for anything else."""
    match = _STEP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"step {text!r} is not written as function(argument, argument)")
    return match[1], [one.strip() for one in match[2].split(",") if one.strip()]


@cache
def categories(folder: Path = STOCK) -> dict[str, Category]:
    """Every category by name, its types with the common ones, in the order of the files' names.

    Raises DataError, naming file, key and value, for a file that does not have this form.
    """
    common = {name: _read(Type, folder / COMMON, value, name) for name, value in read_stock(folder / COMMON).items()}
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name in (COMMON, FRAMES):
            continue
        one = _read(Category, path, read_stock(path))
        found[one.category] = one.model_copy(update={"types": {**common, **one.types}})
    return found


@cache
def frames(folder: Path = STOCK) -> Frames:
    """The sentences of `frames.yaml`; raises as `categories`."""
    return _read(Frames, folder / FRAMES, read_stock(folder / FRAMES))


def _read(model: type[M], path: Path, value: object, under: str = "") -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([*filter(None, [under]), *(str(part) for part in first["loc"])])
        raise DataError(path, None, f"{where}={first['input']!r}: {first['msg']}") from None

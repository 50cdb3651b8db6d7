"""What a case is drawn as: a line of `cases.jsonl`, of which the stock makes the whole case."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from grid.core.chains import Family, Stage
from grid.core.errors import DataError
from grid.datasets.files import read_jsonl

CASES = "cases.jsonl"
Unsolvable = Literal["contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"]
UNSOLVABLE: tuple[Unsolvable, ...] = (
    "contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"
)  # fmt: skip


class Recipe(BaseModel):
    """A case: of which goal family, with so many items, further wishes (`extras`) and constraints (`rules`).

    `base` names the solvable case that it is made from; cases with one base have the same constants. `bank` is the
    number of tools, `avoid` a function whose other tool is on offer and forbidden. `place` counts the calls that were
    made before, `k` those to predict. Of a broken case `place` is the call that failed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    base: str
    task_family: Family
    category: str
    family: str
    items: int = 1
    extras: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()
    avoid: str | None = None
    bank: int = 9
    seed: int = 0
    k: int | None = None
    place: int | None = None
    stage: Stage | None = None
    n_extraneous: int | None = None
    unsolvable: Unsolvable | None = None


def write(recipes: Iterable[Recipe], path: Path) -> None:
    """One line each."""
    text = "".join(recipe.model_dump_json(exclude_defaults=True) + "\n" for recipe in recipes)
    path.write_text(text, encoding="utf-8")


def read(path: Path) -> list[Recipe]:
    """The recipes of a file; raises DataError with the line of one that does not have this form."""
    found = []
    for number, line in read_jsonl(path, own=True):
        try:
            found.append(Recipe.model_validate(line, strict=False))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise DataError(path, number, f"{key}={first['input']!r}: {first['msg']}") from None
    return found

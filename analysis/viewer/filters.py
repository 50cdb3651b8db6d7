"""What a page of cases is asked for: a place in the grid, conditions, an order; all of it stands in the address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

SORTS = {"failed": "failed first", "flipped": "flipped first", "id": "by id"}
OUTCOMES = {
    "resolved": "resolved",
    "unresolved": "not resolved",
    "unknown": "nobody can tell",
    "broken": "ended in an error",
}
UNKNOWN = {"left_out": "left out", "failure": "counted as failures"}
"""How tables count cells of which nobody can tell whether they succeeded; the first, unless asked for."""
OTHER = "(other folder)"
"""What cells are compared with: instead of a planner's label, the same planner's in the other folder."""
_LONGEST = 500  # characters of a label
_PAGES = 1_000_000


@dataclass(frozen=True)
class Filters:
    """`run` is "" for the first folder, `2` for the other; texts are empty where nothing is asked.

    `planner` is the one whose cells `failure`, `outcome` are about (all, unless given); `against` a planner's label or
    OTHER. `case` is a part of a case's id; `page` counts from 1.
    """

    run: str = ""
    model: str = ""
    dataset: str = ""
    robustness: str = ""
    planner: str = ""
    against: str = ""
    failure: str = ""
    category: str = ""
    depth: str = ""
    outcome: str = ""
    case: str = ""
    sort: str = ""
    unknown: str = ""
    page: int = 1

    @property
    def query(self) -> dict[str, object]:
        """For an address."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    @property
    def cells(self) -> str:
        """The view of `Index` that counts unknown cells as is asked for."""
        return self.unknown or next(iter(UNKNOWN))

    @property
    def narrowed(self) -> bool:
        """Whether cases are left out."""
        return any((self.failure, self.category, self.depth, self.outcome, self.case))

    def but(self, **changes: Any) -> Filters:
        """Other filters, from their first page unless another is given."""
        return replace(self, **{"page": 1, **changes})


def read(query: Mapping[str, str]) -> tuple[Filters, list[str]]:
    """The filters of an address, and what of it cannot be used, in words."""
    wrong: list[str] = []
    found: dict[str, Any] = {}
    for one in fields(Filters):
        text = query.get(one.name, "")
        if len(text) > _LONGEST or "\0" in text:
            wrong.append(f"{one.name}: at most {_LONGEST} characters, and no NUL; it is left out")
        elif one.name == "page":
            found["page"] = _page(text, wrong)
        elif text:
            found[one.name] = text
    if found.get("unknown") == next(iter(UNKNOWN)):
        del found["unknown"]  # the same question has the same address
    for name, allowed in (("sort", SORTS), ("outcome", OUTCOMES), ("unknown", UNKNOWN), ("run", {"2": ""})):
        if found.get(name, "") not in ("", *allowed):
            wrong.append(f"{name}: one of {', '.join(allowed)}; it is left out")
            del found[name]
    if found.get("depth") and not (found["depth"].isascii() and found["depth"].isdigit() and len(found["depth"]) < 6):
        wrong.append("depth: a whole number; it is left out")
        del found["depth"]
    return Filters(**found), wrong


def _page(text: str, wrong: list[str]) -> int:
    if not text:
        return 1
    if text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= _PAGES:
        return int(text)
    wrong.append("page: a whole number from 1; it is left out")
    return 1

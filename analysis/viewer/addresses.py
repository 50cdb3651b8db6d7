"""The targets of a page's links: addresses in the viewer or, in an export, files next to the page."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

if TYPE_CHECKING:  # not imported at run time, because a report only links to pages
    from analysis.viewer.index import Index, Setting, Summary
    from analysis.viewer.runs import Run

_PLAIN = re.compile(r"[0-9a-zA-Z_-]{1,64}")


class Addresses(Protocol):
    """The addresses of pages; an address is None if there is no such page."""

    @property
    def export(self) -> bool:
        """Whether the pages are static files, which have no filters and do not refresh."""
        ...

    def static(self, name: str) -> str:
        """The address of one of the viewer's static files."""
        ...

    def sweeps(self, filters: Filters | None = None) -> str:
        """The address of the first page, with unknown cells counted as in the filters."""
        ...

    def cases(self, filters: Filters) -> str | None:
        """The address of the page of cases against planners."""
        ...

    def episode(self, cell: str, filters: Filters, branch: int | None = None, first: int | None = None) -> str | None:
        """The address of an episode; `filters` are the filters of the page of cases that links to it."""
        ...

    def tree(self, cell: str, filters: Filters, node: str = "") -> str | None:
        """The address of an episode's search tree below a node."""
        ...

    def asked(self, cell: str, filters: Filters, request: int = 0) -> str | None:
        """The address of an episode's requests and answers: the page with the given request."""
        ...


@dataclass(frozen=True)
class Served:
    """The addresses of a running viewer."""

    export = False

    def static(self, name: str) -> str:  # noqa: D102
        return STATIC + name

    def sweeps(self, filters: Filters | None = None) -> str:  # noqa: D102
        return address(SWEEPS, Filters(unknown=filters.unknown).query if filters else {})

    def cases(self, filters: Filters) -> str | None:  # noqa: D102
        return address(CASES, filters.query)

    def episode(self, cell: str, filters: Filters, branch: int | None = None, first: int | None = None) -> str | None:  # noqa: D102
        return self._of(EPISODE, cell, filters, branch=branch, first=first)

    def tree(self, cell: str, filters: Filters, node: str = "") -> str | None:  # noqa: D102
        return self._of(TREE, cell, filters, node=node)

    def asked(self, cell: str, filters: Filters, request: int = 0) -> str | None:  # noqa: D102
        found = self._of(ASKED, cell, filters, request=request or None)
        return f"{found}#request-{request}" if request else found

    def _of(self, path: str, cell: str, filters: Filters, **further: object) -> str:
        return address(path, {"cell": cell, **filters.query, **further})


@dataclass(frozen=True)
class Exported:
    """The files of an export; `up` is the path from the page to the export's top folder: "" or "../"."""

    cells: Set[tuple[str, str]]
    """The pairs of a folder's key and a cell for which there are pages."""
    trees: Set[tuple[str, str]]
    cases_pages: dict[tuple[str, str, str, str, int], str]
    """The files of the pages of cases, by folder's key, model, dataset, robustness and page."""
    up: str = ""
    export = True

    def static(self, name: str) -> str:  # noqa: D102
        return f"{self.up}static/{name}"

    def sweeps(self, filters: Filters | None = None) -> str:  # noqa: D102
        return f"{self.up}index.html"

    def cases(self, filters: Filters) -> str | None:  # noqa: D102
        key = filters.run, filters.model, filters.dataset, filters.robustness, filters.page
        found = self.cases_pages.get(key)
        return found and self.up + found

    def episode(self, cell: str, filters: Filters, branch: int | None = None, first: int | None = None) -> str | None:  # noqa: D102
        if branch is not None or first is not None:
            return None
        return self._of("episode", cell, filters) if (filters.run, cell) in self.cells else None

    def tree(self, cell: str, filters: Filters, node: str = "") -> str | None:  # noqa: D102
        there = (filters.run, cell) in self.trees and node in ("", "0")
        return self._of("tree", cell, filters) if there else None

    def asked(self, cell: str, filters: Filters, request: int = 0) -> str | None:  # noqa: D102
        found = self._of("asked", cell, filters) if (filters.run, cell) in self.cells else None
        return f"{found}#request-{request}" if found and request else found

    def _of(self, folder: str, cell: str, filters: Filters) -> str:
        return f"{self.up}{folder}/{filters.run or '1'}-{file_name(cell)}.html"


def file_name(cell: str) -> str:
    """A cell's id as a file name; an id that cannot be a file name is hashed."""
    return cell if _PLAIN.fullmatch(cell) else f"x-{hashlib.sha256(cell.encode('utf-8', 'replace')).hexdigest()[:32]}"


# The request for a page of cases: a place in the grid, conditions and an order, which are all in the address.


SORTS = {"failed": "failed first", "flipped": "flipped first", "id": "by id"}
OUTCOMES = {
    "resolved": "resolved",
    "unresolved": "not resolved",
    "unknown": "not known",
    "broken": "ended in an error",
}
UNKNOWN = {"left_out": "left out", "failure": "counted as failures"}
"""The ways to count cells whose success is not known; the first is the default."""
OTHER = "(other folder)"
"""The value of `against` for comparing cells with those of the same planner in the other folder."""
_LONGEST = 500  # maximum length of a value, in characters
_PAGES = 1_000_000


@dataclass(frozen=True)
class Filters:
    """The filters of a page; `run` is "" for the first folder, `2` for the second. An empty string means no filter.

    `failure` and `outcome` apply to the cells of `planner`, or to all cells if `planner` is empty. `against` is a
    planner's label or OTHER. `case` is a part of a case's id; `page` counts from 1.
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
        """The filters as the query of an address."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    @property
    def cells(self) -> str:
        """The view of `Index` that counts unknown cells in the way that `unknown` names."""
        return self.unknown or next(iter(UNKNOWN))

    @property
    def narrowed(self) -> bool:
        """Whether the filters leave out cases."""
        return any((self.failure, self.category, self.depth, self.outcome, self.case))

    def but(self, **changes: Any) -> Filters:
        """The filters with some changes; they start at page 1 again unless another page is given."""
        return replace(self, **{"page": 1, **changes})


def read(query: Mapping[str, str]) -> tuple[Filters, list[str]]:
    """The filters of an address, without parts that cannot be used, and a sentence on each of these parts."""
    wrong: list[str] = []
    found: dict[str, Any] = {}
    for one in fields(Filters):
        text = query.get(one.name, "")
        if len(text) > _LONGEST or "\0" in text:
            wrong.append(f"{one.name}: the value has more than {_LONGEST} characters or contains NUL, and is ignored")
        elif one.name == "page":
            found["page"] = _page(text, wrong)
        elif text:
            found[one.name] = text
    if found.get("unknown") == next(iter(UNKNOWN)):
        del found["unknown"]  # equal requests have equal addresses
    for name, allowed in (("sort", SORTS), ("outcome", OUTCOMES), ("unknown", UNKNOWN), ("run", {"2": ""})):
        if found.get(name, "") not in ("", *allowed):
            wrong.append(f"{name}: the value is not one of {', '.join(allowed)}, and is ignored")
            del found[name]
    if found.get("depth") and not (found["depth"].isascii() and found["depth"].isdigit() and len(found["depth"]) < 6):
        wrong.append("depth: the value is not a whole number, and is ignored")
        del found["depth"]
    return Filters(**found), wrong


def _page(text: str, wrong: list[str]) -> int:
    if not text:
        return 1
    if text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= _PAGES:
        return int(text)
    wrong.append("page: the value is not a whole number of 1 or more, and is ignored")
    return 1


# Addresses of the viewer's pages. Equal requests have equal addresses, so that an address can be sent and written down.


HOST, PORT = "127.0.0.1", 8321
"""The default host and port of the viewer."""
SWEEPS, CASES, EPISODE, TREE, ASKED, STATIC = "/", "/cases", "/episode", "/tree", "/asked", "/static/"


def link(model: str = "", dataset: str = "", robustness: str = "", planner: str = "", case: str = "") -> str:
    """The path of the page of cases with these labels, for links in the tables of a report: `/cases?model=...`.

    If a label is left out, the viewer chooses the first existing one. Filters apply to the cells of `planner`; `case`
    is a part of a case's id.
    """
    return address(
        CASES, {"model": model, "dataset": dataset, "robustness": robustness, "planner": planner, "case": case}
    )


def whole(model: str, dataset: str) -> str:
    """`link` with the viewer's usual host and port; if no label is given, the address of the page of all settings."""
    return f"http://{HOST}:{PORT}{link(model, dataset) if model or dataset else SWEEPS}"


def address(path: str, query: Mapping[str, object]) -> str:
    """A path with those parts of a query that are not empty."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


# A place is a model, a dataset and a robustness setting, whose planners are shown side by side.


REFERENCE = "react"


def place_of(index: Index, filters: Filters) -> tuple[str, str, str] | None:
    """The first place that has the labels that the filters name; None if there is none."""
    wanted = filters.model, filters.dataset, filters.robustness
    fits = [place for place in index.places if all(one in ("", own) for one, own in zip(wanted, place, strict=True))]
    return fits[0] if fits else None


def reference_of(settings: Sequence[Setting], filters: Filters) -> Setting | None:
    """The planner for comparisons: the one that the filters name or, if they name none, react; None if missing."""
    if filters.against and filters.against != OTHER:
        return next((one for one in settings if one.planner == filters.against), None)
    plain = [one for one in settings if one.planner.partition("[")[0].partition(" ")[0] == REFERENCE]
    return min(plain, key=lambda one: len(one.planner), default=None)


def in_place(filters: Filters, setting: Setting) -> Filters:
    """The filters, changed to the place of a setting."""
    model, dataset, robustness = setting.place
    return filters.but(page=filters.page, model=model, dataset=dataset, robustness=robustness)


def summed_up(run: Run, index: Index, filters: Filters) -> list[dict[str, Any]]:
    """For each place, its filters and the summaries of its settings; unknown cells are counted as the filters say."""
    summaries, found = index.summed_up(filters.cells), []
    for place in index.places:
        settings = index.of_place(place)
        own = Filters(run.key, *place, unknown=filters.unknown)
        planners = [summaries[one.key] for one in ranked(summaries, settings, reference_of(settings, Filters()))]
        found.append({"filters": own, "settings": planners})
    return found


def ranked(summaries: Mapping[int, Summary], settings: Sequence[Setting], reference: Setting | None) -> list[Setting]:
    """The settings in the order of reports: the reference first, then by success."""
    return sorted(settings, key=lambda one: (one != reference, -_known(summaries[one.key].success.mean)))


def count(index: Index) -> int:
    """The number of all cells."""
    return sum(one.cells for one in index.summaries.values())


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value

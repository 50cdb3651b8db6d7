"""Where a page's links lead: to the viewer's own addresses or, in an export, to files beside it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Protocol

from analysis.viewer import links
from analysis.viewer.filters import Filters

_PLAIN = re.compile(r"[0-9a-zA-Z_-]{1,64}")


class Addresses(Protocol):
    """Each is None where there is no such page."""

    @property
    def export(self) -> bool:
        """Whether these are files, without filters and refreshing."""
        ...

    def static(self, name: str) -> str:
        """A file of the viewer's own."""
        ...

    def sweeps(self, filters: Filters | None = None) -> str:
        """The first page, with unknown cells as filters have them."""
        ...

    def cases(self, filters: Filters) -> str | None:
        """Cases by planners."""
        ...

    def episode(self, cell: str, filters: Filters, branch: int | None = None, first: int | None = None) -> str | None:
        """One episode; `filters` are those of the cases that one comes from and goes back to."""
        ...

    def tree(self, cell: str, filters: Filters, node: str = "") -> str | None:
        """Its search tree, below a node."""
        ...

    def asked(self, cell: str, filters: Filters, request: int = 0) -> str | None:
        """What it asked and was answered, from the page that has a request."""
        ...


@dataclass(frozen=True)
class Served:
    """Addresses of a viewer that runs."""

    export = False

    def static(self, name: str) -> str:  # noqa: D102
        return links.STATIC + name

    def sweeps(self, filters: Filters | None = None) -> str:  # noqa: D102
        return links.address(links.SWEEPS, Filters(unknown=filters.unknown).query if filters else {})

    def cases(self, filters: Filters) -> str | None:  # noqa: D102
        return links.address(links.CASES, filters.query)

    def episode(self, cell: str, filters: Filters, branch: int | None = None, first: int | None = None) -> str | None:  # noqa: D102
        return self._of(links.EPISODE, cell, filters, branch=branch, first=first)

    def tree(self, cell: str, filters: Filters, node: str = "") -> str | None:  # noqa: D102
        return self._of(links.TREE, cell, filters, node=node)

    def asked(self, cell: str, filters: Filters, request: int = 0) -> str | None:  # noqa: D102
        found = self._of(links.ASKED, cell, filters, request=request or None)
        return f"{found}#request-{request}" if request else found

    def _of(self, path: str, cell: str, filters: Filters, **further: object) -> str:
        return links.address(path, {"cell": cell, **filters.query, **further})


@dataclass(frozen=True)
class Exported:
    """Files of an export; `up` leads from the page to the folder's top: "" or "../"."""

    cells: Set[tuple[str, str]]
    """The folders' keys and cells of which there are pages."""
    trees: Set[tuple[str, str]]
    cases_pages: dict[tuple[str, str, str, str, int], str]
    """Files by folder's key, model, dataset, robustness and page."""
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
    """A cell's id as a name of files: one that is none is hashed."""
    return cell if _PLAIN.fullmatch(cell) else f"x-{hashlib.sha256(cell.encode('utf-8', 'replace')).hexdigest()[:32]}"

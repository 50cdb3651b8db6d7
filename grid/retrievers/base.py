"""Which tools a substep is offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from grid.types import Case, Substep, ToolSpec


class Retriever(Protocol):
    """Finds tools for a substep in a library. `index` once per library, `retrieve` once per decision."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Prepare a library for search."""
        ...


class Index(Protocol):
    """A library made ready.

    `query_top_k`: tools that a whole query is offered at most, of what its substeps are offered.
    """

    @property
    def query_top_k(self) -> int:
        """At least 1."""
        ...

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The substep's candidates, best first, ties in the library's order."""
        ...

    def nearest(self, text: str) -> list[ToolSpec]:
        """The whole library, nearest to a text first, ties in the library's order."""
        ...


@runtime_checkable
class Extensible(Index, Protocol):
    """An index that the same retriever can make of other tools too, and that ranks all of them for a substep."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The library."""
        ...

    @property
    def top_k(self) -> int:
        """Tools that a substep is offered at most."""
        ...

    def ranked(self, case: Case, substep: Substep) -> Iterator[ToolSpec]:
        """The whole library as `retrieve` ranks it."""
        ...

    def of(self, tools: Sequence[ToolSpec]) -> Extensible:
        """An index of other tools under the same settings."""
        ...

    def __hash__(self) -> int:
        """Of the object itself: what is made from an index is remembered by it."""
        ...

"""Which tools a decision is offered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from grid.core.reference import Reference
from grid.core.types import Case, Substep, ToolSpec

Mode: TypeAlias = Literal["static", "dynamic", "thought"]
"""When tools are retrieved (traject_bench §4.1, §4.4), and what they are sought by.

`static`: once. `dynamic`: before every decision, by the last thought and observation besides the query or substep.
`thought`: in every decision between thought and action, by the new thought alone, as the authors' script does it.
"""


class Retriever(Protocol):
    """Finds tools in a library. `index` once per library, `retrieve` once per decision."""

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

    @property
    def mode(self) -> Mode:
        """When `retrieve` is asked: what has happened since is in the substep's text."""
        ...

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The substep's candidates, best first, ties in the library's order."""
        ...

    def nearest(self, text: str) -> list[ToolSpec]:
        """The whole library, nearest to a text first, ties in the library's order."""
        ...

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of these tools alone, found as in the whole library: their order among themselves is the same.

        A substep, and a whole query, is offered `at_least` so many of them.
        """
        ...


@runtime_checkable
class Told(Protocol):
    """What an index has besides that must be told a case's reference. The run layer tells it; planners see no index."""

    def told(self, reference: Reference) -> Index:
        """The index for one case."""
        ...

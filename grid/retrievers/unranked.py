"""No retrieval: every tool of the pool is offered (traject_bench §4.1, tools in context)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from pydantic.dataclasses import dataclass

from grid.core.problem import Index, Mode
from grid.core.types import Case, Substep, ToolSpec
from grid.core.util import STRICT
from grid.retrievers.scored import BM25


@dataclass(frozen=True, config=STRICT)
class Unranked:
    """All tools, in the library's order, without a limit."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of the library."""
        return UnrankedIndex(library)


class UnrankedIndex:
    """A library in its own order. Only `nearest` uses BM25; its index is made when `nearest` is first called."""

    def __init__(self, library: Mapping[str, ToolSpec], whole: UnrankedIndex | None = None) -> None:
        self._library, self._whole = library, whole or self
        self._tools = tuple(library.values())
        self.query_top_k = len(self._tools)
        self.mode: Mode = "static"

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """Every tool."""
        return self._tools

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools, sorted by their BM25 score for a text."""
        return [tool for tool in self._whole._near.nearest(text) if tool.name in self._library]

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of some of the tools."""
        kept = {name: tool for name, tool in self._library.items() if name in names}
        return UnrankedIndex(kept, self._whole)

    @cached_property
    def _near(self) -> Index:
        return BM25().index(self._library)

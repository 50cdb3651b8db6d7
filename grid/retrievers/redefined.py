"""Tools as a case defines them, where a library has one definition of a name and several cases have their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from grid.core.retriever import Index, Mode
from grid.core.types import Case, Substep, ToolSpec


class RedefinedIndex:
    """An index that hands out `own` tools in the place of those of their names, which it finds them by."""

    def __init__(self, other: Index, own: Mapping[str, ToolSpec]) -> None:
        self._other, self._own = other, own
        self.query_top_k = other.query_top_k
        self.mode: Mode = other.mode
        self._replaced = lru_cache(maxsize=64)(self._as_own)  # the same tuple for the same question

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """What the other index finds."""
        return self._replaced(self._other.retrieve(case, substep))

    def nearest(self, text: str) -> list[ToolSpec]:
        """As the other index has them."""
        return [*self._as_own(tuple(self._other.nearest(text)))]

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """Some of the tools."""
        return RedefinedIndex(self._other.of(names, at_least), self._own)

    def _as_own(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return tuple(self._own.get(tool.name, tool) for tool in tools)

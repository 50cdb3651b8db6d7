"""A retriever that offers the right tools first, to show how planners behave if retrieval never fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from pydantic.dataclasses import dataclass

from grid.core.problem import Index, Reference
from grid.core.types import Case, Substep, ToolSpec
from grid.core.util import STRICT
from grid.retrievers.scored import BM25, Ranking


@dataclass(frozen=True, config=STRICT)
class Oracle(Ranking):
    """All tools that the reference calls, in the order of its calls, then the tools that BM25 finds; `top_k` in all.

    If the reference calls more than `top_k` tools, all of these are offered, and no others. Every right tool is offered
    for every decision, so that the offer does not reveal which tool is right for a particular decision.
    """

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Index every tool of a library."""
        plain = {name: getattr(self, name) for name in Ranking.__dataclass_fields__}
        return OracleIndex(library, BM25(**plain).index(library), {})


class OracleIndex:
    """An index that puts the right tools first. Without a reference (see `told`), no tool is right."""

    def __init__(self, library: Mapping[str, ToolSpec], other: Index, right: Mapping[str, ToolSpec]) -> None:
        self._library, self._other, self._right = library, other, right
        self.query_top_k, self.mode = max(other.query_top_k, len(right)), other.mode
        self._found = lru_cache(maxsize=4096)(self._with_right)

    def told(self, reference: Reference) -> Index:
        """The index for a case; the right tools are the tools that the case's reference calls."""
        names = [call.tool for call in reference.calls.values() if call]
        return OracleIndex(self._library, self._other, {name: self._library[name] for name in names})

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The right tools, then the tools that BM25 finds."""
        return self._found(self._other.retrieve(case, substep))

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools, sorted by their BM25 score for a text."""
        return self._other.nearest(text)

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of some of the tools."""
        kept = {name: tool for name, tool in self._library.items() if name in names}
        return OracleIndex(kept, self._other.of(names, at_least), self._right)

    def _with_right(self, found: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """The right tools, then other tools in `found`.

        There are as many tools as in `found`, or as many as there are right tools, whichever is more.
        """
        ranked = {**self._right, **{tool.name: tool for tool in found}}
        return tuple(ranked.values())[: max(len(found), len(self._right))]

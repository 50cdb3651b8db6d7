"""BM25 over tools' names, descriptions and arguments (bm25s)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic.dataclasses import dataclass

from grid.core.problem import Index
from grid.core.types import ToolSpec
from grid.core.util import STRICT
from grid.retrievers.scored import FoundBy, Ranking, ScoredIndex, Scorer, bm25_texts, document, remembered
from grid.text.words import stems


@dataclass(frozen=True, config=STRICT)
class BM25(Ranking):
    """By the words that a text and a tool share. They weigh as they are frequent in the whole library."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Index every tool of a library."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools, self.found_by)], self)


def bm25_scorer(tools: Sequence[ToolSpec], by: FoundBy = "all") -> Scorer:
    """BM25 scores of the tools for a text; they are indexed when the first is asked for."""
    return remembered(bm25_texts(lambda: [document(tool, by) for tool in tools], stems), len(tools))

"""Dense retrieval: the cosine of sentence embeddings, exactly, in one matrix product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pydantic.dataclasses import dataclass

from grid.core.problem import Index
from grid.core.types import ToolSpec
from grid.core.util import STRICT
from grid.retrievers.bm25 import bm25_scorer
from grid.retrievers.scored import (
    Embedder,
    EmbeddingModel,
    FoundBy,
    Ranking,
    ScoredIndex,
    Scorer,
    dense_texts,
    document,
    remembered,
)


@dataclass(frozen=True, config=STRICT)
class Dense(EmbeddingModel, Ranking):
    """By what a text and a tool mean to a sentence-transformers model; the texts' cosines are weighed as BM25's scores.

    The model's keys are those of `EmbeddingModel`.
    """

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of every tool of a library; embedded when the first is sought. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [self._scorer(tools)], self)

    def _scorer(self, tools: Sequence[ToolSpec]) -> Scorer:
        self.check("retriever")
        return dense_scorer(tools, partial(self.embedder, "retriever"), self.query_prefix, self.found_by)


@dataclass(frozen=True, config=STRICT)
class Hybrid(Dense):
    """BM25 and dense retrieval, their ranks in the pool fused."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of every tool of a library. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools, self.found_by), self._scorer(tools)], self)


def dense_scorer(
    tools: Sequence[ToolSpec], embedder: Callable[[], Embedder], query_prefix: str = "", by: FoundBy = "all"
) -> Scorer:
    """The cosines of the tools with a text."""
    return remembered(dense_texts(lambda: [document(tool, by) for tool in tools], embedder, query_prefix), len(tools))

"""Dense retrieval: the cosine of sentence embeddings, exactly, in one matrix product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from grid.engines.sources import Hub
from grid.errors import ConfigError
from grid.retrievers.base import Index
from grid.retrievers.bm25 import bm25_scorer
from grid.retrievers.embedding import embedder_of
from grid.retrievers.scored import Ranking, ScoredIndex, Scorer, Scores, document, remembered
from grid.retrievers.sources import Wheel, check_source, model_folder
from grid.strict import STRICT
from grid.types import ToolSpec


@dataclass(frozen=True, config=STRICT)
class Dense(Ranking):
    """By what a text and a tool mean to a sentence-transformers model; the texts' cosines are weighed as BM25's scores.

    Args:
        hub: a model of the hub.
        wheel: what holds the same files where the hub cannot be reached.
        path: a folder instead of both.
        query_prefix: stands before every text that tools are sought by, as some models were trained.
    """

    hub: Hub | None = None
    wheel: Wheel | None = None
    path: str | None = None
    query_prefix: str = ""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of every tool of a library; embedded when the first is sought. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [self._scorer(tools)], self)

    def _scorer(self, tools: Sequence[ToolSpec]) -> Scorer:
        check_source(self.hub, self.path)
        if find_spec("sentence_transformers") is None:
            raise ConfigError("retriever._target_", type(self).__name__, "installed: pip install 'agent-grid[dense]'")
        return dense_scorer(tools, partial(model_folder, self.hub, self.wheel, self.path), self.query_prefix)


@dataclass(frozen=True, config=STRICT)
class Hybrid(Dense):
    """BM25 and dense retrieval, their ranks in the pool fused."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of every tool of a library. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools), self._scorer(tools)], self)


def dense_scorer(tools: Sequence[ToolSpec], folder: Callable[[], Path], query_prefix: str = "") -> Scorer:
    """The cosines of the tools with a text."""

    @cache
    def matrix() -> np.ndarray:
        return embedder_of(folder()).library([document(tool) for tool in tools])

    def score(text: str) -> Scores:
        scores: Scores = matrix() @ embedder_of(folder()).texts([query_prefix + text])[0]
        return scores

    return remembered(score, len(tools))

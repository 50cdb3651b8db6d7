"""BM25 over tools' names, descriptions and arguments (bm25s)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import bm25s
import numpy as np
from pydantic.dataclasses import dataclass

from grid.retrievers.base import Index
from grid.retrievers.scored import Ranking, ScoredIndex, Scorer, Scores, document, remembered
from grid.strict import STRICT
from grid.text.words import stems
from grid.types import ToolSpec


@dataclass(frozen=True, config=STRICT)
class BM25(Ranking):
    """By the words that a text and a tool share. They weigh as they are frequent in the whole library."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Index every tool of a library."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools)], self)


def bm25_scorer(tools: Sequence[ToolSpec]) -> Scorer:
    """BM25 scores of the tools for a text; they are indexed when the first is asked for."""
    indexed = cache(partial(_index, tools))

    def score(text: str) -> Scores:
        model = indexed()
        known = [stem for stem in stems(text) if stem in model.vocab_dict] if model else []
        scores: Scores = model.get_scores(known) if known else np.zeros(len(tools), dtype=np.float32)
        return scores

    return remembered(score, len(tools))


def _index(tools: Sequence[ToolSpec]) -> Any:
    """None for tools without a word, which bm25s does not index."""
    documents = [list(stems(document(tool))) for tool in tools]
    if not any(documents):
        return None
    model = bm25s.BM25()
    model.index(documents, show_progress=False)
    return model

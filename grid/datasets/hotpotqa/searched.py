"""The paragraphs that are searched, made ready once a process for all data sets of the same files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from grid.retrievers.embedding import embedder_of
from grid.retrievers.texts import bm25_texts, dense_texts
from grid.text.words import TERMS, terms
from grid.worlds.search.corpus import Corpus, Paragraph


@lru_cache(maxsize=4)
def corpus_of(paragraphs: tuple[tuple[Paragraph, ...], ...], model: Path | None, query_prefix: str) -> Corpus:
    """Paragraphs of several pools, each once, by the embeddings of a model's folder or, without one, by their words."""
    distinct = tuple(dict.fromkeys(one for part in paragraphs for one in part))

    def texts() -> Sequence[str]:
        return [one.shown for one in distinct]

    if model is None:
        return Corpus(distinct, bm25_texts(texts, terms, TERMS))
    return Corpus(distinct, dense_texts(texts, lambda: embedder_of(model), query_prefix), matching=False)

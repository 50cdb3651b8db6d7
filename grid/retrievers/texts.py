"""Texts by the words that they share with a query, or by what they mean: for tools, paragraphs and questions."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from grid.core.cache import made_once
from grid.retrievers.embedding import Embedder
from grid.retrievers.scored import Scorer, Scores

Words: TypeAlias = Callable[[str], Sequence[str]]
"""The words of a text, as they are compared."""
_LARGE = 5_000
"""Texts from which on an index of words is kept on disk."""
_AT_ONCE = 4096
"""Texts that are embedded and kept together: so many are done again after an interruption."""
_FILES = (
    "data.csc.index.npy",
    "indices.csc.index.npy",
    "indptr.csc.index.npy",
    "vocab.index.json",
    "params.index.json",
)
_log = logging.getLogger(__name__)


def bm25_texts(texts: Callable[[], Sequence[str]], words: Words, version: str = "") -> Scorer:
    """BM25 scores of texts for a query; they are indexed when the first is asked for.

    Args:
        texts: what is sought among.
        words: of a text and of a query.
        version: changes whenever `words` gives other ones. With it the index of many texts is kept in the user's cache.
    """

    @cache
    def indexed() -> tuple[Any, int]:
        found = texts()
        return _kept(found, words, version) if version and len(found) >= _LARGE else _made(found, words), len(found)

    def score(text: str) -> Scores:
        model, count = indexed()
        known = [word for word in words(text) if word in model.vocab_dict] if model else []
        scores: Scores = model.get_scores(known) if known else np.zeros(count, dtype=np.float32)
        return scores

    return score


def dense_texts(texts: Callable[[], Sequence[str]], embedder: Callable[[], Embedder], query_prefix: str = "") -> Scorer:
    """The cosines of texts with a query. The first query embeds the texts, unless the user's cache has them."""

    @cache
    def matrix() -> np.ndarray:
        found, own = texts(), embedder()
        parts = [np.zeros((0, 0), dtype=np.float32)] if not found else []
        for start in range(0, len(found), _AT_ONCE):
            parts.append(own.library(found[start : start + _AT_ONCE]))
            if len(found) > _AT_ONCE:
                _log.info("%s of %s texts embedded", f"{min(start + _AT_ONCE, len(found)):,}", f"{len(found):,}")
        return np.concatenate(parts)

    def score(text: str) -> Scores:
        known = matrix()
        if not len(known):
            return np.zeros(0, dtype=np.float32)
        scores: Scores = known @ embedder().texts([query_prefix + text])[0]
        return scores

    return score


def _made(texts: Sequence[str], words: Words) -> Any:
    """None for texts without a word, which bm25s does not index."""
    import bm25s  # it compiles as it is imported, which a sweep that is done need not wait for

    documents = [list(words(text)) for text in texts]
    if not any(documents):
        return None
    model = bm25s.BM25()
    model.index(documents, show_progress=False)
    return model


def _kept(texts: Sequence[str], words: Words, version: str) -> Any:
    """The index out of the user's cache, where one process makes it while the others wait."""
    import bm25s

    digest = hashlib.sha256(f"{bm25s.__version__} {version}".encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "replace")).digest())
    make = partial(_write, texts, words)
    return bm25s.BM25.load(made_once("bm25", digest.hexdigest()[:24], _FILES, make), mmap=True, show_progress=False)


def _write(texts: Sequence[str], words: Words, target: Path) -> None:
    model = _made(texts, words)
    if model is None:
        raise ValueError("none of the texts has a word")
    model.save(target, show_progress=False)

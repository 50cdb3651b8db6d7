"""The tools of a growing library that are nearest to a text: by embeddings, or by words (egb_slate §3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from grid.core.errors import ConfigError
from grid.datasets.slate.records import ToolRecord
from grid.retrievers.bm25 import BM25
from grid.retrievers.dense import Dense
from grid.retrievers.scored import Embedder, best, document
from grid.settings.make import make


class Nearby(Protocol):
    """Finds the nearest tools of a library, nearest first; ties in the library's order."""

    def __call__(self, text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
        """At most `count` tools."""
        ...


def nearby(config: Mapping[str, Any], say: Callable[[str], None]) -> Nearby:
    """What a file of conf/retriever finds tools by: `dense` or `bm25`.

    Where the embedding model cannot be had, tools are found by words, and `say` is told why.

    Raises:
        ConfigError: another retriever, or a key that it has not.
    """
    found = make("retriever", config)
    if isinstance(found, BM25):
        return by_words
    if type(found) is not Dense:
        raise ConfigError("retriever._target_", config["_target_"], "one that ranks a library: dense or bm25")
    try:
        found.check("retriever")
        return ByMeaning(found.embedder("retriever"), found.query_prefix)
    except ConfigError as error:
        say(f"tools are found by the words that they share with a query, not by embeddings: {error}")
        return by_words


def by_words(text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
    """By BM25."""
    named = {tool.name: tool for tool in library}
    index = BM25().index({name: tool.spec() for name, tool in named.items()})
    return [named[tool.name] for tool in index.nearest(text)[:count]] if named else []


class ByMeaning:
    """By the cosine of sentence embeddings; each tool's is made once."""

    def __init__(self, embedder: Embedder, query_prefix: str) -> None:
        self._embedder, self._prefix = embedder, query_prefix
        self._known: dict[str, np.ndarray] = {}

    def __call__(self, text: str, library: Sequence[ToolRecord], count: int) -> list[ToolRecord]:
        """At most `count` tools."""
        if not library:
            return []
        texts = [document(tool.spec()) for tool in library]
        new = [one for one in dict.fromkeys(texts) if one not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.texts(new), strict=True))
        scores = np.stack([self._known[one] for one in texts]) @ self._embedder.texts([self._prefix + text])[0]
        return [library[place] for place in best(scores, count)]

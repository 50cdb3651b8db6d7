"""How near one text is to others: by their words and letters, or by what they mean to an embedding model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from grid.retrievers.embedding import Embedder, EmbeddingModel
from grid.text.words import stems

_GRAM = 3  # characters
_KEPT = 512  # vocabularies
_QUERIES = 4096
_LONGEST = 1_000  # characters of a text that a planner gives; the rest is left out


class Similarity(Protocol):
    """Cosines of texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The similarity of a text to each of the names, shape (names,), from -1 to 1; 1: as good as equal."""
        ...


class Lexical:
    """By word stems and groups of three letters, each as often as it is there; needs nothing but the texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines; 0 where nothing is shared."""
        columns, matrix = _counted(names)
        counts = Counter(_tokens(text))
        length = float(np.sqrt(sum(count**2 for count in counts.values())))
        query = np.zeros(len(columns))
        for token, count in counts.items():
            if token in columns:
                query[columns[token]] = count / length
        found: np.ndarray = matrix @ query
        return found


@dataclass(frozen=True)
class Embeddings:
    """By a sentence-transformers model; `key` is the config's, for errors.

    A vocabulary's are kept on disk under the fingerprint of the model's files: another model never finds them.
    """

    model: EmbeddingModel
    key: str

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines."""
        if not names:
            return np.zeros(0)
        embedder = self.model.embedder(self.key)
        found: np.ndarray = _library(embedder, names) @ _query(embedder, self.model.query_prefix + _spaced(text))
        return found


@lru_cache(maxsize=_KEPT)
def _library(embedder: Embedder, names: tuple[str, ...]) -> np.ndarray:
    return embedder.library([_spaced(name) for name in names])


@lru_cache(maxsize=_QUERIES)
def _query(embedder: Embedder, text: str) -> np.ndarray:
    found: np.ndarray = embedder.texts([text])[0]
    return found


@lru_cache(maxsize=_KEPT)
def _counted(names: tuple[str, ...]) -> tuple[dict[str, int], csr_array]:
    """Each token's column, and a row of length 1 for each name (0 where it has no token)."""
    columns: dict[str, int] = {}
    rows, places, values = [], [], []
    for row, name in enumerate(names):
        counts = Counter(_tokens(name))
        length = np.sqrt(sum(count**2 for count in counts.values()))
        for token, count in counts.items():
            rows.append(row)
            places.append(columns.setdefault(token, len(columns)))
            values.append(count / length)
    return columns, csr_array((values, (rows, places)), shape=(len(names), len(columns)), dtype=float)


def _tokens(text: str) -> list[str]:
    """Word stems, and each word's groups of three letters with its ends marked."""
    spaced = _spaced(text)
    words = "".join(c if c.isalnum() else " " for c in spaced.lower()).split()
    grams = [f"<{word}>"[i : i + _GRAM] for word in words for i in range(len(word) + 3 - _GRAM)]
    return [*(f"stem:{stem}" for stem in stems(spaced)), *grams]


def _spaced(text: str) -> str:
    """A text with snake_case and camelCase taken apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text[:_LONGEST].replace("_", " "))


def nearest(scores: np.ndarray, count: int) -> Sequence[int]:
    """The places of the highest scores, the highest first, ties in their order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]

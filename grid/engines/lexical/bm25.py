"""BM25 over a prompt's options, each a document."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT
from grid.engines.places import name_of
from grid.text.words import stems

K1, B = 1.2, 0.6  # saturation and length normalisation
_NO_WORDS: tuple[Counter[str], int] = (Counter(), 0)


def bm25(query: Mapping[str, float], options: Sequence[str]) -> np.ndarray:
    """BM25 of each option (a document) against the weighted query, √IDF over the options; shape (options,)."""
    found = documents(tuple(options))
    scores = [0.0] * len(options)
    for stem, weight in query.items():
        containing = found.postings.get(stem, ())
        if containing:
            idf = math.sqrt(math.log(1 + (len(options) - len(containing) + 0.5) / (len(containing) + 0.5)))
            for index, frequency in containing:
                scores[index] += weight * idf * frequency * (K1 + 1) / (frequency + found.norm[index])
    return np.array(scores)


class Documents(NamedTuple):
    """Options made ready for BM25: by stem the (option, frequency) pairs, the lengths' norm, and which are no tools."""

    postings: dict[str, list[tuple[int, int]]]
    norm: list[float]
    no_tool: tuple[int, ...]
    finish: tuple[int, ...]


@lru_cache(maxsize=256)  # of some 100 kB each
def documents(options: tuple[str, ...]) -> Documents:
    """The options made ready, each set of them once."""
    names = [name_of(option) for option in options]
    wordless = (NO_TOOL, GIVE_UP, REJECT)
    counted = [_NO_WORDS if name in wordless else _counts(text) for name, text in zip(names, options, strict=True)]
    lengths = np.array([length for _, length in counted], dtype=np.float64)
    norm: list[float] = (K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))).tolist()
    postings: dict[str, list[tuple[int, int]]] = {}
    for index, (counts, _) in enumerate(counted):
        for stem, frequency in counts.items():
            postings.setdefault(stem, []).append((index, frequency))
    places = {wanted: tuple(i for i, name in enumerate(names) if name == wanted) for wanted in (NO_TOOL, FINISH)}
    return Documents(postings, norm, places[NO_TOOL], places[FINISH])


@lru_cache(maxsize=65536)
def _counts(option: str) -> tuple[Counter[str], int]:
    tokens = stems(option)
    return Counter(tokens), len(tokens)

"""Worlds whose calls name things of a schema, for the settings of tool robustness (planning_horizon §3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import bm25s
import numpy as np

from grid.text.words import stems
from grid.types import ToolSpec
from grid.worlds.base import World

ERROR = "error"
"""The field that an observation of a failed call has, and no other."""
_GRAM = 3  # characters


class Vocabulary:
    """The identifiers of one kind, each once, in their order."""

    def __init__(self, noun: str, names: Sequence[str]) -> None:
        self.noun = noun
        self._names = dict.fromkeys(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def nearest(self, text: str, count: int) -> list[str]:
        """At most so many identifiers, nearest first, ties in the vocabulary's order.

        BM25 over word stems and groups of three characters; identifiers that share none with the text are left out.
        """
        if not self._names:
            return []
        known = [token for token in _tokens(text) if token in self._model.vocab_dict]
        if not known:
            return []
        scores = self._model.get_scores(known)
        names = list(self._names)
        return [names[i] for i in np.argsort(-scores, kind="stable")[:count] if scores[i] > 0]

    @cached_property
    def _model(self) -> bm25s.BM25:
        model = bm25s.BM25()
        model.index([_tokens(name) for name in self._names], show_progress=False)
        return model


def _tokens(text: str) -> list[str]:
    """The whole in small letters, word stems, and each word's groups of three characters with its ends marked."""
    words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    grams = [f"<{word}>"[i : i + _GRAM] for word in words for i in range(len(word) + 3 - _GRAM)]
    return [f"whole:{text.lower()}", *(f"stem:{stem}" for stem in stems(text)), *grams]


@runtime_checkable
class SchemaWorld(World, Protocol):
    """A world that can say which arguments must be identifiers of its schema.

    A failed call's observation has the field `error`.
    """

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What can be called."""
        ...

    def identifiers(self, tool: str) -> Mapping[str, Vocabulary]:
        """Of a tool's parameters those that take an identifier, with the vocabulary of each; none of other tools."""
        ...

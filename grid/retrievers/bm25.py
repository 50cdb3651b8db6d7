"""BM25 over tools' names, descriptions and arguments (bm25s)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import bm25s
import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.retrievers.base import Extensible
from grid.strict import STRICT
from grid.text.words import stems
from grid.types import Case, Substep, ToolSpec

_SCORES = 8_000_000
"""Tools' scores that an index remembers, of all texts: 32 MB."""


@dataclass(frozen=True, config=STRICT)
class BM25:
    """The `top_k` tools nearest to a substep (all of them where the library is smaller), `query_top_k` to a query.

    The substep's own words count once, those of its goal and of the query by their weights: egb_slate algorithm 1
    retrieves by query and substep.
    """

    top_k: Annotated[int, Field(ge=1)] = 50
    query_top_k: Annotated[int, Field(ge=1)] = 50
    goal_weight: Annotated[float, Field(ge=0)] = 0.5
    query_weight: Annotated[float, Field(ge=0)] = 0.3

    def index(self, library: Mapping[str, ToolSpec]) -> Extensible:
        """Index every tool of a library."""
        return BM25Index(tuple(library.values()), self)


class BM25Index:
    """One library's index; remembers the answers it has given."""

    def __init__(self, tools: tuple[ToolSpec, ...], settings: BM25) -> None:
        self.tools = tools
        self._settings = settings
        self.top_k, self.query_top_k = settings.top_k, settings.query_top_k
        self._model = bm25s.BM25()
        self._model.index([document(tool) for tool in tools], show_progress=False)
        self._scores = lru_cache(maxsize=_SCORES // max(len(tools), 1) + 1)(self._score)
        self._found = lru_cache(maxsize=65536)(self._retrieve)

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The first `top_k` for a substep."""
        return self._found(case.query, substep.goal, substep.text)

    def ranked(self, case: Case, substep: Substep) -> Iterator[ToolSpec]:
        """All tools by their score for a substep."""
        order = np.argsort(-self._weighed(case.query, substep.goal, substep.text), kind="stable")
        return (self.tools[i] for i in order)

    def of(self, tools: Sequence[ToolSpec]) -> BM25Index:
        """An index of other tools."""
        return BM25Index(tuple(tools), self._settings)

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools by their score for a text."""
        return [self.tools[i] for i in np.argsort(-self._scores(text), kind="stable")]

    def _retrieve(self, query: str, goal: str, text: str) -> tuple[ToolSpec, ...]:
        scores = self._weighed(query, goal, text)
        return tuple(self.tools[i] for i in np.argsort(-scores, kind="stable")[: self.top_k])

    def _weighed(self, query: str, goal: str, text: str) -> np.ndarray:
        found: np.ndarray = (
            self._scores(text)
            + self._settings.goal_weight * self._scores(goal)
            + self._settings.query_weight * self._scores(query)
        )
        return found

    def _score(self, text: str) -> np.ndarray:
        known = [stem for stem in stems(text) if stem in self._model.vocab_dict]
        scores: np.ndarray = self._model.get_scores(known) if known else np.zeros(len(self.tools), dtype=np.float32)
        return scores


def document(tool: ToolSpec) -> list[str]:
    """The stems that a tool is found by."""
    arguments = " ".join(f"{parameter.name} {parameter.description}" for parameter in tool.parameters)
    return list(stems(f"{tool.name} {tool.description} {arguments}"))

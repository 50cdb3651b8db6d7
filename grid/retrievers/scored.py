"""What retrievers share that score tools: how a decision's texts are weighed, and which tools are best."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.retriever import Index, Mode
from grid.core.strict import STRICT
from grid.core.types import Case, Substep, ToolSpec

Scores: TypeAlias = np.ndarray
"""One score a tool, float32: the higher, the nearer."""
Scorer: TypeAlias = Callable[[str], Scores]
"""The scores of a library's tools for a text."""
FoundBy: TypeAlias = Literal["all", "description"]
"""What of a tool it is found by: name, description and arguments, or the description alone."""
FUSION = 60
"""k of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""
LONGEST = 20_000
"""Characters of a tool's text; the rest is left out."""
_SCORES = 8_000_000
"""Tools' scores that are remembered, of all texts: 32 MB."""


@dataclass(frozen=True, config=STRICT)
class Ranking:
    """The `top_k` tools nearest to a substep (all of them where there are fewer), `query_top_k` to a query.

    The substep's own words count once, those of its goal and of the query by their weights: egb_slate algorithm 1
    retrieves by query and substep. `mode`: when they are retrieved. `found_by`: what of a tool is compared with
    these texts; TRAJECT-Bench embeds the description alone (traject_bench §4.1, and its authors' code).
    """

    top_k: Annotated[int, Field(ge=1)] = 50
    query_top_k: Annotated[int, Field(ge=1)] = 50
    goal_weight: Annotated[float, Field(ge=0)] = 0.5
    query_weight: Annotated[float, Field(ge=0)] = 0.3
    mode: Mode = "static"
    found_by: FoundBy = "all"


class ScoredIndex:
    """A library's tools by one scorer, or by several whose ranks are fused; remembers the answers it has given.

    `places` are those of the tools in the library that the scorers know; None: all of it.
    """

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        scorers: Sequence[Scorer],
        ranking: Ranking,
        places: np.ndarray | None = None,
        at_least: int = 0,
    ) -> None:
        self._tools, self._scorers, self._ranking, self._places = tuple(tools), scorers, ranking, places
        self._at_least = at_least
        self.top_k, self.query_top_k = max(ranking.top_k, at_least), max(ranking.query_top_k, at_least)
        self.mode = ranking.mode
        self._found = lru_cache(maxsize=65536)(self._retrieve)

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The first `top_k` for a substep."""
        return self._found(case.query, substep.goal, substep.text)

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools by their score for a text."""
        return [self._tools[i] for i in self._best([(text, 1.0)], len(self._tools))]

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of some of the tools."""
        chosen = [place for place, tool in enumerate(self._tools) if tool.name in names]
        places = np.array(chosen, dtype=np.intp)
        known = places if self._places is None else self._places[places]
        return ScoredIndex([self._tools[i] for i in chosen], self._scorers, self._ranking, known, at_least)

    def _retrieve(self, query: str, goal: str, text: str) -> tuple[ToolSpec, ...]:
        weights = self._ranking.goal_weight, self._ranking.query_weight
        texts = [(text, 1.0), (goal, weights[0]), (query, weights[1])]
        return tuple(self._tools[i] for i in self._best(texts, self.top_k))

    def _best(self, texts: Sequence[tuple[str, float]], count: int) -> np.ndarray:
        """The places of the first `count` tools."""
        scores = [self._weighed(scorer, texts) for scorer in self._scorers]
        return best(scores[0] if len(scores) == 1 else fused(scores), count)

    def _weighed(self, scorer: Scorer, texts: Sequence[tuple[str, float]]) -> Scores:
        total = np.zeros(len(self._tools), dtype=np.float32)
        for text, weight in texts:
            if text and weight:
                scores = scorer(text)
                total += np.float32(weight) * (scores if self._places is None else scores[self._places])
        return total


def remembered(scorer: Scorer, tools: int) -> Scorer:
    """A scorer of so many tools that keeps some megabytes of its scores."""
    return lru_cache(maxsize=_SCORES // max(tools, 1) + 1)(scorer)


def fused(scores: Sequence[Scores]) -> Scores:
    """Reciprocal rank fusion: Σ 1 / (60 + rank) over the rankings, ranks from 1, ties in the library's order."""
    total = np.zeros(len(scores[0]))
    for one in scores:
        ranks = np.empty(len(one), dtype=np.intp)
        ranks[np.argsort(-one, kind="stable")] = np.arange(1, len(one) + 1)
        total += 1 / (FUSION + ranks)
    return total


def best(scores: Scores, count: int) -> np.ndarray:
    """The places of the `count` highest scores, the highest first, ties in their order; all where there are fewer."""
    if not count:
        return np.empty(0, dtype=np.intp)
    if count >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    among = np.flatnonzero(scores >= least)
    return among[np.argsort(-scores[among], kind="stable")][:count]


def document(tool: ToolSpec, by: FoundBy = "all") -> str:
    """What a tool is found by: name, description and arguments, or the description alone."""
    if by == "description":
        return tool.description[:LONGEST]
    arguments = " ".join(f"{parameter.name} {parameter.description}" for parameter in tool.parameters)
    return f"{tool.name} {tool.description} {arguments}"[:LONGEST]

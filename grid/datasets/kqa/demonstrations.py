"""Demonstrations: the training questions nearest to a question, by words or by meaning (planning_horizon B.1.1)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

import bm25s
import numpy as np

from grid.datasets.kqa.program import calls
from grid.datasets.kqa.records import Question
from grid.retrievers.embedding import embedder_of
from grid.retrievers.scored import best
from grid.types import Demonstration

_NAME = re.compile(r"\b[A-Z]\w*")
_WORD = re.compile(r"[a-z]+")
_AT_ONCE = 4096
"""Questions that are embedded and kept together: so many are done again after an interruption."""
_log = logging.getLogger(__name__)


class Scorer(Protocol):
    """Scores of all training questions for a text, float32, shape (questions,): the higher, the nearer."""

    def __call__(self, text: str) -> np.ndarray:
        """The scores."""
        ...


class Nearest:
    """An index of solved questions."""

    def __init__(self, questions: Sequence[Question], scorer: Callable[[Sequence[str]], Scorer]) -> None:
        self._questions = questions
        self._score = scorer([question.text for question in questions]) if questions else None
        self._found = lru_cache(maxsize=8192)(self._nearest)

    def __call__(self, text: str, count: int) -> tuple[Demonstration, ...]:
        """At most `count`, nearest first, never the question itself; ties in the order of the questions."""
        return self._found(text, count)

    def _nearest(self, text: str, count: int) -> tuple[Demonstration, ...]:
        if self._score is None:
            return ()
        scores = self._score(text)
        own = [place for place, question in enumerate(self._questions) if question.text == text]
        others = (self._questions[i] for i in best(scores, count + len(own)) if i not in own)
        nearest = [question for question, _ in zip(others, range(count), strict=False)]
        return tuple(Demonstration(question.text, calls(question.dag), question.answer) for question in nearest)


class ByWords:
    """BM25 over the words of questions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = len(texts)
        self._model = bm25s.BM25()
        self._model.index([_words(text) for text in texts], show_progress=False)

    def __call__(self, text: str) -> np.ndarray:
        """The scores."""
        known = [word for word in _words(text) if word in self._model.vocab_dict]
        scores: np.ndarray = self._model.get_scores(known) if known else np.zeros(self._texts, dtype=np.float32)
        return scores


class ByMeaning:
    """Cosines of sentence embeddings, kept on disk by model and texts."""

    def __init__(self, texts: Sequence[str], folder: Callable[[], Path]) -> None:
        self._texts, self._folder = texts, folder

    def __call__(self, text: str) -> np.ndarray:
        """The scores. The first call embeds the training questions, unless the user's cache has them."""
        scores: np.ndarray = self._matrix @ embedder_of(self._folder()).texts([text])[0]
        return scores

    @cached_property
    def _matrix(self) -> np.ndarray:
        embedder, parts = embedder_of(self._folder()), []
        for start in range(0, len(self._texts), _AT_ONCE):
            parts.append(embedder.library(self._texts[start : start + _AT_ONCE]))
            done = min(start + _AT_ONCE, len(self._texts))
            _log.info("%s of %s training questions embedded", f"{done:,}", f"{len(self._texts):,}")
        return np.concatenate(parts)


def _words(text: str) -> list[str]:
    """A question's words without its names, 'which' and 'when' kept: they say what is asked, names say nothing of it.

    Over `kqa_synthetic` the nearest question ends in the same function in 56% of cases, with the names and without
    stop words in 47%.
    """
    return _WORD.findall(_NAME.sub("", text[:1].lower() + text[1:]))

"""Paragraphs of running text, and which of them are nearest to a question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from grid.retrievers.scored import Scorer, best


class Paragraph(NamedTuple):
    """A paragraph and what it is about."""

    title: str
    text: str

    @property
    def shown(self) -> str:
        """As a text that is searched, and read."""
        return f"{self.title}: {self.text}"


class Corpus:
    """Paragraphs, and a scorer of all of them (each as `Paragraph.shown`); remembers the answers it has given.

    `matching`: a score that is not above 0 says that nothing is shared, as with BM25.
    """

    def __init__(self, paragraphs: Sequence[Paragraph], scorer: Scorer, *, matching: bool = True) -> None:
        self.paragraphs, self._score, self._matching = paragraphs, scorer, matching
        self._found = lru_cache(maxsize=8192)(self._nearest)

    def nearest(self, question: str, count: int) -> tuple[Paragraph, ...]:
        """At most so many paragraphs, the nearest first, ties in the corpus' order."""
        return self._found(question, count)

    def _nearest(self, question: str, count: int) -> tuple[Paragraph, ...]:
        if not self.paragraphs:
            return ()
        scores = self._score(question)
        return tuple(self.paragraphs[i] for i in best(scores, count) if not self._matching or scores[i] > 0)

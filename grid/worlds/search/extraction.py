"""A reader without a language model: the span of the nearest sentence that has the kind that a question asks for.

Sentences are weighed by the rare words that they share with the question; what kind of span is wanted (a date, a
number, a name, yes or no) follows from the question's own words. It is deterministic, training-free and weak: a
stand-in for a model in the role `simulator`, so that planners can be run without one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from grid.text.short_answers import normalised
from grid.text.words import terms
from grid.worlds.search.corpus import Paragraph

Kind: TypeAlias = Literal["year", "date", "number", "truth", "name"]
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
DATE = re.compile(rf"\b[0-9]{{1,2}} (?:{_MONTHS})(?: [0-9]{{4}})?\b|\b(?:{_MONTHS}) [0-9]{{1,2}}(?:, [0-9]{{4}})?\b")
NUMBER = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?!\w)|(?<![\w.,])[0-9]+(?:\.[0-9]+)?(?!\w)")
NAME = re.compile(
    r"\b[A-Z0-9][\w'’.&-]*(?:(?: (?:of|the|and|de|la|von|van|for|in) (?=[A-Z])| )[A-Z0-9][\w'’&-]*)*", re.UNICODE
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"”']?\s+(?=[\"“'(]?[A-Z0-9])")
_TRUTH = re.compile(r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could)\b", re.I)
_YEAR = re.compile(r"\b(?:what|which|in) (?:\w+ )?year\b", re.I)
_DATE = re.compile(r"\bwhen\b|\b(?:what|which) (?:day|date|month)\b|\bbirthday\b|\bdate of birth\b", re.I)
_COUNT = re.compile(r"\bhow (?:many|much|old|tall|long|large|far)\b|\bwhat (?:number|population|percentage)\b", re.I)
_FIRST = 400
"""Sentences that are looked at, those of the nearest paragraphs."""
_LEAST = 0.35
"""The share of a question's weight that a sentence must have for its paragraph to say anything about it."""
_NEAR = 0.5
"""How much a span gains from standing beside the question's words."""


class _Sentence(NamedTuple):
    paragraph: Paragraph
    text: str
    score: float


def extracted(question: str, paragraphs: Sequence[Paragraph]) -> str | None:
    """A span of a paragraph that may answer a question; None where no sentence says enough about it."""
    asked = set(terms(question))
    sentences = _weighed(asked, paragraphs)
    if not sentences or sentences[0].score < _LEAST:
        return None
    kind = kind_of(question)
    if kind == "truth":
        return _truth(asked, sentences)
    for sentence in sentences:
        if sentence.score < _LEAST:
            break
        spans = [span for span in _spans(kind, sentence) if not _told(span.text, question)]
        if spans:
            return max(spans, key=lambda span: (_nearness(span, sentence.text, asked), -span.start)).text
    return None


def kind_of(question: str) -> Kind:
    """What kind of span a question asks for."""
    if _TRUTH.match(question):
        return "truth"
    for pattern, kind in _KINDS:
        if pattern.search(question):
            return kind
    return "name"


_KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = ((_YEAR, "year"), (_DATE, "date"), (_COUNT, "number"))


def _weighed(asked: set[str], paragraphs: Sequence[Paragraph]) -> list[_Sentence]:
    """The sentences by the share of the question's weight that they and their titles have, the best first.

    A word weighs as it is rare among the paragraphs; one that none has weighs as the rarest.
    """
    sentences = [(one, text) for one in paragraphs for text in _SENTENCE.split(one.text)][:_FIRST]
    held = Counter(term for one in paragraphs for term in set(terms(one.shown)) & asked)
    weights = {term: math.log(1 + (len(paragraphs) + 1) / (held[term] + 0.5)) for term in asked}
    whole = sum(weights.values())
    if not whole:
        return []
    found = [
        _Sentence(one, text, _share(set(terms(f"{one.title} {text}")), weights) / whole) for one, text in sentences
    ]
    return sorted(found, key=lambda sentence: -sentence.score)  # stable: the nearest paragraph's first


def _share(words: set[str], weights: Mapping[str, float]) -> float:
    return math.fsum(weight for term, weight in weights.items() if term in words)


def _truth(asked: set[str], sentences: Sequence[_Sentence]) -> str:
    """Yes where the best sentence's paragraph has nearly all of the question's words."""
    held = set(terms(sentences[0].paragraph.shown))
    return "yes" if len(asked & held) >= 0.8 * len(asked) else "no"


class _Span(NamedTuple):
    start: int
    text: str


def _spans(kind: Kind, sentence: _Sentence) -> Iterator[_Span]:
    """The spans of a kind in a sentence. A date may be no more than a year; the paragraph's title is a name too."""
    yield from _FINDERS[kind](sentence.text)
    if kind == "date":
        yield from _matches(YEAR, sentence.text)
    if kind == "name":
        yield _Span(0, re.sub(r"\s*\([^()]*\)$", "", sentence.paragraph.title))


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[_Span]:
    for match in pattern.finditer(text):
        yield _Span(match.start(), match[0].rstrip(".,"))


_FINDERS: Mapping[Kind, Callable[[str], Iterator[_Span]]] = {
    "year": lambda text: _matches(YEAR, text),
    "date": lambda text: _matches(DATE, text),
    "number": lambda text: _matches(NUMBER, text),
    "name": lambda text: (span for span in _matches(NAME, text) if terms(span.text)),
}


def _told(span: str, question: str) -> bool:
    """Whether the question itself has a span."""
    return not normalised(span) or f" {normalised(span)} " in f" {normalised(question)} "


def _nearness(span: _Span, sentence: str, asked: set[str]) -> float:
    """How near the question's words stand to a span, from 0; words of a name that the question has count less."""
    places = [match.start() for match in re.finditer(r"\w+", sentence) if set(terms(match[0])) & asked]
    gap = min((abs(place - span.start) for place in places), default=len(sentence))
    own = len(set(terms(span.text)) & asked) / max(len(terms(span.text)), 1)
    return 1 / (1 + _NEAR * gap) - own

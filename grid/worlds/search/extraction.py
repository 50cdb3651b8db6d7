"""A reader without a language model: the span of the nearest sentence that has the kind that a question asks for.

Sentences are weighed by the rare words that they share with the question; what kind of span is wanted (a date, a
number, a place, a name, yes or no, or the sentence itself) follows from the question's own words. It is deterministic,
training-free and weak: a stand-in for a model in the role `simulator`, so that planners can be run without one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from grid.text.short_answers import normalised
from grid.text.words import STOPWORDS, terms
from grid.worlds.search.corpus import Paragraph

Kind: TypeAlias = Literal["sentence", "truth", "year", "date", "number", "place", "name"]
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
COUNTED = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
"""Numbers that stand in words, from 2 on."""
YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
DATE = re.compile(rf"\b[0-9]{{1,2}} (?:{_MONTHS})(?: [0-9]{{4}})?\b|\b(?:{_MONTHS}) [0-9]{{1,2}}(?:, [0-9]{{4}})?\b")
NUMBER = re.compile(
    r"(?<![\w.,])(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)(?!\w)" + rf"|\b(?:{'|'.join(COUNTED)})\b"
)
NAME = re.compile(
    r"\b[A-Z][\w'’.&-]*(?:(?: (?:of|the|and|de|la|von|van|for|in) (?=[A-Z])| )[A-Z0-9][\w'’&-]*)*", re.UNICODE
)
_BEFORE_PLACES = r"(?:(?<=\bin )|(?<=\bat )|(?<=\bof )|(?<=\bfrom )|(?<=\bnear ))"
_PLACE = re.compile(rf"{_BEFORE_PLACES}(?!(?:{_MONTHS})\b){NAME.pattern}(?:, {NAME.pattern})?")
_SENTENCE = re.compile(r"(?<=[.!?])[\"”']?\s+(?=[\"“'(]?[A-Z0-9])")
_AT_FIRST: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\s*(?:what|anything) (?:about|is (?:known|said|told) (?:of|about))\b", re.I), "sentence"),
    (re.compile(r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could)\b", re.I), "truth"),
)
_ANYWHERE: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"\b(?:what|which) (?:\w+ )?year\b", re.I), "year"),
    (re.compile(r"\bwhen\b|\b(?:what|which) (?:day|date|month)\b|\bbirthday\b|\bdate of birth\b", re.I), "date"),
    (re.compile(r"\bhow (?:many|much|old|tall|long|large|far)\b|\bwhat (?:number|population)\b", re.I), "number"),
    (re.compile(r"\bwhere\b|\b(?:what|which) (?:\w+ )?(?:city|country|state|county|town|village)\b", re.I), "place"),
)
_FIGURES: Mapping[Kind, re.Pattern[str]] = {"year": YEAR, "date": DATE, "number": NUMBER}
_NO_NAMES = STOPWORDS | {
    "he",
    "she",
    "her",
    "his",
    "him",
    "both",
    "after",
    "before",
    "during",
    "since",
    "while",
    "also",
}
_FIRST = 400
"""Sentences that are looked at, those of the nearest paragraphs."""
_LEAST = 0.35
"""The share of a question's weight that a sentence must have for its paragraph to say anything about it."""
_NAMED = 0.4
"""What a sentence gains where the question names what its paragraph is about."""
_NEAR = 0.5
"""How fast a span loses with its distance, in characters, to the question's words."""


class _Sentence(NamedTuple):
    paragraph: Paragraph
    text: str
    score: float


class _Span(NamedTuple):
    start: int
    text: str


def extracted(question: str, paragraphs: Sequence[Paragraph]) -> str | None:
    """A span of a paragraph that may answer a question; None where no sentence says enough about it."""
    asked, kind = set(terms(question)), kind_of(question)
    sentences = [found for found in _weighed(question, asked, paragraphs) if found.score >= _LEAST]
    if not sentences:
        return None
    if kind == "sentence":
        return sentences[0].text
    if kind == "truth":
        return _truth(asked, sentences)
    for sentence in sentences:
        spans = [span for span in _spans(kind, sentence) if not _told(span.text, question)]
        if spans:
            return max(spans, key=lambda span: (_nearness(span, sentence.text, asked), -span.start)).text
    return None


def kind_of(question: str) -> Kind:
    """What kind of span a question asks for: a name where nothing says otherwise."""
    found = [kind for pattern, kind in _AT_FIRST if pattern.match(question)]
    found += [kind for pattern, kind in _ANYWHERE if pattern.search(question)]
    return found[0] if found else "name"


def is_date(words: Sequence[str]) -> bool:
    """Whether what looks like a name is a month, or a part of a date."""
    return words[0] in _MONTHS.split("|") and all(word.isdecimal() for word in words[1:])


def bare(title: str) -> str:
    """A title without what tells it from others, as in `The Guest (film)`."""
    return re.sub(r"\s*\([^()]*\)$", "", title) or title


def _weighed(question: str, asked: set[str], paragraphs: Sequence[Paragraph]) -> list[_Sentence]:
    """The sentences by the share of the question's weight that they and their titles have, the best first.

    A word weighs as it is rare among the paragraphs; one that none has weighs as the rarest. Sentences of a paragraph
    whose title the question has gain.
    """
    sentences = [(one, text) for one in paragraphs for text in _SENTENCE.split(one.text)][:_FIRST]
    held = Counter(term for one in paragraphs for term in set(terms(one.shown)) & asked)
    weights = {term: math.log(1 + (len(paragraphs) + 1) / (held[term] + 0.5)) for term in asked}
    whole = math.fsum(weights.values())
    if not whole:
        return []
    gains = {one: _NAMED if _told(bare(one.title), question) else 0.0 for one in paragraphs}
    found = []
    for one, text in sentences:
        words = set(terms(f"{one.title} {text}"))
        share = math.fsum(weight for term, weight in weights.items() if term in words) / whole
        found.append(_Sentence(one, text, share + gains[one]))
    return sorted(found, key=lambda sentence: -sentence.score)  # stable: the nearest paragraph's first


def _truth(asked: set[str], sentences: Sequence[_Sentence]) -> str:
    """Yes where the best sentence's paragraph has nearly all of the question's words."""
    held = set(terms(sentences[0].paragraph.shown))
    return "yes" if len(asked & held) >= 0.8 * len(asked) else "no"


def _spans(kind: Kind, sentence: _Sentence) -> Iterator[_Span]:
    """The spans of a kind in a sentence; a year may stand for a date, the paragraph's title for a name."""
    text = sentence.text
    if kind in _FIGURES:
        yield from _matches(_FIGURES[kind], text)
        if kind == "date":
            yield from _matches(YEAR, text)
        return
    if kind == "place":
        yield from _matches(_PLACE, text)
    for span in _matches(NAME, text):
        words = span.text.split(" ")
        words = words[1:] if words[0].lower() in _NO_NAMES else words
        if terms(" ".join(words)) and not is_date(words):
            yield _Span(span.start, " ".join(words))
    if kind == "name":
        yield _Span(0, bare(sentence.paragraph.title))


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[_Span]:
    for match in pattern.finditer(text):
        yield _Span(match.start(), match[0].rstrip(".,"))


def _told(span: str, question: str) -> bool:
    """Whether the question itself has a span."""
    return not normalised(span) or f" {normalised(span)} " in f" {normalised(question)} "


def _nearness(span: _Span, sentence: str, asked: set[str]) -> float:
    """How near the question's words stand to a span, from 0; words of a name that the question has count less."""
    places = [match.start() for match in re.finditer(r"\w+", sentence) if set(terms(match[0])) & asked]
    gap = min((abs(place - span.start) for place in places), default=len(sentence))
    own = len(set(terms(span.text)) & asked) / max(len(terms(span.text)), 1)
    return 1 / (1 + _NEAR * gap) - own

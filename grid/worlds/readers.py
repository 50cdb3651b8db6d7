"""Readers, which answer questions in worlds that offer a search: by rules, with a model, or from the reference."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, TypeAlias

from dateutil import parser

from grid.core.types import Json, to_json
from grid.retrievers.scored import Scorer, best
from grid.text.answers import normalised
from grid.text.words import STOPWORDS, terms
from grid.worlds.simulated import Response, Simulator

# Paragraphs of running text, and a search for the paragraphs nearest to a question.


class Paragraph(NamedTuple):
    """A paragraph and its title; the title names the paragraph's subject."""

    title: str
    text: str

    @property
    def shown(self) -> str:
        """The text that is searched and read."""
        return f"{self.title}: {self.text}"


class Corpus:
    """Paragraphs, and a scorer that compares a question with the text of each paragraph (`Paragraph.shown`).

    Results are cached. If `matching` is set (as for BM25), a score of 0 or less means that question and paragraph share
    nothing, and such a paragraph is never found.
    """

    def __init__(self, paragraphs: Sequence[Paragraph], scorer: Scorer, *, matching: bool = True) -> None:
        self.paragraphs, self._score, self._matching = paragraphs, scorer, matching
        self._found = lru_cache(maxsize=8192)(self._nearest)

    def nearest(self, question: str, count: int) -> tuple[Paragraph, ...]:
        """The paragraphs nearest to a question, the nearest first, at most `count`.

        Tied paragraphs keep the order of the corpus.
        """
        return self._found(question, count)

    def _nearest(self, question: str, count: int) -> tuple[Paragraph, ...]:
        if not self.paragraphs:
            return ()
        scores = self._score(question)
        return tuple(self.paragraphs[i] for i in best(scores, count) if not self._matching or scores[i] > 0)


# A reader without a language model: it picks a span of the kind that a question asks for, from the best-scored sentence
# that has such a span.
#
# Sentences are scored by the rare words that they share with the question. The kind of span (a date, a number, a place,
# a name, yes or no, or the sentence itself) follows from the question's own words. The reader is deterministic, needs
# no training and is weak. This reader stands in for a model in the role `simulator`, so that planners can run without a
# model.


Kind: TypeAlias = Literal["sentence", "truth", "year", "date", "number", "place", "name"]
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
COUNTED = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
"""The numbers from 2 to 12, written as words."""
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
_EXTRACTION_SENTENCE = re.compile(r"(?<=[.!?])[\"”']?\s+(?=[\"“'(]?[A-Z0-9])")
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
"""The maximum number of sentences examined; the sentences come from the nearest paragraphs."""
_LEAST = 0.35
"""The minimum score, as a share of the question's weight, of a sentence that counts as relevant."""
_NAMED = 0.4
"""The bonus for a sentence if the question contains the title of the sentence's paragraph."""
_NEAR = 0.5
"""The rate at which a span's nearness falls with its distance, in characters, from the question's words."""


class _Sentence(NamedTuple):
    paragraph: Paragraph
    text: str
    score: float


class _Span(NamedTuple):
    start: int
    text: str


def extracted(question: str, paragraphs: Sequence[Paragraph]) -> str | None:
    """A span of a paragraph, or `yes` or `no`, that may answer a question; None if no relevant sentence yields one."""
    asked, kind = set(terms(question)), kind_of(question)
    sentences = [found for found in _weighed(question, asked, paragraphs) if found.score >= _LEAST]
    if not sentences:
        return None
    if kind == "sentence":
        return sentences[0].text
    if kind == "truth":
        return _extraction_truth(asked, sentences)
    for sentence in sentences:
        spans = [span for span in _spans(kind, sentence) if not _told(span.text, question)]
        if spans:
            return max(spans, key=lambda span: (_nearness(span, sentence.text, asked), -span.start)).text
    return None


def kind_of(question: str) -> Kind:
    """The kind of span that a question asks for; `name` if nothing in the question indicates another kind."""
    found = [kind for pattern, kind in _AT_FIRST if pattern.match(question)]
    found += [kind for pattern, kind in _ANYWHERE if pattern.search(question)]
    return found[0] if found else "name"


def is_date(words: Sequence[str]) -> bool:
    """Whether words that look like a name are a month or part of a date."""
    return words[0] in _MONTHS.split("|") and all(word.isdecimal() for word in words[1:])


def bare(title: str) -> str:
    """A title without the brackets that distinguish it from other titles, such as `(film)` in `The Guest (film)`."""
    return re.sub(r"\s*\([^()]*\)$", "", title) or title


def _weighed(question: str, asked: set[str], paragraphs: Sequence[Paragraph]) -> list[_Sentence]:
    """The sentences of the paragraphs, sorted by score, the best first.

    A sentence's score is the share of the question's total weight that belongs to words found in the sentence or in the
    title of its paragraph. A word of the question has more weight if it is rarer in the paragraphs. A sentence gets a
    bonus if the question contains the title of its paragraph.
    """
    sentences = [(one, text) for one in paragraphs for text in _EXTRACTION_SENTENCE.split(one.text)][:_FIRST]
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
    return sorted(found, key=lambda sentence: -sentence.score)  # stable: sentences of the nearest paragraph stay first


def _extraction_truth(asked: set[str], sentences: Sequence[_Sentence]) -> str:
    """`yes` if the paragraph of the best sentence has at least 80% of the question's words, otherwise `no`."""
    held = set(terms(sentences[0].paragraph.shown))
    return "yes" if len(asked & held) >= 0.8 * len(asked) else "no"


def _spans(kind: Kind, sentence: _Sentence) -> Iterator[_Span]:
    """The spans of a kind in a sentence. Years are also dates, names also places; the paragraph's title is a name."""
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
    """Whether the question itself contains a span."""
    return not normalised(span) or f" {normalised(span)} " in f" {normalised(question)} "


def _nearness(span: _Span, sentence: str, asked: set[str]) -> float:
    """How near a span is, within its sentence, to the words of the question; at most 1.

    Words that the span shares with the question reduce its nearness.
    """
    places = [match.start() for match in re.finditer(r"\w+", sentence) if set(terms(match[0])) & asked]
    gap = min((abs(place - span.start) for place in places), default=len(sentence))
    own = len(set(terms(span.text)) & asked) / max(len(terms(span.text)), 1)
    return 1 / (1 + _NEAR * gap) - own


NOT_FOUND = "No paragraph that was found answers this question. Ask another, or take another tool"
NOT_TOLD = "This cannot be told from the question. Ask another, or take another tool"
_UNREADABLE = "The answer could not be read"
_SHOWN = 4_000
"""The maximum length of a paragraph shown to a model, in characters; the rest is cut off."""
_LONGEST = 2_000
"""The maximum length of an answer, in characters; the rest is cut off."""


class Found(NamedTuple):
    """A question's result: an answer, or None and the reason (without a full stop) why there is no answer."""

    answer: str | None
    why: str = ""


class Reader(Protocol):
    """A reader answers questions. The same question always gets the same answer, no matter who asks."""

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The answer to a question from the paragraphs found for it; `paragraphs` is sorted, the nearest first."""
        ...

    async def reason(self, question: str) -> Found:
        """The answer to a question, drawn from the question alone."""
        ...


@dataclass(frozen=True)
class ByRules:
    """A reader that applies rules to words, names, numbers and dates.

    This reader uses no language model and knows no answers.
    """

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The answer that `extracted` finds."""
        answer = extracted(question, paragraphs)
        return Found(answer, "" if answer else NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """The answer that `concluded` finds."""
        answer = concluded(question)
        return Found(answer, "" if answer else NOT_TOLD)


@dataclass(frozen=True)
class ByModel:
    """A reader that asks a model in the role `simulator`. The model sees only the question and the paragraphs."""

    simulator: Simulator

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The model's answer; the model is not asked if no paragraph was found."""
        if not paragraphs:
            return Found(None, NOT_FOUND)
        return _read(await self.simulator.read(question, [one.shown[:_SHOWN] for one in paragraphs]), NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """The answer that the model finds by reasoning, without paragraphs."""
        return _read(await self.simulator.read(question, None), NOT_TOLD)


class Evidence(NamedTuple):
    """The reference's answer for one of its calls, and the title of the paragraph that contains this answer.

    If the title is empty, the call needs no paragraph.
    """

    answer: str
    title: str = ""


@dataclass(frozen=True)
class ByReference:
    """A reader that knows the reference, for the oracle and for engines that are given the reference.

    No language model ever gets this reader.

    Only the reference's questions are answered. For a search, the paragraph with the answer must also have been found.
    """

    evidence: Mapping[str, Evidence] = field(repr=False)

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The reference's answer, if the paragraph that contains it is among those found."""
        known = self.evidence.get(question)
        if known is None or not known.title or all(one.title != known.title for one in paragraphs):
            return Found(None, NOT_FOUND)
        return Found(known.answer)

    async def reason(self, question: str) -> Found:
        """The reference's answer to a question that needs no paragraph."""
        known = self.evidence.get(question)
        return Found(None, NOT_TOLD) if known is None or known.title else Found(known.answer)


def _read(played: Response | None, otherwise: str) -> Found:
    """A model's response, converted to an answer."""
    if played is None:
        return Found(None, _UNREADABLE)
    answer = "" if played.error else _text(played.response)
    if answer:
        return Found(answer)
    why = " ".join(played.error.split()).rstrip(".")[:_LONGEST]
    return Found(None, why or otherwise)


def _text(value: Json) -> str:
    """A response as text on one line; empty if the response is null or empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(map(str, value))
    return " ".join((value if isinstance(value, str) else to_json(value)).split())[:_LONGEST]


# A reasoner without a language model, which compares the facts that a question itself gives about two names.
#
# "Annie Morton was born on 8 October 1970, Terry Richardson on 14 August 1965. Who is older?" The first two names in
# the question's last sentence are used or, if it has fewer than two, the first two in the whole question. The text
# about a name reaches from the name to the next name. The reasoner can only answer yes or no, or choose one of the two
# names.


_SENTENCE = re.compile(r"(?<=[.!?;:])[\"”']?\s+")
_EARLIER = frozenset(terms("first earlier earliest before older oldest sooner"))
_LATER = frozenset(terms("later latest after younger youngest newer newest last recent recently"))
_MORE = frozenset(terms("more most larger largest bigger biggest higher highest longer longest taller tallest greater"))
_FEWER = frozenset(terms("fewer fewest less least smaller smallest shorter shortest lower lowest"))
_COUNTS = {word: number for number, word in enumerate(COUNTED, 2)}
_BOTH = frozenset(terms("both"))
_SAME = frozenset(terms("same common share"))
_TRUTH = re.compile(r"\s*(?:(?:so|then|and),? )?(?:is|are|was|were|do|does|did|has|have|had|can|could)\b", re.I)
_EITHER = re.compile(r"\bor\b|\bwhich\b|\bwho\b", re.I)
_GRAMMAR = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "which",
        "who",
        "what",
        "of",
        "by",
        "that",
        "so",
        "in",
        "both",
        "between",
        "if",
        "given",
    ]
)


def concluded(question: str) -> str | None:
    """An answer drawn from the text of the question alone; None if no rule gives an answer."""
    facts, asked = _split(question)
    names = _named(asked) if len(_named(asked)) >= 2 else _named(question)
    if len(names) < 2:
        return None
    said = _said(facts, names[:2])
    if len(said) < 2:
        return None
    words = set(terms(asked))
    for signs, sign in ((_EARLIER, 1), (_LATER, -1), (_FEWER, 1), (_MORE, -1)):
        if words & signs:
            return _least(said, sign, dated=signs in (_EARLIER, _LATER))
    topic = words - {term for name in said for term in terms(name)} - _BOTH - _SAME
    if _TRUTH.match(asked):
        return _truth(words, topic, said)
    if _EITHER.search(asked):
        return _fitting(topic, said)
    return None


def _split(question: str) -> tuple[str, str]:
    """A question's text in two parts: the facts, and the last sentence, which asks the question.

    If there is only one sentence, it counts both as the facts and as the question.
    """
    parts = [part for part in _SENTENCE.split(question.strip()) if part]
    return (" ".join(parts[:-1]), parts[-1]) if len(parts) > 1 else (question, question)


def _named(text: str) -> list[str]:
    """The distinct names in a text, in order; function words at the beginning of a name are removed."""
    found = []
    for name in (part for match in NAME.finditer(text) for part in match[0].rstrip(".").split(" and ")):
        words = name.split(" ")
        while words and words[0].lower() in _GRAMMAR:
            words = words[1:]
        if words and not is_date(words):
            found.append(" ".join(words))
    return list(dict.fromkeys(found))


def _said(facts: str, names: Sequence[str]) -> dict[str, str]:
    """For each name, the text after its first mention, up to the next name (or up to the end, if no name follows)."""
    places = sorted((place, name) for name in names if (place := facts.find(name)) >= 0)
    ends = [*(place for place, _ in places[1:]), len(facts)]
    return {name: facts[place + len(name) : end] for (place, name), end in zip(places, ends, strict=False)}


def _least(said: Mapping[str, str], sign: int, *, dated: bool) -> str | None:
    """The name whose text has the smallest first value or, if `sign` is -1, the largest.

    None if a value is missing or both values are equal.
    """
    values = {name: _dated(text) if dated else _number(text) for name, text in said.items()}
    known = [(sign * value, name) for name, value in values.items() if value is not None]
    if len(known) < len(said) or known[0][0] == known[1][0]:
        return None
    return min(known)[1]


def _dated(text: str) -> float | None:
    """The first date as a day number if it has a year, else the first day of the first year named.

    None if there is neither, or if there is no such day.
    """
    match = DATE.search(text)
    if match and YEAR.search(match[0]):
        try:
            return float(parser.parse(match[0]).toordinal())
        except (ValueError, OverflowError):
            return None
    year = YEAR.search(text)
    return float(date(int(year[0]), 1, 1).toordinal()) if year else None


def _number(text: str) -> float | None:
    match = NUMBER.search(text)
    if not match:
        return None
    return float(_COUNTS[match[0]] if match[0] in _COUNTS else match[0].replace(",", ""))


def _truth(words: set[str], topic: set[str], said: Mapping[str, str]) -> str:
    """`yes` or `no`.

    If the question asks for something in common, the result is whether the two texts share a name or number. Otherwise,
    it is whether each text has more than half of the topic's words.
    """
    if words & _SAME:
        numbers = ([str(_COUNTS.get(one, one)) for one in NUMBER.findall(text)] for text in said.values())
        one, other = ({*_named(text), *found} for text, found in zip(said.values(), numbers, strict=True))
        return "yes" if one & other else "no"
    shares = [len(topic & set(terms(text))) for text in said.values()]
    return "yes" if topic and all(2 * share > len(topic) for share in shares) else "no"


def _fitting(topic: set[str], said: Mapping[str, str]) -> str | None:
    """The name whose text has more of the topic's words; None if both texts have the same number of these words."""
    (one, first), (other, second) = ((name, len(topic & set(terms(text)))) for name, text in said.items())
    if first == second:
        return None
    return one if first > second else other

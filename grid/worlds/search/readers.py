"""Who answers the questions of a world that searches: rules, a model, or the reference itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple, Protocol

from dateutil import parser

from grid.core.types import Json, to_json
from grid.text.words import terms
from grid.worlds.search.corpus import Paragraph
from grid.worlds.search.extraction import COUNTED, DATE, NAME, NUMBER, YEAR, extracted, is_date
from grid.worlds.simulated import Response, Simulator

NOT_FOUND = "No paragraph that was found answers this question. Ask another, or take another tool"
NOT_TOLD = "This cannot be told from the question. Ask another, or take another tool"
_UNREADABLE = "The answer could not be read"
_SHOWN = 4_000
"""Characters of a paragraph that a model is shown."""
_LONGEST = 2_000
"""Characters of an answer; the rest is cut."""


class Found(NamedTuple):
    """What came of a question: its answer, or (None) why there is none, as an unfinished sentence."""

    answer: str | None
    why: str = ""


class Reader(Protocol):
    """Whoever answers questions. The same question has the same answer, whoever asks."""

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The answer to a question by the paragraphs that were found for it, the nearest first."""
        ...

    async def reason(self, question: str) -> Found:
        """The answer to a question by the question alone."""
        ...


@dataclass(frozen=True)
class ByRules:
    """Rules on words, names, numbers and dates: no language model, and nobody tells them an answer."""

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """What `extracted` finds."""
        answer = extracted(question, paragraphs)
        return Found(answer, "" if answer else NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """What `concluded` finds."""
        answer = concluded(question)
        return Found(answer, "" if answer else NOT_TOLD)


@dataclass(frozen=True)
class ByModel:
    """A model in the role `simulator`. It sees the question and the paragraphs, and nothing of the case."""

    simulator: Simulator

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """Nothing is asked where nothing was found."""
        if not paragraphs:
            return Found(None, NOT_FOUND)
        return _read(await self.simulator.read(question, [one.shown[:_SHOWN] for one in paragraphs]), NOT_FOUND)

    async def reason(self, question: str) -> Found:
        """As it reasons."""
        return _read(await self.simulator.read(question, None), NOT_TOLD)


class Evidence(NamedTuple):
    """What the reference says of one of its calls: the answer, and the title of the paragraph that holds it.

    Without a title it needs none.
    """

    answer: str
    title: str = ""


@dataclass(frozen=True)
class ByReference:
    """The reference itself: for engines that are told it, and for the oracle. No language model ever meets it.

    Its own questions have the answers that it has for them, where a search found the paragraph that holds them. All
    others have none.
    """

    evidence: Mapping[str, Evidence] = field(repr=False)

    async def search(self, question: str, paragraphs: Sequence[Paragraph]) -> Found:
        """The reference's answer, where its paragraph is among those that were found."""
        known = self.evidence.get(question)
        if known is None or not known.title or all(one.title != known.title for one in paragraphs):
            return Found(None, NOT_FOUND)
        return Found(known.answer)

    async def reason(self, question: str) -> Found:
        """The reference's answer."""
        known = self.evidence.get(question)
        return Found(None, NOT_TOLD) if known is None or known.title else Found(known.answer)


def _read(played: Response | None, otherwise: str) -> Found:
    """A model's response as an answer."""
    if played is None:
        return Found(None, _UNREADABLE)
    answer = "" if played.error else _text(played.response)
    if answer:
        return Found(answer)
    why = " ".join(played.error.split()).rstrip(".")[:_LONGEST]
    return Found(None, why or otherwise)


def _text(value: Json) -> str:
    """A response as a text on one line; empty where it says nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ", ".join(map(str, value))
    return " ".join((value if isinstance(value, str) else to_json(value)).split())[:_LONGEST]


# A reasoner without a language model: it compares what a question itself says of the two that it names.
#
# "Annie Morton was born on 8 October 1970, Terry Richardson on 14 August 1965. Who is older?" The names are those that
# the question's last sentence has or, where it has fewer than two, the first ones of all; what is said of a name is the
# text from where it is named up to the next name. Yes and no, and which of two, are all that it can tell.


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
    """An answer to a question by what it says; None where no rule applies."""
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
    """What is said, and the last sentence, which asks."""
    parts = [part for part in _SENTENCE.split(question.strip()) if part]
    return (" ".join(parts[:-1]), parts[-1]) if len(parts) > 1 else (question, question)


def _named(text: str) -> list[str]:
    """The names in a text, each once, in their order; a word of grammar at its beginning is none."""
    found = []
    for name in (part for match in NAME.finditer(text) for part in match[0].rstrip(".").split(" and ")):
        words = name.split(" ")
        while words and words[0].lower() in _GRAMMAR:
            words = words[1:]
        if words and not is_date(words):
            found.append(" ".join(words))
    return list(dict.fromkeys(found))


def _said(facts: str, names: Sequence[str]) -> dict[str, str]:
    """By name the text behind its first mention, up to the other name."""
    places = sorted((place, name) for name in names if (place := facts.find(name)) >= 0)
    ends = [*(place for place, _ in places[1:]), len(facts)]
    return {name: facts[place + len(name) : end] for (place, name), end in zip(places, ends, strict=False)}


def _least(said: Mapping[str, str], sign: int, *, dated: bool) -> str | None:
    """The name whose first value is the least (`sign` 1) or the greatest; None where a value is lacking, or equal."""
    values = {name: _dated(text) if dated else _number(text) for name, text in said.items()}
    known = [(sign * value, name) for name, value in values.items() if value is not None]
    if len(known) < len(said) or known[0][0] == known[1][0]:
        return None
    return min(known)[1]


def _dated(text: str) -> float | None:
    """The first date as a number of days, or the first year's first day; None without any."""
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
    """Of what is the same: whether a name or a number is said of both. Else whether more than half of the topic is."""
    if words & _SAME:
        numbers = ([str(_COUNTS.get(one, one)) for one in NUMBER.findall(text)] for text in said.values())
        one, other = ({*_named(text), *found} for text, found in zip(said.values(), numbers, strict=True))
        return "yes" if one & other else "no"
    shares = [len(topic & set(terms(text))) for text in said.values()]
    return "yes" if topic and all(2 * share > len(topic) for share in shares) else "no"


def _fitting(topic: set[str], said: Mapping[str, str]) -> str | None:
    """The name of which more of the topic is said; None where it is as much of both."""
    (one, first), (other, second) = ((name, len(topic & set(terms(text)))) for name, text in said.items())
    if first == second:
        return None
    return one if first > second else other

"""Finding values in text: identifiers, dates, amounts, quantities, quoted strings, names, and output fields."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from grid.core.types import Json, hashed_once
from grid.core.untrusted import loads
from grid.text.words import STOPWORDS, stems

Kind = Literal["identifier", "email", "path", "date", "time", "money", "number", "quoted", "name", "field"]
MAX_CHARACTERS = 20_000  # of a text; what follows is not read
MAX_RUN = 200  # characters of a value without a blank
# What the patterns below repeat without an end. They look at a run from every place in it, so that runs are kept short.
_LONG_RUN = re.compile(rf"(?<![\w.,/+@&'’%-])[\w.,/+@&'’%-]{{{MAX_RUN + 1},}}")
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
)
_TIME = r"(?:\d{1,2}:\d{2}(?:\s?[AaPp][Mm])?|\d{1,2}\s?[AaPp]\.?[Mm]\b)"
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("quoted", re.compile(r"[\"“]([^\"“”]{1,200})[\"”]|(?<!\w)['‘]([^'‘’\n]{2,200})['’](?!\w)")),
    (
        "date",
        re.compile(
            rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}})?|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}"
            rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?"
            rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?"
        ),
    ),
    ("time", re.compile(_TIME)),
    (
        "money",
        re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\d[\d,]*(?:\.\d+)?\s?(?:USD|EUR|dollars|yuan|RMB|euros)\b"),
    ),
    (
        "path",
        re.compile(
            r"(?:[A-Za-z]:|(?<=\s)(?=/))?/?(?:[\w.-]+/)*[\w.-]+\.(?:txt|docx?|xlsx?|pptx?|pdf|md|csv|json|jpg|png)\b"
        ),
    ),
    (
        "identifier",
        re.compile(
            r"#?\b(?=[\w./-]*\d)(?=[\w./-]*[A-Z])[A-Za-z0-9]+(?:[-_/.][A-Za-z0-9]+)*\b|#\d+|\b\d{6,}\b|\b\d+(?:-\d+)+\b"
        ),
    ),
    ("number", re.compile(r"\b\d[\d,]*(?:\.\d+)?%?")),
    ("name", re.compile(r"\b[A-Z][\w'&]*(?:[ -][A-Z][\w'&-]*)*")),
)
_LABELLED = re.compile(r"[(,]\s*([A-Za-z][\w' ]{1,40}): ([^():]+?)(?=, [A-Za-z][\w' ]{1,40}: |\)|$)")
_LABEL = 20  # characters of an entry's label at most
_RETURNED = " returned "
_SENTENCE, _CLAUSE = re.compile(r"[.!?]\s"), re.compile(r"[,;.!?](?:\s|$)")
_OPENING = re.compile(r"(?:^|[.!?:]\s)$")
_BEFORE, _AFTER = 48, 24  # characters of context on either side of a value


@hashed_once
@dataclass(frozen=True)
class Found:
    """A value seen in a text, the stems around it (nearest words count more), and where it stood."""

    kind: Kind
    value: Json
    before: tuple[str, ...]
    after: tuple[str, ...]
    position: int


@lru_cache(maxsize=16384)
def values_in(text: str) -> tuple[Found, ...]:
    """The values in a text in order, each stretch of text read as one value only, the more telling kind first.

    The words before a value reach back to the value before it, those behind it to the next punctuation or value.
    Linear in the text, of which `readable` says how much is read.
    """
    text = readable(text)
    spans: list[tuple[int, int, Kind, str]] = []
    taken = bytearray(len(text))
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if taken.find(1, start, end) >= 0:
                continue
            value = next((group for group in match.groups() if group), match[0]) if match.groups() else match[0]
            if kind == "name":
                value = _proper(value, opens=_OPENING.search(text, max(start - 3, 0), start) is not None)
            if value.strip():
                spans.append((start, end, kind, value.strip()))
                taken[start:end] = b"\1" * (end - start)
    spans.sort()
    found = []
    # A single capitalised word may be a label (`SKU`), so it is no border.
    borders = [(start, end) for start, end, kind, value in spans if kind != "name" or " " in value]
    begins, stops = [0, *(begin for begin, _ in borders), len(text)], [0, *(stop for _, stop in borders)]
    for start, end, kind, value in spans:
        previous = stops[bisect_right(stops, start) - 1]
        following = begins[bisect_left(begins, end, lo=1)]
        before = _SENTENCE.split(text[max(previous, start - _BEFORE) : start])[-1]
        after = _CLAUSE.split(text[end : min(following, end + _AFTER)])[0]
        found.append(Found(kind, value, stems(before), stems(after), start))
    return tuple(found)


def readable(text: str) -> str:
    """The first MAX_CHARACTERS of a text, with blanks in place of every run that is longer than a value (MAX_RUN)."""
    return _LONG_RUN.sub(lambda match: " " * len(match[0]), text[:MAX_CHARACTERS])


def _proper(name: str, opens: bool) -> str:
    """A capitalised phrase without what only begins a sentence (`opens`); empty where nothing is left."""
    words = name.split(" ")
    first = 1 if opens and len(words) != 2 else 0
    while first < len(words) and (words[first].lower() in STOPWORDS or len(words[first]) == 1 or "'" in words[first]):
        first += 1
    return " ".join(words[first:])


@lru_cache(maxsize=65536)
def unlabelled(entry: str) -> str:
    """An entry without its label (`Query: `) and step number, which say nothing."""
    label, colon, rest = entry.partition(": ")
    return re.sub(r"^\d+(?:\.\d+)*\s+", "", rest if colon and len(label) <= _LABEL else entry)


@lru_cache(maxsize=16384)
def labelled_in(text: str) -> tuple[Found, ...]:
    """Values written as `(Label: value, Label: value)`; the stems of its label stand before each."""
    matches = _LABELLED.finditer(text[:MAX_CHARACTERS])
    return tuple(Found("field", m[2].rstrip() or m[2][:1], stems(m[1]), (), m.start()) for m in matches)


@lru_cache(maxsize=65536)
def fields_in(entry: str) -> tuple[Found, ...]:
    """The result fields that a history entry shows after 'returned'; the stems of its name stand before each."""
    place = entry.find(_RETURNED + "{")
    if place < 0:
        return ()
    try:
        content = loads(entry[place + len(_RETURNED) :])
    except (ValueError, RecursionError):
        return ()
    return tuple(
        Found("field", value, stems(name), (), 0) for name, value in _leaves(content) if value not in (None, "")
    )


def _leaves(content: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(content, dict):
        for name, value in content.items():
            if isinstance(value, dict):
                yield from _leaves(value)
            else:
                yield name, value

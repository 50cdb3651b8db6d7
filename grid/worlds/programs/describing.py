"""Whether a text describes a value or is one."""

from __future__ import annotations

import re
from functools import lru_cache

from grid.text.words import stems, terms

_EMPTY = frozenset(["", "none", "null", "n/a", "na", "-", "?", "...", "…"])
_PLACEHOLDER = re.compile(
    r"[<{\[].*[>}\]]|\b(?:tbd|placeholder|to be determined|to be filled|some value|x{3,})\b", re.I
)
_DETERMINER = re.compile(
    r"(?:the|a|an|this|that|these|those|all|each|every|any|my|our|their|its|his|her|both|some|same|user'?s?|"
    r"whatever|whichever|something|anything|appropriate|relevant|suitable|corresponding)\b",
    re.I,
)
_BETWEEN_WORDS = re.compile(r"\b(?:of|for|from|in|at|on|by|with|to|about|between|per|using|as|based)\b", re.I)
_REFERS = re.compile(
    r"\b(?:step|output|result|return(?:s|ed)?|obtained|retrieved|previous(?:ly)?|earlier|above|computed|calculated|"
    r"extracted|provided|identified|found|generated|determined|selected|query|request(?:ed)?|specified|given|mentioned|"
    r"fetched|received|produced|created|derived)\b",
    re.I,
)


def folded(text: str) -> str:
    """A value as it is compared: without case, outer quotes, and what white space there is."""
    return " ".join(text.split()).strip("\"'“”‘’`").rstrip(".,;:").casefold()


def empty(text: str) -> bool:
    """Whether a text stands for no value at all."""
    return folded(text) in _EMPTY


@lru_cache(maxsize=65536)
def bag(text: str) -> frozenset[str]:
    """The words of a text as stems, names taken apart, and its numbers."""
    return frozenset(stems(text)) | {word for word in terms(text) if any(char.isdigit() for char in word)}


def describes(text: str, words: frozenset[str], known: frozenset[str]) -> bool:
    """Whether a text is words about a value, not the value; `known` are words that such values go by.

    It begins with a determiner, has three words or more and neither capitals nor digits, speaks of steps, results or
    the query, holds a place for a value, has no word that is not known, or joins a known word to others ("forecast for
    Lisbon").
    """
    if _PLACEHOLDER.search(text) or _DETERMINER.match(text) or _REFERS.search(text):
        return True
    if text.count(" ") > 1 and text.islower() and not any(char.isdigit() for char in text):
        return True
    letters = {word for word in words if word.isalpha()}
    if not letters or letters != words:
        return bool(letters & known) and bool(_BETWEEN_WORDS.search(text))
    return letters <= known or (bool(letters & known) and bool(_BETWEEN_WORDS.search(text)))

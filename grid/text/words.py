"""The words of a text, which the retriever and the lexical engine compare."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

_STEMMER = Stemmer.Stemmer("english")
_WORD = re.compile(r"[a-z]+")
_TERM = re.compile(r"[^\W_]+")
STOPWORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "do",
        "for",
        "from",
        "had",
        "has",
        "have",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "so",
        "such",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "too",
        "was",
        "we",
        "were",
        "what",
        "when",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
        "please",
        "want",
        "need",
    ]
)


@lru_cache(maxsize=262144)
def stems(text: str) -> tuple[str, ...]:
    """The stems of a text's words in order, without stop words; snake_case and camelCase are split into words.

    Digits do not count as words, since the numbers of options and steps have no meaning.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    words = [word for word in _WORD.findall(spaced.lower()) if word not in STOPWORDS]
    return tuple(_STEMMER.stemWords(words))


TERMS = "1"
"""The version of `terms`, which stored indexes record; to be increased whenever the results of `terms` change."""


def terms(text: str) -> list[str]:
    """The terms for searching running text: the stems of a text's words, without stop words, and its numbers, in order.

    Case and accents are ignored. Single letters are left out.
    """
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    words = [word for word in _TERM.findall(text.lower()) if word not in STOPWORDS]
    stemmed: list[str] = _STEMMER.stemWords([word for word in words if len(word) > 1 or not word.isalpha()])
    return stemmed

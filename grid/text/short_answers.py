"""Short answers against the right ones, by token: HotpotQA's official evaluation, which is SQuAD's; and their parts."""

from __future__ import annotations

import re
import string
from collections import Counter

from grid.core.types import BETWEEN

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})
_NUMBERED = re.compile(r"\s*([0-9]{1,3})\s*[.):]\s+(.*)", re.DOTALL)


def normalised(text: str) -> str:
    """In lower case, without ASCII punctuation and articles, with single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(given: str, right: str) -> bool:
    """Whether both are the same once they are normalised."""
    return normalised(given) == normalised(right)


def f1(given: str, right: str) -> float:
    """The harmonic mean of precision and recall over tokens, in [0, 1]. Yes, no and noanswer are right or wrong."""
    one, other = normalised(given), normalised(right)
    if one != other and (one in _CLOSED or other in _CLOSED):
        return 0.0
    tokens, wanted = one.split(), other.split()
    shared = sum((Counter(tokens) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(tokens), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def parts_of(answer: str | None, count: int) -> tuple[str, ...]:
    """The answers to `count` questions, in their order; an empty text for each where it cannot be told which is which.

    Of one question it is the whole answer. Of several it is read as lines that are numbered from 1 (words before the
    first do not count, further lines go with the one before), as so many lines, or as so many texts parted by `; `.
    """
    text = (answer or "").strip()
    if count == 1:
        return (text,)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    pieces = [piece.strip() for piece in text.split(BETWEEN)] if len(lines) == 1 else []
    ways = [parts for parts in (_numbered(lines), _numbered(pieces)) if parts] or [lines, pieces]
    return next((tuple(parts) for parts in ways if len(parts) == count), ("",) * count)


def _numbered(lines: list[str]) -> list[str]:
    """The texts behind the numbers 1, 2, ... in this order; none where the first number is not 1."""
    parts: list[str] = []
    for line in lines:
        match = _NUMBERED.fullmatch(line)
        if match and int(match[1]) == len(parts) + 1:
            parts.append(match[2].strip())
        elif parts:
            parts[-1] = f"{parts[-1]} {line}"
    return parts

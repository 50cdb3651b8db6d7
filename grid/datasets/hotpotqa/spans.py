"""Which words of a bridge question describe its pivot: those that its first paragraph tells about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from grid.text.words import terms

_WORD = re.compile(r"\S+")
_EDGES = "\"“”'‘’()[],;:.?!"
_ASKING = frozenset(["what", "which", "who", "whom", "whose", "when", "where", "how", "why"])
_RELATIVE = frozenset(["who", "whom", "whose", "which", "that", "where", "when"])
_DETERMINERS = frozenset(["the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their"])
_MODIFYING = frozenset(["what", "which", "whose", "how"])
"""What is asked for stands behind them: `what city`."""
_PREPOSITIONS = frozenset(["by", "in", "at", "on", "for", "with", "from", "to", "as", "into", "than"])
_VERBS = frozenset(
    ["is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had", "can", "could", "will"]
)
_GRAMMAR = _ASKING | _PREPOSITIONS | _VERBS | frozenset(["and", "or", "but", "would", "also"])
_WEIGHTS = {(True, False): 1.0, (True, True): 0.25, (False, False): -0.25, (False, True): -1.0}
"""Of a word, by whether the first paragraph has it, and whether the second does."""
_MOST = 120
"""Words of a question that are looked at."""
_NEAR = 3
"""Words between a noun and its determiner, at most."""


def described(question: str, first: str, second: str) -> tuple[int, int] | None:
    """Where the span lies that one paragraph tells about and another does not; None where there is none.

    Of all spans that may be taken out of the question, that with the most words of the first paragraph alone and the
    fewest of the second alone; of equal ones the first and shortest. Then it is widened to what belongs to it: the
    determiner, `the director of` a film, and the noun before a relative clause that asks.
    """
    words = _Words(question)
    totals = [0.0, *accumulate(words.weights(set(terms(first)), set(terms(second))))]
    best: tuple[float, int, int] | None = None
    for start in range(len(words.bare)):
        if words.bare[start] not in _GRAMMAR | _RELATIVE | {"of"}:
            for end in range(start + 1, len(words.bare) + 1):
                score = totals[end] - totals[start]
                if score > (best[0] if best else 0.0) and words.may_leave(start, end):
                    best = score, start, end
    if best is None:
        return None
    start = words.widened(best[1], best[2])
    end = words.lengthened(start, best[2])
    return words.places[start][0], words.places[end - 1][1]


class _Words:
    """A question's words: where each stands, and in lower case without quotes and punctuation."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.places = [match.span() for match in _WORD.finditer(text)][:_MOST]
        self.bare = [text[start:end].strip(_EDGES).lower() for start, end in self.places]

    def weights(self, first: set[str], second: set[str]) -> list[float]:
        """How much each word tells of the first paragraph and not of the second; 0 for words of grammar."""
        return [
            sum(_WEIGHTS[term in first, term in second] for term in own) / max(len(own), 1)
            for own in (self._content[place] for place in range(len(self.bare)))
        ]

    def may_leave(self, start: int, end: int) -> bool:
        """Whether a span may go: a word that asks is left, where there is one, and something that is asked.

        No span parts `what` from what it asks for.
        """
        outside = (*range(start), *range(end, len(self.bare)))
        asks = any(self.bare[place] in _ASKING for place in outside) or not _ASKING.intersection(self.bare)
        parted = start > 0 and self.bare[start - 1] in _MODIFYING
        return asks and not parted and any(self._content[place] or self.bare[place] == "from" for place in outside)

    def widened(self, start: int, end: int) -> int:
        """Where a span begins with its determiner, the noun before its relative clause, and what it is `of`."""
        bare, reach, behind = self.bare, start, ""
        while reach and not self._breaks(reach - 1):
            word = bare[reach - 1]
            if word == "of" or self._relates(reach - 1):
                behind = word
            elif word not in _DETERMINERS and (word in _GRAMMAR or not (behind or self._determined(reach))):
                break
            reach -= 1
            noun = word not in _GRAMMAR | _RELATIVE and behind not in ("", "of")
            if (noun or word in _DETERMINERS or not reach) and self.may_leave(reach, end):
                start = reach
            if word in _DETERMINERS and word != behind and (not reach or bare[reach - 1] != "of"):
                break
        return start

    def lengthened(self, start: int, end: int) -> int:
        """Where a span ends with the noun before a relative clause that begins soon behind it: `by an actress who`."""
        bare = self.bare
        if self._breaks(end - 1) or end == len(bare) or bare[end] not in _PREPOSITIONS | _DETERMINERS:
            return end
        for reach in range(end + 1, min(end + 3 + _NEAR, len(bare))):
            if bare[reach] in _RELATIVE:
                return reach if reach > end + 1 and self.may_leave(start, reach) else end
            if bare[reach] in _GRAMMAR or self._breaks(reach):
                break
        return end

    @cached_property
    def _content(self) -> list[Sequence[str]]:
        """The terms of each word; none for words of grammar."""
        return [() if word in _GRAMMAR else terms(word) for word in self.bare]

    def _breaks(self, place: int) -> bool:
        """Whether a comma or the like ends a word."""
        return self._text[self.places[place][1] - 1] in ",;:.?!"

    def _relates(self, place: int) -> bool:
        """Whether a word, or a verb behind it, begins a relative clause of the noun before it."""
        at = place - 1 if self.bare[place] in _VERBS else place
        return at > 0 and self.bare[at] in _RELATIVE and self.bare[at - 1] not in _GRAMMAR | _DETERMINERS

    def _determined(self, before: int) -> bool:
        """Whether a determiner stands close before a place, with nothing but nouns and the like between."""
        for place in range(before - 1, max(before - 2 - _NEAR, -1), -1):
            if self.bare[place] in _DETERMINERS:
                return True
            if self.bare[place] in _GRAMMAR or self._breaks(place):
                return False
        return False

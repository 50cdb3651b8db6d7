"""The web that GoogleSearch looks into: a small set of entries, each about one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from grid.text.words import stems


class Entry(NamedTuple):
    """What a page says of something that has a name."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Web:
    """Entries. A query finds those whose whole names it has, first the one with which it shares most other words.

    So a search for watches finds the watch of no brand: whoever looks for one must have read its name.
    """

    entries: tuple[Entry, ...]

    @cached_property
    def _words(self) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        return {
            one.title: (frozenset(stems(one.name)), frozenset(stems(f"{one.title} {one.text}"))) for one in self.entries
        }

    def found(self, query: str, most: int) -> Sequence[Entry]:
        """At most so many entries."""
        wanted = frozenset(stems(query))
        ranked = []
        for entry in self.entries:
            name, words = self._words[entry.title]
            if name <= wanted:
                ranked.append((-len(words & wanted), entry))
        return [entry for _, entry in sorted(ranked)[:most]]

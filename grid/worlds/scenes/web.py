"""The web that GoogleSearch looks into: a small set of entries, each about one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from grid.text.words import stems

_ENOUGH = 0.5  # of an entry's title


@dataclass(frozen=True)
class Web:
    """Entries, each a title and a text. A query finds those at least half of whose title it has, most of it first."""

    entries: tuple[tuple[str, str], ...]

    @cached_property
    def _stems(self) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        return {title: (frozenset(stems(title)), frozenset(stems(text))) for title, text in self.entries}

    def found(self, query: str, most: int) -> Sequence[tuple[str, str]]:
        """At most so many entries."""
        wanted = frozenset(stems(query))
        ranked = []
        for title, text in self.entries:
            names, words = self._stems[title]
            share = len(names & wanted) / len(names)
            if share >= _ENOUGH:
                ranked.append((-share, -len(words & wanted), title, text))
        return [(title, text) for _, _, title, text in sorted(ranked)[:most]]

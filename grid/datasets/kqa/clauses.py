"""How the clauses behind a noun stand together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from grid.datasets.kqa.trees import Tree

LONG = 32
"""Characters from which a noun phrase stands last in a clause."""
RELATIVE = re.compile(r"\b(?:who|whom|whose|that|where|which)\b|(?:in|to|through|on) (?=which|whom)")


@dataclass(frozen=True)
class Clause:
    """What follows a noun. `source` finds all that it is true of; without one, `filters` are steps over a set."""

    text: str
    source: Tree | None = None
    filters: tuple[tuple[str, ...], ...] = ()

    def over(self, tree: Tree) -> Tree:
        """The clause's filters over a set."""
        for function, *inputs in self.filters:
            tree = tree.then(function, *inputs)
        return tree


class Dead(Exception):  # noqa: N818 - no error: the maker turns and tries another way
    """This way leads to no question."""


def said(clauses: Sequence[Clause], join: str) -> str:
    """The clauses one after another, relative ones last; raises Dead where nobody would say so."""
    plain = sorted((c.text for c in clauses if not c.source), key=lambda text: text.startswith("with"))
    related = sorted((c.text for c in clauses if c.source), key=len)
    relative = [text for text in related if RELATIVE.match(text)]
    other = [text for text in related if text not in relative]
    if join == "Or" and len(related) > 1:
        if relative and other:
            raise Dead
        either = " or ".join(related) if relative else f"either {' or '.join(related)}"
        return _beside(plain, either)
    if relative and other and (len(relative) > 1 or max(map(len, other)) > LONG + 20):
        raise Dead
    following = " and ".join(relative)
    if relative and other and relative[0].split()[0] in ("who", "that"):
        following = relative[0].replace(" ", " also ", 1)
    before = _beside(plain, listed(other)) if len(plain) < 2 or not other else listed([*plain, *other])
    return f"{before} {following}".strip()


def _beside(plain: Sequence[str], text: str) -> str:
    """Attributes and what else is said; 'with ...' needs no 'and' before it."""
    first = plain[0] if plain else ""
    for before, more in pairwise(plain):
        first += f" {more}" if more.startswith("with") and not before.startswith("with") else f" and {more}"
    if not first or not text:
        return first or text
    return f"{first} {text}" if RELATIVE.match(text) else f"{first} and {text}"


def listed(texts: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)

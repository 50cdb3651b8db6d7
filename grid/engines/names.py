"""Tools' names as the labels of options: a tool call, as it is sampled, up to the name's closing quote.

With its quote no name begins another. The call is tokenised as a whole from where the answer begins, so that a name
has the tokens that a model writes in such a call, also where its first ones hold a part of what stands in front.
Of the ways to write a name in tokens the tokenizer's own counts, with each token that it has for the quote and what
comes next (`"` and `",`), since a sampler under a schema may take either. Other ways do not: a call that a model begins
with `{` and `"`, where the tokenizer has `{"`, stands behind other tokens, and its names may have other probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from grid.core.types import to_json
from grid.engines.choice import NameSearch, Prefix

_BEHIND = 3  # characters behind the quote that a token may hold with it: `", "`


class Search(NamedTuple):
    """A search, and the tokens between the prompt and its root: those that all labels begin with."""

    search: NameSearch
    stem: Prefix


def beginnings(name: str) -> tuple[str, ...]:
    """The call up to the name's closing quote, and with up to so many characters behind it as its token may hold."""
    end = len(to_json({"action": {"tool": name}})) - 2
    call = to_json({"action": {"tool": name, "arguments": {}}})
    return tuple(call[: end + more] for more in range(_BEHIND + 1))


def ways(rows: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """The name's labels, of the tokens of its `beginnings`: those that end with the token that holds the quote."""
    first, *others = rows
    return tuple(dict.fromkeys([first, *(row for row in others if len(row) == len(first) and row[:-1] == first[:-1])]))


def search(labels: Sequence[Sequence[Prefix]], bound: float) -> Search:
    """A fresh search for options with these labels."""
    every = [label for own in labels for label in own]
    first, last = min(every), max(every)  # what these two share, all share
    most = min(map(len, every)) - 1
    stem = first[: next((place for place in range(most) if first[place] != last[place]), most)]
    return Search(NameSearch([[label[len(stem) :] for label in own] for own in labels], bound=bound), stem)

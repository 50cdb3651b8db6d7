"""Exact probabilities of options from forward passes alone, for any tokenizer (egb_slate, algorithm 3, for numbers).

What stands for an option, its number or its name, is its label. As token sequences behind the prompt, labels form a
trie, and each level of the trie is one batch of next-token distributions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from grid.core.types import to_json

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Distribution:
    """Probabilities of the options (float64, sum 1), and what is known about them.

    `unassigned` is the model's mass that went to no option; `error_bound` bounds the total variation that the nodes
    left out can have cost; `passes` counts next-token distributions, `levels` the rounds that they came in.
    """

    probabilities: tuple[float, ...]
    unassigned: float
    error_bound: float
    passes: int
    levels: int


class ChoiceSearch(ABC):
    """One exact choice, level by level: `feed` what `tokens` have behind each of `wanted`, until none is wanted.

    Args:
        options: each option's label, where it has several the first of them.
        labels: all labels, distinct and not empty.
        bound: nodes whose mass is below this share of the first level's are left out; 0 is exact.

    Raises:
        ValueError: labels that are empty or equal.
    """

    def __init__(self, options: Sequence[Prefix], labels: Sequence[Prefix], bound: float) -> None:
        if not all(labels) or len(set(labels)) != len(labels):
            raise ValueError("labels must be distinct and hold a token at least")
        self._children, self._bound = _trie(labels), bound
        self._scores = dict.fromkeys(options, 0.0)
        self._masses: dict[Prefix, float] = {(): 1.0}
        self._left_out, self._first, self._levels = 0.0, 1.0, 0
        self.asked: list[Prefix] = []
        """The nodes whose distributions were fed, in their order."""

    @property
    def room(self) -> int:
        """The most tokens behind the prompt that any pass is about, the one that it gives the distribution of too."""
        return max(map(len, self._children)) + 1

    @property
    def wanted(self) -> list[Prefix]:
        """The label prefixes behind which the next distributions are wanted; the empty one first, none at the end."""
        return list(self._masses)

    @property
    def tokens(self) -> list[int]:
        """The tokens whose log-probabilities are wanted behind each of `wanted`, ascending."""
        return sorted({token for node in self._masses for token in self._children[node]})

    def feed(self, logs: np.ndarray) -> None:
        """Take the tokens' raw full-vocabulary log-probabilities, shape (wanted, tokens).

        Raises:
            ValueError: log-probabilities that are not numbers.
        """
        if np.isnan(logs).any():
            raise ValueError("the model's log-probabilities are not numbers (NaN)")
        columns = {token: column for column, token in enumerate(self.tokens)}
        following: dict[Prefix, float] = {}
        for (node, mass), behind in zip(self._masses.items(), logs.astype(np.float64), strict=True):
            following |= self._part(node, mass, behind, columns)
        self.asked += self._masses
        self._levels += 1
        if self._levels == 1:
            self._first = sum(following.values()) + sum(self._scores.values())
        self._masses = {node: mass for node, mass in following.items() if mass >= self._bound * self._first}
        self._left_out += sum(mass for node, mass in following.items() if node not in self._masses)

    def result(self) -> Distribution:
        """The distribution, once nothing more is wanted; raises ValueError where no option has any mass."""
        total = sum(self._scores.values())
        if not total > 0.0:
            raise ValueError("the model gives no option any probability")
        return Distribution(
            probabilities=tuple(score / total for score in self._scores.values()),
            unassigned=self._unassigned(total),
            error_bound=self._left_out / (total + self._left_out),
            passes=len(self.asked),
            levels=self._levels,
        )

    @abstractmethod
    def _part(self, node: Prefix, mass: float, behind: np.ndarray, columns: Mapping[int, int]) -> dict[Prefix, float]:
        """Part a node's mass: what ends at options goes to their scores, what goes on is returned by node.

        `behind` holds log-probabilities, `columns` the place of each token in it.
        """

    @abstractmethod
    def _unassigned(self, total: float) -> float:
        """The model's mass that went to no option; `total` is the scores' sum."""


class NumberSearch(ChoiceSearch):
    """Options by their numbers. Scores are the model's own probabilities, normalised over the options at the end.

    A number that must end counts with the probability p_end that no further digit follows it; any other with all that
    goes on behind it. Where the one-digit numbers must end, K <= 100 and a token per digit take two levels, as in the
    paper; one more where all must.

    Args:
        digits: all tokens of the vocabulary that would continue a number.
        ends: the labels that must end, among them all that begin another.
        printed: algorithm 3 as it is printed: behind the first token, softmax over the digits only, so that p_end is 0
            and with it every label that must end. Off by default (design, 'Where the papers need care').

    Raises:
        ValueError: as for every search, or a label that begins another and need not end.
    """

    def __init__(
        self,
        labels: Sequence[Prefix],
        digits: Sequence[int],
        *,
        ends: Collection[Prefix],
        bound: float = 1e-6,
        printed: bool = False,
    ) -> None:
        super().__init__(labels, labels, bound)
        self._digits, self._ends, self._printed = frozenset(digits), frozenset(ends), printed
        if any(label in self._children and label not in self._ends for label in labels):
            raise ValueError("a label that begins another must end")
        if not printed:
            self._children = {label: [] for label in ends} | self._children  # the ends are nodes too

    @property
    def tokens(self) -> list[int]:
        """With all digits where a number may end."""
        if any(node in self._ends or (self._printed and node) for node in self._masses):
            return sorted(self._digits.union(super().tokens))
        return super().tokens

    def _part(self, node: Prefix, mass: float, behind: np.ndarray, columns: Mapping[int, int]) -> dict[Prefix, float]:
        digits = [columns[token] for token in self._digits if token in columns]
        row = np.exp(behind - np.logaddexp.reduce(behind[digits]) if self._printed and node else behind)
        if node in self._ends and not self._printed:
            self._scores[node] = mass * max(1.0 - float(row[digits].sum()), 0.0)
        following = {}
        for token in self._children[node]:
            child, share = (*node, token), mass * float(row[columns[token]])
            if child in self._children:
                following[child] = share
            elif child not in self._ends:
                self._scores[child] = share
        return following

    def _unassigned(self, total: float) -> float:
        return max(1.0 - total, 0.0)


class NameSearch(ChoiceSearch):
    """Options by their names, as a sampler under a schema draws them that allows nothing but these names.

    Such a sampler renormalises at every token over those that go on some name. So does this search, at every node of
    the trie, and not once over whole names: the shares of m sampled names tend to its probabilities as m grows. Where
    only one way goes on, all of the mass takes it and nothing is computed: behind the root a node is wanted only where
    names part, so that K options that part at the root take K - 1 passes at most.

    An option has a label for each way of writing its name that counts. Ways that are no label count nowhere, which is
    as if the model took the labels' own in their stead.

    `unassigned` is the mass that went to no label at the nodes that were computed.
    """

    def __init__(self, labels: Sequence[Sequence[Prefix]], *, bound: float = 1e-6) -> None:
        super().__init__([ways[0] for ways in labels], [label for ways in labels for label in ways], bound)
        if any(label in self._children for ways in labels for label in ways):
            raise ValueError("no label of a name may begin another")
        self._sole: dict[Prefix, Prefix | None] = {}  # of a node or label, the only option behind it
        for option, *others in labels:
            for label in (option, *others):
                for depth in range(1, len(label) + 1):
                    node = label[:depth]
                    self._sole[node] = option if self._sole.get(node, option) == option else None
        self._raw: dict[Prefix, float] = {(): 1.0}  # the model's own mass, not renormalised
        self._lost = 0.0

    def _part(self, node: Prefix, mass: float, behind: np.ndarray, columns: Mapping[int, int]) -> dict[Prefix, float]:
        logs = behind[[columns[token] for token in self._children[node]]]
        whole = np.logaddexp.reduce(logs)
        self._lost += self._raw[node] * max(1.0 - float(np.exp(whole)), 0.0)
        if whole == -np.inf:
            return {}
        following = {}
        for token, log in zip(self._children[node], logs, strict=True):
            child, share = (*node, token), mass * float(np.exp(log - whole))
            option = self._sole[child]
            if option is not None:
                self._scores[option] += share
                continue
            while len(self._children[child]) == 1:
                child = (*child, *self._children[child])
            following[child] = share
            self._raw[child] = self._raw[node] * float(np.exp(log))
        return following

    def _unassigned(self, total: float) -> float:
        return min(self._lost, 1.0)


def _trie(labels: Sequence[Prefix]) -> dict[Prefix, list[int]]:
    """The inner nodes, each with the tokens that lead on from it, in the labels' order."""
    children: dict[Prefix, dict[int, None]] = {}
    for label in labels:
        for depth, token in enumerate(label):
            children.setdefault(label[:depth], {})[token] = None
    return {node: list(tokens) for node, tokens in children.items()}


# Tools' names as the labels of options: a tool call, as it is sampled, up to the name's closing quote.
#
# With its quote no name begins another. The call is tokenised as a whole from where the answer begins, so that a name
# has the tokens that a model writes in such a call, also where its first ones hold a part of what stands in front. Of
# the ways to write a name in tokens the tokenizer's own counts, with each token that it has for the quote and what
# comes next (`"` and `",`), since a sampler under a schema may take either. Other ways do not: a call that a model
# begins with `{` and `"`, where the tokenizer has `{"`, stands behind other tokens, and its names may have other
# probabilities.


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

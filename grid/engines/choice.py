"""Exact probabilities of options from forward passes alone, for any tokenizer (for numbers: egb_slate, algorithm 3).

An option's label is its number or its name. The labels, as token sequences that follow the prompt, form a trie, and
each level of the trie needs one batch of next-token distributions.
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
    """Probabilities of the options (float64, sum 1), their error and their cost.

    `unassigned` is the model's probability mass that went to no option. `error_bound` is the maximum total variation
    that the nodes left out can cause. `passes` is the number of next-token distributions, and `levels` is the number of
    rounds in which they were requested.
    """

    probabilities: tuple[float, ...]
    unassigned: float
    error_bound: float
    passes: int
    levels: int


class ChoiceSearch(ABC):
    """One exact choice, computed level by level: `feed` it the requested log-probabilities until `wanted` is empty.

    Each call of `feed` gets the log-probabilities of each of `tokens` after each prefix in `wanted`.

    Args:
        options: for each option, its label, or its first label if it has several.
        labels: all labels, distinct and not empty.
        bound: nodes whose mass is below this share of the first level's mass are left out; with 0 the result is exact.

    Raises:
        ValueError: a label is empty, or two labels are equal.
    """

    def __init__(self, options: Sequence[Prefix], labels: Sequence[Prefix], bound: float) -> None:
        if not all(labels) or len(set(labels)) != len(labels):
            raise ValueError("labels must be distinct, and each label must have at least one token")
        self._children, self._bound = _trie(labels), bound
        self._scores = dict.fromkeys(options, 0.0)
        self._masses: dict[Prefix, float] = {(): 1.0}
        self._left_out, self._first, self._levels = 0.0, 1.0, 0
        self.asked: list[Prefix] = []
        """The nodes whose distributions were passed to `feed`, in the order in which they were passed."""

    @property
    def room(self) -> int:
        """The maximum number of tokens after the search's root in any pass, including the token that is predicted."""
        return max(map(len, self._children)) + 1

    @property
    def wanted(self) -> list[Prefix]:
        """The label prefixes whose next-token distributions are needed next.

        At first, only the empty prefix is wanted; at the end, no prefix is.
        """
        return list(self._masses)

    @property
    def tokens(self) -> list[int]:
        """The tokens whose log-probabilities are needed after each prefix in `wanted`, in ascending order."""
        return sorted({token for node in self._masses for token in self._children[node]})

    def feed(self, logs: np.ndarray) -> None:
        """Take the tokens' raw full-vocabulary log-probabilities, shape (wanted, tokens).

        Raises:
            ValueError: a log-probability is not a number (NaN).
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
        """The distribution, once `wanted` is empty; raises ValueError if no option has any mass."""
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
        """Add mass that ends at an option to the option's score, and return the mass of each child node.

        `behind` has the log-probabilities of the tokens after the node; `columns` has each token's index in `behind`.
        """

    @abstractmethod
    def _unassigned(self, total: float) -> float:
        """The model's mass that went to no option; `total` is the sum of the options' scores."""


class NumberSearch(ChoiceSearch):
    """A choice among options by number; scores are the model's probabilities, normalised over the options at the end.

    The score of a number that must end is its mass times p_end, the probability that no further digit follows. The
    score of any other number is its mass, whatever follows it. If every digit is one token and only the one-digit
    numbers must end, K <= 100 options need two levels, as in the paper; if all numbers must end, they need one more.

    Args:
        labels: for each option, the tokens of its number.
        digits: all tokens of the vocabulary that would continue a number.
        ends: the labels that must end, including all labels that begin another label.
        printed: use algorithm 3 exactly as printed in the paper: after the first token, softmax over the digits only.
            With `printed`, p_end is 0, and so is the score of every label that must end. Off by default (design, 'Where
            the papers need care').

    Raises:
        ValueError: as in `ChoiceSearch`, or if a label that begins another label is not among `ends`.
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
            raise ValueError("if a label is the beginning of another label, `ends` must contain it")
        if not printed:
            self._children = {label: [] for label in ends} | self._children  # the labels that must end are nodes too

    @property
    def tokens(self) -> list[int]:
        """The tokens as in `ChoiceSearch`, and all digits if a wanted prefix is a number that must end.

        With `printed`, all digits are included unless only the empty prefix is wanted.
        """
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
    """A choice among options by name, with the probabilities of a sampler under a schema that allows only these names.

    At every token, such a sampler renormalises over the tokens that continue some name. This search likewise
    renormalises at every node of the trie, not once over whole names. The relative frequencies of m sampled names
    therefore tend to the search's probabilities as m grows. If only one token can follow, that token gets all of the
    mass and nothing is computed. So below the root, a node's distribution is needed only if names differ at the node.
    If K options differ at the root, they need at most K - 1 passes.

    An option has one or more labels; each label is one way of writing the option's name in tokens. Other ways of
    writing the name are ignored, as if the model always used one of the labels.

    `unassigned` is the mass that went to no label at the nodes that were computed.

    Args:
        labels: for each option, its labels.
        bound: as in `ChoiceSearch`.

    Raises:
        ValueError: as in `ChoiceSearch`, or if a label is the beginning of another label.
    """

    def __init__(self, labels: Sequence[Sequence[Prefix]], *, bound: float = 1e-6) -> None:
        super().__init__([ways[0] for ways in labels], [label for ways in labels for label in ways], bound)
        if any(label in self._children for ways in labels for label in ways):
            raise ValueError("a label of a name must not be the beginning of another label")
        self._sole: dict[Prefix, Prefix | None] = {}  # the only option that a node or label leads to; None: several
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
    """The trie's inner nodes, each with the tokens that can follow it, in the order of the labels."""
    children: dict[Prefix, dict[int, None]] = {}
    for label in labels:
        for depth, token in enumerate(label):
            children.setdefault(label[:depth], {})[token] = None
    return {node: list(tokens) for node, tokens in children.items()}


# Tool names as the labels of options: a label is a tool call, as it would be sampled, up to the name's closing quote.
#
# If a name includes its closing quote, it cannot be the beginning of another name. The call is tokenised as a whole
# from the start of the answer, so that a name has the tokens that a model writes in such a call, even if its first
# token includes part of the text before the name. A name can be split into tokens in several ways. Only the tokenizer's
# own split is used, with each token that can hold the closing quote (`"` and `",`), since a sampler under a schema may
# choose either. Other splits are ignored: if a model begins a call with `{` and `"` where the tokenizer has `{"`,
# different tokens precede the name, and its probability may differ.


_BEHIND = 3  # maximum number of characters after the quote in the same token: `", "`


class Search(NamedTuple):
    """A search, and its `stem`: the tokens with which all labels begin, between the prompt and the search's root."""

    search: NameSearch
    stem: Prefix


def beginnings(name: str) -> tuple[str, ...]:
    """The beginnings of a call: up to the name's closing quote, and up to each of the next few characters.

    The next characters are included because a token may contain them together with the quote.
    """
    end = len(to_json({"action": {"tool": name}})) - 2
    call = to_json({"action": {"tool": name, "arguments": {}}})
    return tuple(call[: end + more] for more in range(_BEHIND + 1))


def ways(rows: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """A name's labels: the tokens of each of its `beginnings`, if the last token is the one that has the quote."""
    first, *others = rows
    return tuple(dict.fromkeys([first, *(row for row in others if len(row) == len(first) and row[:-1] == first[:-1])]))


def search(labels: Sequence[Sequence[Prefix]], bound: float) -> Search:
    """A fresh search for options with these labels, without the stem that they share; raises as `NameSearch` does."""
    every = [label for own in labels for label in own]
    first, last = min(every), max(every)  # a prefix shared by these two is shared by all
    most = min(map(len, every)) - 1
    stem = first[: next((place for place in range(most) if first[place] != last[place]), most)]
    return Search(NameSearch([[label[len(stem) :] for label in own] for own in labels], bound=bound), stem)

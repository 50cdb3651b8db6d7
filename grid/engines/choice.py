"""Exact probabilities of numbered options from forward passes alone (egb_slate, algorithm 3), for any tokenizer.

The options' labels, as token sequences behind the prompt, form a trie. Each level of the trie is one batch of
next-token distributions. A label that is a prefix of another ends with the probability that no further digit
follows. For K <= 100 and a token per digit there are two levels, as in the paper; one more where every label must end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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


class ChoiceSearch:
    """One exact choice, level by level: `feed` what `tokens` have behind each of `wanted`, until none is wanted.

    Args:
        labels: each option's tokens behind the prompt, distinct and not empty.
        digits: all tokens of the vocabulary that would continue a number.
        bound: nodes whose mass is below this share of the first level's are left out; 0 is exact.
        printed: algorithm 3 as it is printed: behind the first token, softmax over the digits only, so that no label
            that is a prefix of another can end. Off by default (design, 'Where the papers need care').
        terminated: every label ends with the probability that no further digit follows. Else one that is no prefix
            of another keeps the mass of the numbers that go on, as in the paper: `1` of ten options that of 10 to 19.

    Raises:
        ValueError: labels that are empty or equal.
    """

    def __init__(
        self,
        labels: Sequence[Prefix],
        digits: Sequence[int],
        *,
        bound: float = 1e-6,
        printed: bool = False,
        terminated: bool = False,
    ) -> None:
        if not all(labels) or len(set(labels)) != len(labels):
            raise ValueError("labels must be distinct and hold a token at least")
        self._labels, self._digits = tuple(labels), frozenset(digits)
        self._bound, self._printed = bound, printed
        self._children = _trie(labels)
        if terminated:
            self._children = {label: [] for label in labels} | self._children  # the ends are nodes too
        self._scores = dict.fromkeys(self._labels, 0.0)
        self._masses: dict[Prefix, float] = {(): 1.0}
        self._passes = self._levels = 0
        self._left_out, self._first = 0.0, 1.0

    @property
    def wanted(self) -> list[Prefix]:
        """The label prefixes behind which the next distributions are wanted; the empty one first, none at the end."""
        return list(self._masses)

    @property
    def tokens(self) -> list[int]:
        """The tokens whose log-probabilities are wanted behind each of `wanted`, ascending."""
        found = {token for node in self._masses for token in self._children[node]}
        if any(node in self._scores or (self._printed and node) for node in self._masses):
            found |= self._digits
        return sorted(found)

    def feed(self, logs: np.ndarray) -> None:
        """Take the tokens' raw full-vocabulary log-probabilities, shape (wanted, tokens).

        Raises:
            ValueError: log-probabilities that are not numbers.
        """
        if np.isnan(logs).any():
            raise ValueError("the model's log-probabilities are not numbers (NaN)")
        columns = {token: column for column, token in enumerate(self.tokens)}
        digits = [columns[token] for token in self._digits if token in columns]
        following: dict[Prefix, float] = {}
        for (node, mass), behind in zip(self._masses.items(), logs.astype(np.float64), strict=True):
            row = np.exp(behind - np.logaddexp.reduce(behind[digits]) if self._printed and node else behind)
            if node in self._scores:
                self._scores[node] = mass * max(1.0 - float(row[digits].sum()), 0.0)
            for token in self._children[node]:
                child, share = (*node, token), mass * float(row[columns[token]])
                if child in self._children:
                    following[child] = share
                else:
                    self._scores[child] = share
        self._passes, self._levels = self._passes + len(self._masses), self._levels + 1
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
            probabilities=tuple(self._scores[label] / total for label in self._labels),
            unassigned=max(1.0 - total, 0.0),
            error_bound=self._left_out / (total + self._left_out),
            passes=self._passes,
            levels=self._levels,
        )


def _trie(labels: Sequence[Prefix]) -> dict[Prefix, list[int]]:
    """The inner nodes, each with the tokens that lead on from it, in the labels' order."""
    children: dict[Prefix, dict[int, None]] = {}
    for label in labels:
        for depth, token in enumerate(label):
            children.setdefault(label[:depth], {})[token] = None
    return {node: list(tokens) for node, tokens in children.items()}

"""The tree of a search: nodes, each with the edge that leads to it, and the backup of rewards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from grid.core.types import Usage
from grid.episode.acting import Action, Path

Pruned = Literal["unreadable", "schema", "repeated", "given_up", "pre", "top_k", "post"]
"""Why a node is not expanded.

`unreadable`: no action could be read. `schema`: the call does not fit its tool. `repeated`: the node's path already
contains the same call. `given_up`: the policy gave up because the path leads nowhere. `pre`: the judge's score before
the execution was too low. `top_k`: the score before the execution (in best-first search: the sample share) was not
among the best. `post`: the judge's score after the execution was too low.
"""


@dataclass(eq=False, slots=True)
class Node:
    """A state with the path to it, and the edge (s, a) from its parent: the action, its scores and its visits.

    `label` contains the turn (from 0) and, for each node from the root's child to this node, its index among its
    siblings (`s` for a simulated node), separated by dots; `place` is the index among all nodes of the episode. `path`
    is None until the action is executed (or imagined). `share` is the share of samples that proposed the action, or the
    action's probability. `entropy` is the entropy, in nats, of the exact distribution over the options after this node,
    or None if it was not computed. `visits` is N(s, a) and `value` Q(s, a) of the edge. `spent` is the cost of
    proposing the action, `execution` the action's position in the order of executions, counted from 0. `pre_asked` and
    `post_asked` identify the requests to the judge for the scores before and after the execution; they are None if the
    judge was not asked.
    """

    label: str
    place: int
    parent: Node | None
    action: Action | None
    path: Path | None = None
    share: float | None = None
    entropy: float | None = None
    r_pre: float | None = None
    r_post: float | None = None
    pre_asked: str | None = None
    post_asked: str | None = None
    visits: int = 0
    value: float = 0.0
    pruned: Pruned | None = None
    execution: int | None = None
    spent: Usage = field(default_factory=Usage)
    children: list[Node] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """The number of edges from the root."""
        return sum(1 for _ in self.edges())

    @property
    def visits_below(self) -> int:
        """N(s): the sum of N(s, a) over the node's edges (tooltree §3.1)."""
        return sum(child.visits for child in self.children)

    @property
    def open(self) -> list[Node]:
        """The children that are not pruned."""
        return [child for child in self.children if child.pruned is None]

    def edges(self) -> Iterator[Node]:
        """The nodes from this node up to the root, without the root; each node represents the edge that leads to it."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def backup(node: Node, reward: float) -> None:
    """Add a reward to the running mean of every edge from the root to a node (tooltree §3.1).

    N(s, a) ← N(s, a) + 1, then Q(s, a) ← Q(s, a) + (r − Q(s, a)) / N(s, a).
    """
    for edge in node.edges():
        edge.visits += 1
        edge.value += (reward - edge.value) / edge.visits


def finish(end: Node, done: set[Node]) -> None:
    """Mark the node at the end of a path as done, and every ancestor whose open children are all done."""
    node: Node | None = end
    while node is not None and all(child in done for child in node.open):
        done.add(node)
        node = node.parent

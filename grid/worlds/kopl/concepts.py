"""What stands above what, among concepts and entities, cycles included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def ancestors(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each node all that stand above it, in ascending order; `parents` holds each node's direct ones.

    A node that is said to be its own parent is not above itself for that alone (KoPL's get_all_concepts).
    """
    known: dict[int, frozenset[int]] = {}

    def reached(start: int) -> frozenset[int]:
        if start not in known:
            found, pending = {start}, [start]
            while pending:
                for parent in parents[pending.pop()]:
                    if parent not in found:
                        found.add(parent)
                        pending.append(parent)
            known[start] = frozenset(found)
        return known[start]

    direct = [{parent for parent in found if parent != node} for node, found in enumerate(parents)]
    return [sorted(frozenset().union(*map(reached, found))) for found in direct]


def cycles(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups of nodes that all stand above one another, and nodes that are their own parents."""
    edges = [(node, parent) for node, found in enumerate(parents) for parent in found]
    if not edges:
        return []
    ends = np.array(edges)
    graph = coo_array((np.ones(len(edges)), (ends[:, 0], ends[:, 1])), shape=(len(parents), len(parents)))
    count, labels = connected_components(graph, directed=True, connection="strong")
    loops = {node for node, parent in edges if node == parent}
    sizes = np.bincount(labels, minlength=count)
    groups: dict[int, list[int]] = {}
    for node in np.flatnonzero((sizes[labels] > 1) | np.isin(np.arange(len(parents)), list(loops))):
        groups.setdefault(int(labels[node]), []).append(int(node))
    return list(groups.values())

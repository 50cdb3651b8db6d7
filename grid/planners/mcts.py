"""Plain UCT, the baseline that the ToolTree paper calls Monte Carlo tree search (tooltree §4.1)."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.util import STRICT
from grid.episode.tree import Node, backup
from grid.planners.search import Search, TreeSearch


@dataclass(frozen=True, config=STRICT)
class MCTS(TreeSearch):
    """Selection by UCT, expansion by sampled actions, simulation by the policy, and backup of the judge's final score.

    The paper gives only the method's name and, for ToolTree, 60 rollouts and an exploration constant of 1.4 (§2, B.4).
    The rest is inferred from the plain algorithm (Kocsis & Szepesvári 2006, as in §2). The children of a state are its
    `branching` sampled actions, in the order of the samples. A child that was never visited is selected before visited
    children. Such a child is run, and from its state the policy continues to the path's end, one sampled action after
    another. Simulated steps do not join the tree, but the end of a simulation may be the answer. The judge scores all
    steps together, once, at the end. A path's end can be selected again like any other node; its score is then backed
    up again at no cost.
    """

    exploration: Annotated[float, Field(ge=0)] = 1.4
    rollouts: Annotated[int, Field(ge=1, le=1_000_000)] = 60

    async def search(self, search: Search) -> None:
        """Select and expand, simulate, back up."""
        for _ in range(self.rollouts):
            leaf = await self._select(search)
            end = leaf if leaf.visits else await search.simulate(leaf)
            value = await search.value(end)
            if not leaf.visits and search.reached(end, value):
                return
            backup(leaf, value)

    async def _select(self, search: Search) -> Node:
        """Descend to a path's end, a node without open children, or a never visited child, which is then run."""
        node = search.root
        while not search.ended(node):
            if not node.children:
                await search.propose([node], self.branching)
            if not node.open:
                break
            node = max(node.open, key=partial(self._uct, node.visits_below))
            if not node.visits:
                await search.execute_all([node])
                break
        return node

    def _uct(self, visits: int, edge: Node) -> float:
        """Q(s, a) + c √(ln N(s) / N(s, a)), or infinity if the child was never visited.

        Among children of equal value, the child created first is selected.
        """
        if not edge.visits:
            return math.inf
        return edge.value + self.exploration * math.sqrt(math.log(visits) / edge.visits)

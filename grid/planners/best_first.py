"""Best-first search (Koh et al. 2024): states are visited in the order of their parents' values, and then judged."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.util import STRICT
from grid.episode.tree import Node
from grid.planners.search import Search, TreeSearch

Frontier = list[tuple[float, float, int, Node]]
"""A heap of tuples: the parent's value and the state's sample share (both negated), the state's index, and its node."""


@dataclass(frozen=True, config=STRICT)
class BestFirst(TreeSearch):
    """Algorithm 1, repeated: each search starts at the state to which the previous search committed (§3.3).

    `branching` is b: the b most frequent of `samples` sampled actions are used (§4.1); `depth` is d, the number of
    steps that a search looks ahead (None: to the paths' ends); `expansions` is c, the number of states that a search
    takes from its frontier; `threshold` is θ.

    A call is run when its state is taken from the frontier, as in the authors' code, so a call that stays in the
    frontier costs nothing. Actions are sampled only once at each state: a later search reuses the actions that an
    earlier search sampled there.

    Our rules where the paper is silent: among states of equal value in the frontier, the state sampled more often comes
    first, then the state created first. If a search finds no state to commit to, since no action fits, the planner
    stops. With `oracle_stop`, no search commits to a path's end, since such an end is known not to resolve the case.
    """

    samples: Annotated[int, Field(ge=1, le=2000)] = 20
    depth: Annotated[int, Field(ge=1, le=10_000)] | None = None
    expansions: Annotated[int, Field(ge=1, le=100_000)] = 20
    threshold: Annotated[float, Field(gt=0)] = 1.0

    async def search(self, search: Search) -> None:
        """Search, commit to the best state, and search again from that state, until a path ends."""
        start: Node | None = search.root
        while start is not None and not search.ended(start):
            start = await self._best_below(search, start)

    async def _best_below(self, search: Search, start: Node) -> Node | None:
        """Algorithm 1, started at a state; returns the state with the highest value.

        The result is None if there is no such state or the case is resolved.
        """
        best: Node | None = None
        frontier: Frontier = []
        await self._push(search, start, frontier)
        for taken in range(1, self.expansions + 1):
            if not frontier:
                break
            node = heappop(frontier)[-1]  # s_p ← pop(F)
            if await self._value(search, node):
                return None
            if search.ended(node) and self.oracle_stop:
                continue
            if best is None or node.value > best.value:
                best = node
            if node.value >= self.threshold or taken == self.expansions:  # v_p ≥ θ, s ≥ c
                break
            if not search.ended(node) and (self.depth is None or node.depth - start.depth < self.depth):
                await self._push(search, node, frontier)
        return best

    async def _value(self, search: Search, node: Node) -> bool:
        """v_p ← f_v(s_p), for a state not yet visited by any search; returns whether the state resolves the case."""
        if node.execution is not None:
            return False
        search.count(node)
        await search.execute(node)
        node.value = await search.value(node)
        return search.reached(node, node.value)

    async def _push(self, search: Search, node: Node, frontier: Frontier) -> None:
        """Put the b most frequent actions sampled at a state into the frontier, with the value of this state."""
        if not node.children:
            await search.propose([node], self.samples)
            ranked = sorted(node.open, key=lambda child: -(child.share or 0.0))
            for child in ranked[self.branching :]:
                child.pruned = "top_k"
        for child in node.open:
            heappush(frontier, (-node.value, -(child.share or 0.0), child.place, child))

"""Best-first search (Koh et al. 2024, as compared with in tooltree B.3): the state of the highest value is expanded."""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.planners.search.kernel import Search
from grid.planners.search.planner import TreeSearch
from grid.planners.side_by_side import every
from grid.strict import STRICT


@dataclass(frozen=True, config=STRICT)
class BestFirst(TreeSearch):
    """A frontier of executed states, ordered by what the judge says of all steps up to each.

    The best is taken from it and expanded: `branching` actions are sampled, executed and judged. It ends after
    `expansions`, once a complete path is worth `threshold`, or when nothing is left. Of equals the first made is taken.
    The value of a path is that of its last state.
    """

    expansions: Annotated[int, Field(ge=1, le=100_000)] = 20
    threshold: Annotated[float, Field(gt=0)] = 1.0

    async def search(self, search: Search) -> None:
        """Expand the best state of the frontier until a complete path is good enough."""
        frontier = [(0.0, 0, search.root)]
        for _ in range(self.expansions):
            if not frontier:
                return
            node = heappop(frontier)[-1]
            await search.propose([node], self.branching)
            await search.execute_all(node.open)
            values = await every([partial(search.value, child) for child in node.open])
            for child, value in zip(node.open, values, strict=True):
                child.value = value
                if search.reached(child, value) or (search.ended(child) and value >= self.threshold):
                    return
                if not search.ended(child):
                    heappush(frontier, (-value, child.place, child))

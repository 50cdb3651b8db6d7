"""A small search that prunes by the judge before and after each call, as ToolTree does (tooltree §3.2, B.4)."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic.dataclasses import dataclass

from grid.core.util import STRICT
from grid.episode.tree import Node
from grid.planners.search import Search, TreeSearch
from grid.planners.side_by_side import every

CONFIG: dict[str, Any] = {"_target_": "tests.support.gated.Gated", "temperature": 1.0, "max_retries": 0}
ROOM = {"planner": "tests"}


@dataclass(frozen=True, config=STRICT)
class Gated(TreeSearch):
    """One level after the other: of what passes both thresholds the best is gone on from, else of what was run."""

    pre_threshold: float = 0.3
    post_threshold: float = 0.4

    async def search(self, search: Search) -> None:
        """Down to the end."""
        node: Node | None = search.root
        while node is not None and not search.ended(node):
            await search.propose([node], self.branching)
            scores = await every([partial(search.pre, child) for child in node.open])
            for child, score in zip(node.open, scores, strict=True):
                child.pruned = "pre" if score < self.pre_threshold else None
            await search.execute_all(node.open)
            rewards = await every([partial(search.post, child) for child in node.open])
            ranked = sorted(zip(rewards, node.open, strict=True), key=lambda pair: (-pair[0], pair[1].place))
            for reward, child in ranked:
                child.pruned = "post" if reward < self.post_threshold else None
            node = next((child for _, child in ranked), None)
            if node:
                search.reached(node, ranked[0][0])

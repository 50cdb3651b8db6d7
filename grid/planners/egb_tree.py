"""ToolTree's search with EGB's entropy: a state branches only where the policy is uncertain."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, JUDGE, SAMPLE
from grid.core.problem import BRANCHING
from grid.core.util import STRICT
from grid.episode.asking import OptionLabels
from grid.episode.tree import Node
from grid.planners.search.kernel import Search
from grid.planners.search.rewarded import RewardedSearch, Share


@dataclass(frozen=True, config=STRICT)
class EGBTree(RewardedSearch):
    """Tree search that expands a state by the exact entropy of its options (egb_slate algorithm 3, tooltree §3).

    At a state that was not expanded one scoring pass gives the distribution over the options. Where its entropy is
    above `entropy_threshold` (nats), the `branching` (K) most probable options become children; elsewhere the most
    probable one alone, and the search goes on from there without a choice. Options of less than `threshold` (EGB's τ)
    are never children. Each child has one draft of its arguments, and its option's probability as r_pre in equation 1:
    no judge is asked before a call. All else is `RewardedSearch`: rewards, pruning after a call, backup and the end.

    An option whose call cannot be made from a state (its path has made the same call) leaves its place to the next one.

    `entropy_threshold` is a number that somebody learned on cases which are not tested (`agent-grid threshold`): 0
    branches everywhere, anything above ln(options) nowhere. `labels`: whether options are asked for by number or by
    name; their entropies differ, and so do their thresholds.
    """

    entropy_threshold: Annotated[float, Field(ge=0)] = 1.0
    threshold: Share = 0.01
    labels: OptionLabels = "numbers"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE, BRANCHING, JUDGE})

    async def _expand(self, search: Search, node: Node) -> None:
        """Several children, or one."""
        shares = await search.probabilities(node, self.labels)
        ranked = sorted(shares, key=lambda tool: -shares[tool])
        left = [tool for tool in ranked if shares[tool] >= self.threshold] or ranked[:1]
        wanted = self.branching if (node.entropy or 0.0) > self.entropy_threshold else 1
        while left and (missing := wanted - len(node.open)) > 0:
            tools, left = left[:missing], left[missing:]
            for child, tool in zip(await search.draft(node, tools), tools, strict=True):
                child.share = child.r_pre = shares[tool]

"""ToolTree (tooltree §3): tree search led by a score before each call, and rewarded by one after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, JUDGE, SAMPLE
from grid.core.problem import BRANCHING
from grid.core.types import FINISH
from grid.core.util import STRICT
from grid.episode.asking import OptionLabels
from grid.episode.tree import Node
from grid.planners.search.kernel import Search
from grid.planners.search.rewarded import RewardedSearch, Share
from grid.planners.side_by_side import every


@dataclass(frozen=True, config=STRICT)
class ToolTree(RewardedSearch):
    """Monte Carlo tree search with dual evaluation and bidirectional pruning (§3.1, §3.2), defaults as in B.4.

    At a state that was not expanded its candidates become children; those of r_pre < `pre_threshold` (τ_pre), or not
    among the `branching` (K) best, are pruned. All else is `RewardedSearch`.

    The switches of table 4 are `pre_evaluation` (without it r_pre is 1 in equation 1, and nothing is pruned by it),
    `post_evaluation` (without it the reward is r_pre, and nothing is pruned by r_post), `pre_pruning`, `post_pruning`.

    What the paper leaves open, and what is read here:

    `candidates`: what "the remaining admissible actions" are. An action is a call with its arguments (§2), of which
    there is no end. `tools`: every tool on offer and to finish, with one draft of its arguments, which is what §3.1
    says in so many words; with 50 on offer that is a hundred requests a state, where table 4 has 18,200 tokens a case.
    `tools_alone`: without to finish, so that every path goes on to `max_calls`. `sampled`: the distinct ones among
    `branching` sampled actions, as in all the other searches here; of these none is outside the best K. Without
    `pre_evaluation` tools have no order, and with `pre_pruning` the first `branching` of the offer, whose order is
    drawn, are drafted. `repeats`: A_rem(s) is without a_1 to a_t, as calls with the same arguments.

    `dead_end`: by the text what is pruned stays so (`stop`).

    The form that the authors released is conf/planner/released/tooltree.yaml: its code decides otherwise where a key
    there differs from tooltree.yaml. What it has besides: a judge's answer that cannot be read scores 0 (here it is
    asked again), tools that take images or files wait until there are some, and a draft that cannot be read is a call
    without arguments.

    `prior`: with `policy` r_pre is not judged but is p / max p, from the exact distribution over the options: one
    request for all children. Thresholds are for scores, which do not sum to 1 over the options: of fifty, a good one
    may have p = 0.1. Relative to the best one, that has r_pre = 1 and is never pruned, and τ_pre = 0.3 keeps what is at
    least three tenths as likely. Of the `tools` those alone are drafted that are kept. `labels`: whether options are
    asked for by number or by name.
    """

    pre_threshold: Share = 0.3
    pre_evaluation: bool = True
    pre_pruning: bool = True
    prior: Literal["judge", "policy"] = "judge"
    labels: OptionLabels = "numbers"
    candidates: Literal["tools", "tools_alone", "sampled"] = "tools"
    dead_end: Literal["reopen", "stop"] = "stop"

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """A choice where the prior is the policy's."""
        chooses = {CHOOSE} if self.prior == "policy" and self.pre_evaluation else set()
        return frozenset({SAMPLE, BRANCHING, JUDGE, *chooses})

    def _prior(self, edge: Node) -> float:
        return super()._prior(edge) if self.pre_evaluation else 1.0

    async def _expand(self, search: Search, node: Node) -> None:
        """Children for the candidates; open are A_keep(s), the K best of A⁺(s), those of r_pre ≥ τ_pre (§3.2)."""
        by_policy = self.pre_evaluation and self.prior == "policy"
        told = await self._told(search, node) if by_policy else {}
        if self.candidates == "sampled":
            await search.propose([node], self.branching)
        else:
            view = search.view(node)
            options = list(dict.fromkeys(view.offer.options)) if view else []
            if self.candidates == "tools_alone":
                options = [option for option in options if option != FINISH]
            await search.draft(node, self._drafted(options, told))
        if by_policy:
            for edge in node.open:
                edge.r_pre = told.get(edge.action.tool, 0.0) if edge.action else None
        elif self.pre_evaluation:
            await every([partial(search.pre, edge) for edge in node.open])
        if self.pre_evaluation and self.pre_pruning:
            for place, edge in enumerate(sorted(node.open, key=lambda edge: -self._prior(edge))):
                if self._prior(edge) < self.pre_threshold:
                    edge.pruned = "pre"
                elif place >= self.branching:
                    edge.pruned = "top_k"

    async def _told(self, search: Search, node: Node) -> dict[str, float]:
        """r_pre of each option by the policy's own distribution."""
        shares = await search.probabilities(node, self.labels)
        most = max(shares.values())
        return {tool: share / most if most else 0.0 for tool, share in shares.items()}

    def _drafted(self, options: Sequence[str], told: Mapping[str, float]) -> Sequence[str]:
        """Of the options those that can be kept, where that is known before they are drafted."""
        if not self.pre_pruning or (self.pre_evaluation and not told):
            return options
        kept = [tool for tool in options if told.get(tool, 1.0) >= self.pre_threshold]
        return sorted(kept, key=lambda tool: -told.get(tool, 1.0))[: self.branching]

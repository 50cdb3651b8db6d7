"""ToolTree (tooltree §3): tree search led by a score before each call, and rewarded by one after it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import BRANCHING
from grid.engines.base import CHOOSE, SAMPLE
from grid.engines.roles import JUDGE
from grid.planners.asking import OptionLabels
from grid.planners.search.kernel import Search
from grid.planners.search.planner import TreeSearch
from grid.planners.search.tree import Node, backup, finish
from grid.planners.side_by_side import every
from grid.seeds import derive_seed
from grid.strict import STRICT

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class ToolTree(TreeSearch):
    """Monte Carlo tree search with dual evaluation and bidirectional pruning (§3.1, §3.2), defaults as in B.4.

    A rollout goes down by equation 1. At a state that was not expanded its candidates become children; those of
    r_pre < `pre_threshold` (τ_pre), or not among the `branching` (K) best, are pruned. The child selected is run, what
    it returned is judged, and r_post is taken into the mean of every edge up to the root. An edge of
    r_post < `post_threshold` (τ_post) is gone on from no more. λ is `exploration` · `annealing`^depth. It ends after
    `rollouts` (R_max), or once the best Q rose by less than 10⁻³ in `patience` of them (B.4).

    The switches of table 4 are `pre_evaluation` (without it r_pre is 1 in equation 1, and nothing is pruned by it),
    `post_evaluation` (without it the reward is r_pre, and nothing is pruned by r_post), `pre_pruning`, `post_pruning`.

    What the paper leaves open, and what is read here:

    `candidates`: what "the remaining admissible actions" are. An action is a call with its arguments (§2), of which
    there is no end. `sampled`: the distinct ones among `branching` sampled actions, as in all the other searches here.
    `tools`: every tool on offer, with one draft of its arguments, which is what §3.1 says in so many words; with 50 on
    offer that is a hundred requests a state, where table 4 has 18,200 tokens a case. Without `pre_evaluation` they have
    no order, and with `pre_pruning` the first `branching` of the offer, whose order is drawn, are drafted.
    `repeats`: A_rem(s) is without a_1 to a_t, as calls with the same arguments.

    `prior`: with `policy` r_pre is not judged but is p / max p, from the exact distribution over the options: one
    request for all children. Thresholds are for scores, which do not sum to 1 over the options: of fifty, a good one
    may have p = 0.1. Relative to the best one, that has r_pre = 1 and is never pruned, and τ_pre = 0.3 keeps what is at
    least three tenths as likely. Of the `tools` those alone are drafted that are kept. `labels`: whether options are
    asked for by number or by name.

    `unvisited`: what equation 1 gives an edge with N(s, a) = 0. `first`: its limit, more than any visited edge, and of
    two the higher r_pre first. `prior`: as if it had been visited once for a reward of r_pre.

    `rollout`: `node` runs one new call and backs its score up, "from the new child back to the root"; `end` goes on
    from it to the path's end or to a pruned edge, and each score is backed up.

    `worth`, the value of a finished trajectory: the `mean` of the rewards on its path; their `product`; `last`, Q of
    its last edge; or `judge`, which asks for a score of all steps together. "Best Q" (B.4) is the highest of these: the
    Q of any edge is at its highest after the first good call. Of equal trajectories the first found is returned. One
    that is not finished is worth the sum of its rewards over the steps that there can be, and less than any finished.

    `dead_end`: what is done where every way is pruned, and no trajectory was finished. `reopen`: of what was pruned the
    edge of the highest score is taken back, one at a time: pruning is there to spend the budget on what is better
    (§3.2), and nothing is. `stop`: the search ends, with the path of the highest value, or with none.

    Ties in equation 1: by larger N(s, a), N(s) being the same for siblings, then by a jitter drawn for each node. A
    path's end, and a state from which every way is pruned or at its end, is not gone to again: calls are cached, so it
    would bring what it brought. `r_post` of an action without a call is judged as before it: it returns nothing.
    """

    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    exploration: Annotated[float, Field(ge=0)] = 1.4
    annealing: Annotated[float, Field(gt=0, le=1)] = 1.0
    rollouts: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    patience: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    pre_threshold: Share = 0.3
    post_threshold: Share = 0.4
    pre_evaluation: bool = True
    post_evaluation: bool = True
    pre_pruning: bool = True
    post_pruning: bool = True
    prior: Literal["judge", "policy"] = "judge"
    labels: OptionLabels = "numbers"
    candidates: Literal["sampled", "tools"] = "sampled"
    unvisited: Literal["first", "prior"] = "first"
    rollout: Literal["node", "end"] = "node"
    worth: Literal["mean", "product", "last", "judge"] = "mean"
    dead_end: Literal["reopen", "stop"] = "reopen"
    _RISE: ClassVar[float] = 1e-3  # B.4

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """A choice where the prior is the policy's."""
        chooses = {CHOOSE} if self.prior == "policy" and self.pre_evaluation else set()
        return frozenset({SAMPLE, BRANCHING, JUDGE, *chooses})

    async def search(self, search: Search) -> None:
        """Rollouts until R_max, until the best Q has not risen for long, or until nothing is left to go to."""
        done, best, since = set[Node](), 0.0, 0
        for _ in range(self.rollouts):
            if search.root in done and not self._reopen(search, done):
                return
            if await self._roll_out(search, done):
                return
            if search.best_value is None:
                continue
            rose = search.best_value - best >= self._RISE
            best, since = (search.best_value, 0) if rose else (best, since + 1)
            if since == self.patience:
                return

    async def _roll_out(self, search: Search, done: set[Node]) -> bool:
        """From the root to a new child, or on to an end; whether the search is over."""
        node, strength = search.root, self.exploration
        while not search.ended(node):
            if not node.children:
                await self._expand(search, node)
            edges = [edge for edge in node.open if edge not in done]
            if not edges:
                break
            node = max(edges, key=partial(self._preference, search, strength, node.visits_below))  # selection
            strength *= self.annealing
            if node.visits:
                continue
            await search.execute_all([node])
            if await self._evaluate(search, node):
                return True
            if node.pruned:
                break
            if self.rollout == "node" and not search.ended(node):
                return False
        finish(node, done)
        return False

    def _reopen(self, search: Search, done: set[Node]) -> bool:
        """Take back the best edge that was pruned, where nothing else is left and no trajectory is finished."""
        pruned = [node for node in search.nodes if node.pruned in ("pre", "top_k", "post")]
        if self.dead_end == "stop" or search.best_value is not None or not pruned:
            return False
        best = max(pruned, key=lambda node: (self._reward(node), -node.place))
        best.pruned = None
        done.difference_update(best.edges(), [search.root])
        return True

    def _preference(self, search: Search, strength: float, visits: int, edge: Node) -> tuple[float, float, int]:
        """UCT(s, a) = Q(s, a) + λ r_pre(s, a) √(ln N(s) / N(s, a)) (eq. 1), and what breaks ties."""
        prior, jitter = self._prior(edge), derive_seed(search.episode.seed, "jitter", edge.label)
        if edge.visits:
            return edge.value + strength * prior * math.sqrt(math.log(visits) / edge.visits), edge.visits, jitter
        if self.unvisited == "first":
            return math.inf, prior, jitter
        return prior + strength * prior * math.sqrt(math.log(visits + 1)), prior, jitter

    def _prior(self, edge: Node) -> float:
        return edge.r_pre if self.pre_evaluation and edge.r_pre is not None else 1.0

    async def _expand(self, search: Search, node: Node) -> None:
        """Children for the candidates; open are A_keep(s), the K best of A⁺(s), those of r_pre ≥ τ_pre (§3.2)."""
        by_policy = self.pre_evaluation and self.prior == "policy"
        told = await self._told(search, node) if by_policy else {}
        if self.candidates == "sampled":
            await search.propose([node], self.branching)
        else:
            view = search.view(node)
            await search.draft(node, self._drafted(list(dict.fromkeys(view.offer.options)) if view else [], told))
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

    async def _evaluate(self, search: Search, node: Node) -> bool:
        """Post-evaluation, backward propagation and post-pruning of a call that was run; whether the search is over."""
        if self.post_evaluation:
            await search.post(node)
        backup(node, self._reward(node))
        if self.post_evaluation and self.post_pruning and self._reward(node) < self.post_threshold:
            node.pruned = "post"
        return search.reached(node, await self._worth(search, node))

    def _reward(self, edge: Node) -> float:
        return edge.r_post if edge.r_post is not None else self._prior(edge)

    async def _worth(self, search: Search, node: Node) -> float:
        rewards = [self._reward(edge) for edge in node.edges()]
        if not search.ended(node):
            return sum(rewards) / (len(search.episode.case.plan.substeps) or self.max_calls)
        if self.worth == "judge":
            return await search.value(node)
        if self.worth == "last":
            return rewards[0]
        return math.prod(rewards) if self.worth == "product" else sum(rewards) / len(rewards)

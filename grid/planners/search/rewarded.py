"""Monte Carlo tree search that is rewarded after each call (tooltree §3.1, §3.2): all but how a state is expanded."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.planners.search.kernel import Search
from grid.planners.search.planner import TreeSearch
from grid.planners.search.tree import Node, backup, finish
from grid.seeds import derive_seed
from grid.strict import STRICT

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class RewardedSearch(TreeSearch, ABC):
    """Selection, execution, post-evaluation, post-pruning and backup of ToolTree, defaults as in B.4.

    A rollout goes down by equation 1. At a state that was not expanded, `_expand` makes children, each with its r_pre.
    The child selected is run, what it returned is judged, and r_post is taken into the mean of every edge up to the
    root. An edge of r_post < `post_threshold` (τ_post) is gone on from no more. λ is `exploration` · `annealing`^depth.
    It ends after `rollouts` (R_max), or once the best Q rose by less than 10⁻³ in `patience` of them (B.4). Without
    `post_evaluation` the reward is r_pre, and nothing is pruned by r_post; so too without `post_pruning`.

    What the paper leaves open, and what is read here:

    `unvisited`: what equation 1 gives an edge with N(s, a) = 0. `first`: its limit, more than any visited edge, and of
    two the higher r_pre first. `prior`: as if it had been visited once for a reward of r_pre.

    `rollout`: `node` runs one new call and backs its score up, "from the new child back to the root"; `end` goes on
    from it to the path's end or to a pruned edge, and each score is backed up.

    `worth`, the value of a finished trajectory: the `mean` of the rewards on its path; their `product`; `last`, Q of
    its last edge; or `judge`, which asks for a score of all steps together. "Best Q" (B.4) is the highest of these: the
    Q of any edge is at its highest after the first good call. Of equal trajectories the first found is returned. One
    that is not finished is worth the sum of its rewards over the steps that there can be, and less than any finished.

    `dead_end`: what is done where every way is pruned, and no trajectory was finished (with `oracle_stop`: none that
    resolves the case). `reopen`: of what was pruned the edge of the highest score is taken back, one at a time: pruning
    is there to spend the budget on what is better (§3.2), and nothing is. `stop`: the search ends, with the path of the
    highest value, or with none.

    Ties in equation 1: by larger N(s, a), N(s) being the same for siblings, then by a jitter drawn for each node. A
    path's end, and a state from which every way is pruned or at its end, is not gone to again: calls are cached, so it
    would bring what it brought. `r_post` of an action without a call is judged as before it: it returns nothing.
    """

    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    exploration: Annotated[float, Field(ge=0)] = 1.4
    annealing: Annotated[float, Field(gt=0, le=1)] = 1.0
    rollouts: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    patience: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    post_threshold: Share = 0.4
    post_evaluation: bool = True
    post_pruning: bool = True
    unvisited: Literal["first", "prior"] = "first"
    rollout: Literal["node", "end"] = "node"
    worth: Literal["mean", "product", "last", "judge"] = "mean"
    dead_end: Literal["reopen", "stop"] = "reopen"
    _RISE: ClassVar[float] = 1e-3  # B.4

    @abstractmethod
    async def _expand(self, search: Search, node: Node) -> None:
        """Make the children of a state that has none, with their r_pre; pruned are those not to be gone to."""

    def _prior(self, edge: Node) -> float:
        """r_pre of an edge; 1 of one that has none."""
        return 1.0 if edge.r_pre is None else edge.r_pre

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
        """Take back the best edge that was pruned, where nothing else is left and no trajectory will do."""
        pruned = [node for node in search.nodes if node.pruned in ("pre", "top_k", "post")]
        enough = search.best_value is not None and not self.oracle_stop
        if self.dead_end == "stop" or enough or not pruned:
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

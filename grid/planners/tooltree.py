"""ToolTree (tooltree §3): tree search guided by a score before each call and rewarded by a score after the call."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import partial
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, JUDGE, SAMPLE
from grid.core.errors import BudgetError
from grid.core.problem import BRANCHING
from grid.core.types import FINISH
from grid.core.util import STRICT, derive_seed
from grid.episode.asking import OptionLabels
from grid.episode.tree import Node, backup, finish
from grid.planners.search import Search, TreeSearch
from grid.planners.side_by_side import every

# Monte Carlo tree search rewarded after each call (tooltree §3.1, §3.2): everything but the expansion of a state.


Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class RewardedSearch(TreeSearch, ABC):
    """Selection, execution, post-evaluation, post-pruning and backup of ToolTree; the defaults are from B.4.

    A rollout descends the tree by equation 1. At a state that has not been expanded yet, `_expand` makes children, each
    with its r_pre. The selected child is run, its result is judged, and r_post enters the mean of every edge from that
    child to the root. The search does not continue from an edge with r_post < `post_threshold` (τ_post). λ is
    `exploration` · `annealing`^depth. The search ends after `rollouts` (R_max), or once the best Q has risen by less
    than 10⁻³ over `patience` rollouts (B.4). Without `post_evaluation` the reward is r_pre. Without `post_evaluation`
    or without `post_pruning`, nothing is pruned by r_post.

    What the paper leaves open, and our readings:

    `unvisited`: the value of equation 1 for an edge with N(s, a) = 0. `first`: the limit of equation 1, so that
    unvisited edges come before visited ones, in order of falling r_pre. `drawn`: the same limit, but r_pre counts only
    in the rollout that expands the state; in later rollouts, unvisited edges are ordered by a random jitter. `prior`:
    the value as if the edge had been visited once with a reward of r_pre.

    `state_visits`: N(s) is the sum of the visits of the edges of s (`below`, §3.1), or this sum plus the visit that
    first reached s (`own`).

    `empty_rollouts`: a rollout runs nothing if its last state has no open edge. Such a rollout is either `counted` in
    R_max and in the rollouts of the early stop, or `free`.

    `rollout`: `node` runs one new call and backs up its score, "from the new child back to the root"; `end` continues
    from this call to the path's end or to a pruned edge, and backs up each score.

    `worth`, the value of a finished trajectory: the `mean` of the rewards on its path; their `product`; `last`, Q of
    its last edge; or `judge`, the judge's score of all steps together. Of equally good trajectories, the one found
    first is returned. The value of an unfinished trajectory is the sum of its rewards divided by the maximum number of
    steps; any finished trajectory ranks above it.

    `result`: `best`, the trajectory of the highest worth ("the highest-valued trajectory is returned"); or `greedy`,
    the trajectory that starts at the root and follows the edge with the highest Q (of edges with equal Q, the one with
    the highest r_pre) as long as there is an edge. An edge that was never run has Q = 0; if the final greedy trajectory
    ends with such an edge, that edge is run.

    `post_pruned`: whether an edge below τ_post may be in the result (`kept`), or not (`left_out`). §3.2 says only that
    such an edge receives no further budget.

    `stop_by`: the meaning of "best Q" in the early stop. `trajectory`: the highest worth, once there is a finished
    trajectory. `root`: the highest Q of the root's edges that are not pruned; the highest of the last `patience`
    values is compared with the value before them.

    `dead_end`: how the search continues if every open edge is used up or pruned and no trajectory was finished (with
    `oracle_stop`: no trajectory that resolves the case). `reopen`: the pruned edge with the highest score is restored,
    one edge at a time, since pruning is meant to save the budget for better edges (§3.2), and no better edge is left.
    `stop`: the search ends with the path of the highest value, or without any path.

    Ties in equation 1 go to the larger N(s, a), since N(s) is the same for siblings; remaining ties are broken by a
    jitter drawn for each node. A path's end is not visited again, since calls are cached and a visit would bring the
    same result. A state is not visited again if all of its edges are pruned or lead only to visited ends. An action
    without a call returns nothing, so its `r_post` is judged in the same way as its r_pre.
    """

    max_retries: Annotated[int, Field(ge=0, le=100)] = 3
    exploration: Annotated[float, Field(ge=0)] = 1.4
    annealing: Annotated[float, Field(gt=0, le=1)] = 1.0
    rollouts: Annotated[int, Field(ge=1, le=1_000_000)] = 60
    patience: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    post_threshold: Share = 0.4
    post_evaluation: bool = True
    post_pruning: bool = True
    unvisited: Literal["first", "drawn", "prior"] = "first"
    state_visits: Literal["below", "own"] = "below"
    rollout: Literal["node", "end"] = "node"
    worth: Literal["mean", "product", "last", "judge"] = "mean"
    dead_end: Literal["reopen", "stop"] = "reopen"
    result: Literal["best", "greedy"] = "best"
    post_pruned: Literal["kept", "left_out"] = "kept"
    stop_by: Literal["trajectory", "root"] = "trajectory"
    empty_rollouts: Literal["counted", "free"] = "counted"
    _RISE: ClassVar[float] = 1e-3  # B.4

    @abstractmethod
    async def _expand(self, search: Search, node: Node) -> None:
        """Make the children of a state that has none, with their r_pre, and prune those that must not be visited."""

    def _prior(self, edge: Node) -> float:
        """The r_pre of an edge; 1 if the edge has no r_pre."""
        return 1.0 if edge.r_pre is None else edge.r_pre

    async def search(self, search: Search) -> None:
        """Make rollouts until R_max is reached, the best Q has stopped rising, or nothing is left to visit."""
        with suppress(BudgetError):  # the episode records which budget
            await self._rollouts(search)
        if self.result == "greedy" and not search.resolved:
            end = self._greedy(search)
            if end.path is None:
                await search.execute_all([end])
            search.settle(end)

    async def _rollouts(self, search: Search) -> None:
        done, left = set[Node](), self.rollouts
        plateau: Plateau = (Window if self.stop_by == "root" else Since)(self.patience, self._RISE)
        while left:
            if search.root in done and not self._reopen(search, done):
                return
            before = search.executions
            if await self._roll_out(search, done):
                return
            if search.executions == before and self.empty_rollouts == "free":
                continue
            left -= 1
            if plateau.reached(self._best_q(search)):
                return

    async def _roll_out(self, search: Search, done: set[Node]) -> bool:
        """Go from the root to a new child, or further to an end; returns whether the search is over."""
        node, strength = search.root, self.exploration
        while not search.ended(node):
            new = not node.children
            if new:
                await self._expand(search, node)
            edges = [edge for edge in node.open if edge not in done]
            if not edges:
                break
            node = self._selected(search, strength, node, edges, new)
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

    def _selected(self, search: Search, strength: float, node: Node, edges: list[Node], new: bool) -> Node:
        """The selected edge among the edges of a state; `new`: the edges were created in this rollout."""
        if new and self.unvisited == "drawn":
            return max(edges, key=lambda edge: (self._prior(edge), -edge.place))
        visits = node.visits if self.state_visits == "own" and node.parent else node.visits_below
        return max(edges, key=partial(self._preference, search, strength, visits))

    def _best_q(self, search: Search) -> float | None:
        """The best Q for the early stop; None as long as there is no such value."""
        if self.stop_by == "root":
            return max((edge.value for edge in search.root.open), default=0.0)
        return search.best_value

    def _reopen(self, search: Search, done: set[Node]) -> bool:
        """Restore the best pruned edge if no finished trajectory is good enough.

        Returns whether an edge was restored.
        """
        pruned = [node for node in search.nodes if node.pruned in ("pre", "top_k", "post")]
        enough = search.best_value is not None and not self.oracle_stop
        if self.dead_end == "stop" or enough or not pruned:
            return False
        best = max(pruned, key=lambda node: (self._reward(node), -node.place))
        best.pruned = None
        done.difference_update(best.edges(), [search.root])
        return True

    def _preference(self, search: Search, strength: float, visits: int, edge: Node) -> tuple[float, float, int]:
        """UCT(s, a) = Q(s, a) + λ r_pre(s, a) √(ln N(s) / N(s, a)) (eq. 1), and the values that break ties."""
        prior, jitter = self._prior(edge), derive_seed(search.episode.seed, "jitter", edge.label)
        if edge.visits:
            return edge.value + strength * prior * math.sqrt(math.log(visits) / edge.visits), edge.visits, jitter
        if self.unvisited != "prior":
            return math.inf, prior if self.unvisited == "first" else 0.0, jitter
        return prior + strength * prior * math.sqrt(math.log(visits + 1)), prior, jitter

    async def _evaluate(self, search: Search, node: Node) -> bool:
        """Post-evaluation, backward propagation and post-pruning after a call; returns whether the search is over."""
        if self.post_evaluation:
            await search.post(node)
        backup(node, self._reward(node))
        if self.post_evaluation and self.post_pruning and self._reward(node) < self.post_threshold:
            node.pruned = "post"
        if self.result == "greedy":
            end = self._greedy(search)
            return search.settle(end if end.path or end.parent is None else end.parent)
        if node.pruned and self.post_pruned == "left_out":
            return False
        return search.reached(node, await self._worth(search, node))

    def _greedy(self, search: Search) -> Node:
        """The end of the greedy trajectory: a node that was run, or an unrun child of such a node."""
        node = search.root
        while edges := [edge for edge in node.children if self._may_be_in_result(edge)]:
            node = max(edges, key=lambda edge: (edge.value, self._prior(edge), -edge.place))
        return node

    def _may_be_in_result(self, edge: Node) -> bool:
        return edge.pruned is None or (edge.pruned == "post" and self.post_pruned == "kept")

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


# The test of whether the best value of a search has stopped rising (tooltree B.4).


class Plateau(Protocol):
    """A test of whether the best value has stopped rising; the test is given the best value after each rollout."""

    def reached(self, best: float | None) -> bool:
        """Whether the best value has risen too little for too long.

        If `best` is None, there is no value yet, and the rollout does not count.
        """
        ...


@plain_dataclass
class Since:
    """A plateau is reached if the best value has not risen by `rise`, at once or in steps, for `patience` rollouts."""

    patience: int
    rise: float
    best: float = 0.0
    since: int = 0

    def reached(self, best: float | None) -> bool:
        """As `Plateau`."""
        if best is None:
            return False
        rose = best - self.best >= self.rise
        self.best, self.since = (best, 0) if rose else (self.best, self.since + 1)
        return self.since == self.patience


@plain_dataclass
class Window:
    """A plateau is reached if none of the last `patience` values exceeds the value before them by `rise`.

    Unlike in `Since`, values may fall.
    """

    patience: int
    rise: float
    seen: list[float] = field(default_factory=list)

    def reached(self, best: float | None) -> bool:
        """As `Plateau`."""
        if best is None:
            return False
        self.seen = [*self.seen, best][-self.patience - 1 :]
        return len(self.seen) > self.patience and max(self.seen[1:]) - self.seen[0] < self.rise


# ToolTree (tooltree §3): tree search guided by a score before each call and rewarded by a score after the call.


@dataclass(frozen=True, config=STRICT)
class ToolTree(RewardedSearch):
    """Monte Carlo tree search with dual evaluation and bidirectional pruning (§3.1, §3.2); the defaults are from B.4.

    At a state that has not been expanded yet, the candidates become children. Children with r_pre < `pre_threshold`
    (τ_pre) are pruned, and so are children that are not among the `branching` (K) best. Everything else is as in
    `RewardedSearch`.

    The switches of table 4 are `pre_evaluation` (without it, r_pre is 1 in equation 1, and nothing is pruned by r_pre),
    `post_evaluation` (without it, the reward is r_pre, and nothing is pruned by r_post), `pre_pruning` and
    `post_pruning`.

    What the paper leaves open, and our readings:

    `candidates`: the meaning of "the remaining admissible actions". An action is a call with its arguments (§2), of
    which there are infinitely many. `tools`: every offered tool and FINISH, with one draft of the arguments for each,
    as §3.1 says literally; with 50 tools, this takes a hundred requests for each state, although table 4 reports only
    18,200 tokens per case. `tools_alone`: the same without FINISH, so that every path runs until `max_calls`.
    `sampled`: the distinct actions among `branching` sampled actions, as in all other searches of the grid; all of
    these are among the best K. Without `pre_evaluation`, tools are not ranked: with `pre_pruning`, arguments are then
    drafted for the first `branching` offered tools, whose order is random. `repeats`: A_rem(s) excludes a_1 to a_t,
    which are compared as calls including their arguments.

    `dead_end`: the default is `stop`, since pruned edges stay pruned according to the paper's text.

    The configuration that matches the authors' released code is conf/planner/released/tooltree.yaml: each key in which
    it differs from tooltree.yaml is a point on which that code differs from our reading. In addition, in the released
    code a judge's answer that cannot be read scores 0 (our planner asks the judge again), tools that accept images or
    files wait until there are images or files, and a draft that cannot be read becomes a call without arguments.

    `prior`: with `policy`, r_pre is not the judge's score but p / max p, from the exact distribution over the options;
    this takes one request for all children. The division by max p is needed because thresholds are meant for scores,
    which do not sum to 1 over the options: of fifty options, a good one may have p = 0.1. With p / max p, the best
    option has r_pre = 1 and is never pruned, and τ_pre = 0.3 keeps options that are at least three tenths as likely as
    the best. With candidates `tools`, arguments are drafted only for the tools that are kept. `labels`: whether options
    are asked for by number or by name.
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
        """The needs of a search, plus exact choices if the prior comes from the policy."""
        chooses = {CHOOSE} if self.prior == "policy" and self.pre_evaluation else set()
        return frozenset({SAMPLE, BRANCHING, JUDGE, *chooses})

    def _prior(self, edge: Node) -> float:
        return super()._prior(edge) if self.pre_evaluation else 1.0

    async def _expand(self, search: Search, node: Node) -> None:
        """Make children for the candidates.

        Only A_keep(s) stay open: the K best of A⁺(s), where r_pre ≥ τ_pre (§3.2).
        """
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
        """The r_pre of each option, from the policy's own distribution."""
        shares = await search.probabilities(node, self.labels)
        most = max(shares.values())
        return {tool: share / most if most else 0.0 for tool, share in shares.items()}

    def _drafted(self, options: Sequence[str], told: Mapping[str, float]) -> Sequence[str]:
        """The options whose arguments are drafted: the options that will be kept, if these are known already.

        If they are not known, all options are drafted.
        """
        if not self.pre_pruning or (self.pre_evaluation and not told):
            return options
        kept = [tool for tool in options if told.get(tool, 1.0) >= self.pre_threshold]
        return sorted(kept, key=lambda tool: -told.get(tool, 1.0))[: self.branching]

"""ToolTree (tooltree §3): tree search led by a score before each call, and rewarded by one after it."""

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

# Monte Carlo tree search that is rewarded after each call (tooltree §3.1, §3.2): all but how a state is expanded.


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
    two the higher r_pre first. `drawn`: the same limit, but the higher r_pre counts where the state is expanded, and
    later a jitter alone. `prior`: as if it had been visited once for a reward of r_pre.

    `state_visits`: N(s) is the sum over the edges `below` (§3.1), or also the visit that led to s (`own`).

    `empty_rollouts`: whether a descent that runs nothing, since what it came to has no way on, is `counted` in R_max
    and in the rollouts of the early stop, or `free`.

    `rollout`: `node` runs one new call and backs its score up, "from the new child back to the root"; `end` goes on
    from it to the path's end or to a pruned edge, and each score is backed up.

    `worth`, the value of a finished trajectory: the `mean` of the rewards on its path; their `product`; `last`, Q of
    its last edge; or `judge`, which asks for a score of all steps together. Of equal trajectories the first found is
    returned. One that is not finished is worth the sum of its rewards over the steps that there can be, and less than
    any finished.

    `result`: the trajectory of the highest worth (`best`: "the highest-valued trajectory is returned"), or from the
    root on the edge of the highest Q (`greedy`; of equal ones that of the higher r_pre), as far as there is one. An
    edge that was never run has Q = 0; where it is the last one of the greedy trajectory at the end, it is run.

    `post_pruned`: whether an edge below τ_post may be in the result (`kept`), or not (`left_out`). §3.2 says only that
    there is no further budget for it.

    `stop_by`: what "best Q" of the early stop is. `trajectory`: the highest worth, once there is a finished one.
    `root`: the highest Q of the root's edges that are not pruned, now against `patience` rollouts ago.

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
        """Make the children of a state that has none, with their r_pre; pruned are those not to be gone to."""

    def _prior(self, edge: Node) -> float:
        """r_pre of an edge; 1 of one that has none."""
        return 1.0 if edge.r_pre is None else edge.r_pre

    async def search(self, search: Search) -> None:
        """Rollouts until R_max, until the best Q has not risen for long, or until nothing is left to go to."""
        with suppress(BudgetError):  # the episode says which part
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
        """From the root to a new child, or on to an end; whether the search is over."""
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
        """Selection among the edges of a state; `new`: they were made in this rollout."""
        if new and self.unvisited == "drawn":
            return max(edges, key=lambda edge: (self._prior(edge), -edge.place))
        visits = node.visits if self.state_visits == "own" and node.parent else node.visits_below
        return max(edges, key=partial(self._preference, search, strength, visits))

    def _best_q(self, search: Search) -> float | None:
        """What the early stop goes by; None while there is nothing of the kind."""
        if self.stop_by == "root":
            return max((edge.value for edge in search.root.open), default=0.0)
        return search.best_value

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
        if self.unvisited != "prior":
            return math.inf, prior if self.unvisited == "first" else 0.0, jitter
        return prior + strength * prior * math.sqrt(math.log(visits + 1)), prior, jitter

    async def _evaluate(self, search: Search, node: Node) -> bool:
        """Post-evaluation, backward propagation and post-pruning of a call that was run; whether the search is over."""
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
        """The end of the greedy trajectory: run, or the child of one that was."""
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


# When the best value of a search has not risen for long (tooltree B.4).


class Plateau(Protocol):
    """Told the best value after each rollout."""

    def reached(self, best: float | None) -> bool:
        """Whether it rose by too little for long; None: there is none yet, and the rollout does not count."""
        ...


@plain_dataclass
class Since:
    """So many rollouts since the best value last rose by `rise`, over all smaller rises together."""

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
    """The highest of the last so many values is not `rise` above the one before them; values may fall."""

    patience: int
    rise: float
    seen: list[float] = field(default_factory=list)

    def reached(self, best: float | None) -> bool:
        """As `Plateau`."""
        if best is None:
            return False
        self.seen = [*self.seen, best][-self.patience - 1 :]
        return len(self.seen) > self.patience and max(self.seen[1:]) - self.seen[0] < self.rise


# ToolTree (tooltree §3): tree search led by a score before each call, and rewarded by one after it.


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

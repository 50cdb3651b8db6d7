"""LATS, language agent tree search (Zhou et al. 2024): MCTS over executed calls, with reflections on failures."""

from __future__ import annotations

from functools import partial
from math import inf, log, sqrt
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.util import STRICT
from grid.episode.tree import Node, backup, finish
from grid.planners.reflexion import reflect
from grid.planners.search import Search, TreeSearch
from grid.planners.side_by_side import every

FAILED = -1.0
"""The reward of an end that failed, as in the authors' code; other ends have rewards in [0, 1]."""


@dataclass(frozen=True, config=STRICT)
class LATS(TreeSearch):
    """Select a leaf, expand it, evaluate its children, simulate to an end, back up the reward, and reflect on failure.

    `branching` is n, `mixing` is λ, `exploration` is w. All nodes that a simulation expands stay in the tree. The
    search ends after `iterations` (k), at the first success, or when every end in the tree has been visited.

    `max_visited` is the k of LATS-k (egb_slate §6.2, B.3): the maximum number of distinct nodes that are visited, not
    counting the root. A node is visited when the selection or a simulation moves to it; N(s) is the number of these
    visits. The siblings that were sampled, run and judged together with the node do not count as visited. Once
    `max_visited` is reached, no further node is expanded, and a simulation that is cut short backs up the value of its
    last node. (An alternative reading would count every node that was run. With n = 5 and k = 10, no path would be
    longer than two steps under that reading, and LATS-10 could not reach its success rate of 71% in table 9. In that
    table, LATS-10 uses 4.9 times as many tokens as ReAct; under our reading, LATS-10 uses 4.8 [4.5, 5.0] times as many
    on the same benchmark, with a simulated policy.)

    An end's reward r is the judge's score of the whole path. An end is a success if its score is at least `success`. An
    end is a failure, with r = −1, if its score is below `failure`. With `oracle_stop` (the authors' protocol), an end
    is a success if it resolves the case, and otherwise a failure. A path that cannot continue because no sampled action
    fits is a failure; a path that `max_calls` cuts off is an ordinary end.

    Our rules where the paper is silent: `unvisited` is the UCT of a node without visits. If it is `first`, the UCT is
    infinite, as in eq. 1: nodes without visits come first, and among them the node with the highest V. If `unvisited`
    is `value`, the UCT is V, as in the authors' code for HotpotQA. An end is visited only once, since its reward does
    not change. At most `reflections` reflections are written, one for each of the first failures, as in the authors'
    code.
    """

    iterations: Annotated[int, Field(ge=1, le=100_000)] = 50
    mixing: Annotated[float, Field(ge=0, le=1)] = 0.5
    exploration: Annotated[float, Field(ge=0)] = 1.0
    unvisited: Literal["first", "value"] = "first"
    success: Annotated[float, Field(gt=0)] = 1.0
    failure: Annotated[float, Field(ge=0)] = 0.5
    reflections: Annotated[int, Field(ge=0, le=20)] = 3
    max_visited: Annotated[int, Field(ge=1, le=100_000)] | None = None

    async def search(self, search: Search) -> None:
        """Sample trajectories until one succeeds (§4.2)."""
        done, visited = set[Node](), set[Node]()
        lessons: tuple[str, ...] = ()
        for _ in range(self.iterations):
            leaf = self._select(search.root, done)
            if leaf is None:
                return
            end = await self._simulate(search, leaf, lessons, visited)
            if end is None:
                return
            if self._used_up(visited):
                backup(end, self._reward(search, end) if search.ended(end) else end.value)
                return
            reward = self._reward(search, end)
            backup(end, reward)
            finish(end, done)
            if reward == FAILED and len(lessons) < self.reflections:
                path = await search.execute(end)
                lessons = (*lessons, await reflect(search.episode, path, len(lessons), self.temperature))

    def _select(self, root: Node, done: set[Node]) -> Node | None:
        """Follow the child with the highest UCT, from the root down to a leaf; None if every end has been visited."""
        node = root
        while left := [child for child in node.open if child not in done]:
            node = max(left, key=partial(self._uct, visits=node.visits_below))
        return None if node in done else node

    def _uct(self, child: Node, visits: int) -> tuple[float, float]:
        """Eq. 1, with V to break ties: UCT(s) = V(s) + w √(ln N(p) / N(s))."""
        if child.visits == 0:
            return (inf if self.unvisited == "first" else child.value), child.value
        return child.value + self.exploration * sqrt(log(visits) / child.visits), child.value

    async def _simulate(self, search: Search, leaf: Node, lessons: tuple[str, ...], visited: set[Node]) -> Node | None:
        """Expand and evaluate from a leaf to an end, always moving to the best child.

        The result is the last node that was reached, or None if the search has found a success. The node is not an end
        if no action fits there, or if `max_visited` is used up.

        The expansion and evaluation at the leaf are the steps with these names in §4.2; all later expansions and
        evaluations are part of the simulation step. The leaf and the nodes to which the simulation moves are added to
        `visited`.
        """
        node = leaf
        if leaf is not search.root:
            visited.add(leaf)
        while not search.ended(node) and not self._used_up(visited):
            if await self._expand(search, node, lessons):
                return None
            if not node.open:
                break
            node = max(node.open, key=lambda child: child.value)
            visited.add(node)
        return node

    def _used_up(self, visited: set[Node]) -> bool:
        """Whether no further node may be visited."""
        return self.max_visited is not None and len(visited) >= self.max_visited

    async def _expand(self, search: Search, node: Node, lessons: tuple[str, ...]) -> bool:
        """Sample n actions, run them, and evaluate the new states; returns whether one of them is a success."""
        await search.propose([node], self.branching, lessons)
        await search.execute_all(node.open)
        scores = await every([partial(search.value, child, lessons=lessons) for child in node.open])
        succeeded = False
        for child, score in zip(node.open, scores, strict=True):
            child.r_post = score
            child.value = self._evaluated(score, child.share or 0.0)
            if search.reached(child, score):
                return True
            succeeded |= not self.oracle_stop and search.ended(child) and score >= self.success
        return succeeded

    def _evaluated(self, score: float, consistency: float) -> float:
        """Eq. 2: V(s) = λ LM(s) + (1 - λ) SC(s)."""
        return self.mixing * score + (1 - self.mixing) * consistency

    def _reward(self, search: Search, end: Node) -> float:
        """The reward of an end that is not a success."""
        score = end.r_post or 0.0
        return FAILED if self.oracle_stop or score < self.failure or not search.ended(end) else score

"""DFSDT, the depth first search-based decision tree of ToolLLM (Qin et al. 2023, §3.3 and the released code)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import JUDGE, SAMPLE
from grid.core.errors import BudgetError
from grid.core.problem import BRANCHING
from grid.core.types import GIVE_UP
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import View
from grid.episode.tree import Node
from grid.planners.search import Search, TreeSearch, better
from grid.planners.side_by_side import every

NOT_RUN = {
    "unreadable": "an answer that could not be read",
    "schema": "not run, because it does not fit its tool",
    "repeated": "not run, because it was made before",
    "given_up": "the attempt would have been abandoned",
}


@dataclass(frozen=True, config=STRICT)
class DFSDT(TreeSearch):
    """Depth-first search; the first path that ends is the result.

    After a path is given up, the search backs up. A node has `branching` children. A child is sampled when its turn
    comes, with a prompt that shows the earlier children and their outcomes, and asks for a different action. With
    `order: compared` (DFS in the released code), all children are sampled and run first. Then the judge scores every
    child against each sibling, and the children that beat the most siblings are entered first. Only the order
    `compared` needs a judge.

    With every dataset, `give_up` is an option of every decision, alongside `finish` or, with an outline, `no_tool`.
    After a child that gives up or ends its path, the search backs up two levels: the child's parent gets no further
    child, but the child's grandparent does. After a child that is at the maximum depth or cannot be run, the search
    backs up one level.

    What the paper leaves open:
    - A path ends with `finish` or, with an outline, after the last substep. Without `oracle_stop` the first path that
      ends is the result; with `oracle_stop` the search continues, as after `give_up`, until a path that ends resolves
      the case.
    - The depth counts calls (`max_calls`). The released code counts a call's thought, name and arguments as three
      levels.
    - If no path ended, the result is the longest path (such as a path cut off at the maximum depth); among equally long
      paths, the first. The released code returns a random path that was given up. A path's value is 1 if it ended, else
      its length divided by (maximum depth + 1), which is below 1.
    - If a child repeats an earlier child despite the instruction, the search continues from it as from any other child.
    - `requests` is the limit for all requests of an episode, including those for a drafted outline and to the judge.
    """

    max_calls: Annotated[int, Field(ge=1, le=10_000)] = 12
    branching: Annotated[int, Field(ge=1, le=2000)] = 2
    requests: Annotated[int, Field(ge=0, le=1_000_000)] = 200
    most_observed: Annotated[int, Field(ge=1)] = 1024
    order: Literal["sampled", "compared"] = "sampled"

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """The planner's needs; a judge is needed only if children are compared."""
        return frozenset({SAMPLE, BRANCHING, *([JUDGE] if self.order == "compared" else [])})

    def look(self, view: View) -> View:
        """The view of a decision, with shortened outcomes and with giving up as an option."""
        return replace(view, may_give_up=True, most_observed=self.most_observed)

    async def search(self, search: Search) -> None:
        """Enter the next child of the deepest node, until a path ends or nothing is left."""
        entered = [self._children(search, search.root)]
        while entered:
            child = await anext(entered[-1], None)
            if child is None:
                entered.pop()
            elif child.pruned == "given_up":
                entered.pop()  # two levels: the child's own, and its parent's
            elif child.pruned is None:
                ends, far = self._ends(search, child), child.depth / (self._deepest(search) + 1)
                if search.reached(child, 1.0 if ends else far) or (ends and not self.oracle_stop):
                    return
                if ends:
                    entered.pop()
                elif not search.ended(child):
                    entered.append(self._children(search, child))

    async def _children(self, search: Search, node: Node) -> AsyncIterator[Node]:
        """A node's children, in the order in which the search enters them."""
        if self.order == "sampled":
            for _ in range(self.branching):
                yield await self._another(search, node)
        else:
            made = [await self._another(search, node) for _ in range(self.branching)]
            for child in await self._compared(search, made):
                yield child

    async def _another(self, search: Search, node: Node) -> Node:
        """Sample one more child, which should differ from the existing children, and run it if possible."""
        self._allow(search, 1)
        await search.propose([node], 1, siblings=tuple(map(self._told, node.children)))
        child = node.children[-1]
        if child.pruned is None:
            await search.execute_all([child])
        return child

    async def _compared(self, search: Search, made: Sequence[Node]) -> list[Node]:
        """The children, best first: a child gets one point for each sibling that it beats, and half a point for a draw.

        Children that were not run come last.
        """
        pairs = list(permutations([node for node in made if node.path], 2))
        self._allow(search, len(pairs))
        found = await every([partial(self._against, search, *pair) for pair in pairs])
        scores = dict(zip(pairs, found, strict=True))
        for node, other in pairs:
            mine, its = scores[node, other], scores[other, node]
            node.value += 1.0 if mine > its else 0.5 if mine == its else 0.0
        return sorted(made, key=lambda node: (node.path is None, -node.value))

    async def _against(self, search: Search, node: Node, other: Node) -> float:
        view = search.view(node.parent) if node.parent else None
        if view is None or node.path is None or node.action is None:
            raise RuntimeError(f"node {node.label} was not executed")
        observation = node.path.steps[-1].observation
        asked = better(search.episode, view, self._told(other), node.action, observation)
        return await search.scores.ask(asked, "better")

    def _told(self, child: Node) -> str:
        """The line that shows a sibling and its outcome."""
        if child.path is not None:
            return prompts.step_text(child.path.steps[-1], most=self.most_observed)
        call = child.action.call if child.action else None
        return f"{call.text() if call else GIVE_UP}: {NOT_RUN.get(child.pruned or '', '')}"

    def _allow(self, search: Search, requests: int) -> None:
        """Raise BudgetError if this many further requests would exceed the limit.

        The search then ends with its best path so far.
        """
        if len(search.episode.messages) + requests > self.requests:
            raise BudgetError("planner.requests", self.requests)

    def _deepest(self, search: Search) -> int:
        return len(search.episode.case.plan.substeps) or self.max_calls

    def _ends(self, search: Search, node: Node) -> bool:
        """Whether a path ends at this node, rather than being cut off at the maximum depth."""
        finished = node.path is not None and node.path.finished
        return search.ended(node) and (finished or bool(search.episode.case.plan.substeps))

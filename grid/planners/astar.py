"""A* search over plans (ToolChain*, Zhuang et al. 2024, arXiv 2310.13227; tooltree B.3)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.errors import BudgetError
from grid.core.problem import BRANCHING
from grid.core.types import FINISH, NO_TOOL
from grid.core.util import STRICT
from grid.episode.planning import plan_prompt, read_plan_of
from grid.episode.tree import Node
from grid.planners.remembering import OTHER_HALF, Memory, SolvedPlans
from grid.planners.search import Search, TreeSearch
from grid.planners.side_by_side import every

Frontier = list[tuple[float, float, int, Node]]
"""A heap of tuples: f(n), the negated mean of the sample shares of the plan's actions, the node's index, and the node.

Our rule for plans of equal cost: the plan whose actions were proposed most often comes first; if there is still a tie,
the plan created first. Equal costs are common: if g1 is 1, the samples have no effect, and calls to one tool with
different arguments cost the same.
"""


@dataclass(frozen=True, config=STRICT)
class AStar(TreeSearch):
    """Extend the plan with the least f(n) = g(n) + h(n), until that plan is complete (ToolChain*, algorithm 1).

    g(n) = Σ (1 − g1)^α (1 − g2)^(1−α) over the actions from the root to n. g1 is the length of the longest common
    subsequence of two plans (the plan up to the action, and the solved plan most similar to it), divided by the length
    of the shorter plan; g2 is the share of the `branching` samples that proposed the action. h(n) = (1 − h1)^β (1 −
    h2)^(1−β). h1 is the average position of n's action in solved plans, as a share of a plan's length; h2 is n's depth
    divided by the length of the whole plan, whose part after n is imagined by the model. No judge is asked.

    The authors' code is not public, and we found no values of α and β, so both are set to 0.5. In ToolChain*, states
    are plans, and tool results do not affect the costs. So with `executes: end`, the search plans without running
    anything, and the best plan is run at the end. With `executes: expanded`, an action is run when its node is
    expanded, so that later steps are planned with its result. Two samples are the same action if they are the same call
    (in the paper, if a model judges them equal).

    The solved plans come from the demonstrations. In the paper, each solved case adds a plan, which would make cases
    depend on each other. If a dataset has no demonstrations, `solved: other_half` instead uses reference plans of cases
    in the half of the dataset that does not contain the case; `demonstrations` is the number of these plans. The cases
    whose queries are most similar to the case's query are used; the case's own cluster is left out. Costs use these
    plans, but prompts do not show them. With `solved: none`, there are no solved plans. Actions are compared with
    solved plans by tool only, since arguments depend on the question. A tool that is in no solved plan gets the
    position of the tool with the most similar name. Without solved plans, g1 and h1 are left out, and the costs are 1 −
    g2 and 1 − h2. With an outline the model is not asked to imagine the rest of a plan, since the whole plan has the
    outline's length. If the imagined part cannot be read, h2 is 0.

    After `expansions` expansions, or if the model's budget is used up, the complete plan with the least f in the
    frontier is run. If no plan is complete, the plan with the least f is run. The value of an incomplete path is −h,
    which is higher the closer the path is to its end.
    """

    max_tokens: Annotated[int, Field(ge=1)] = 2048
    expansions: Annotated[int, Field(ge=1, le=100_000)] = 100
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    executes: Literal["end", "expanded"] = "end"
    solved: SolvedPlans = OTHER_HALF
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING})

    @property
    def goes_by_solved(self) -> bool:
        """Whether solved cases of the half without the current case replace the demonstrations that a dataset lacks."""
        return self.solved == OTHER_HALF

    @property
    def plans_ahead(self) -> bool:
        """Always true, since the length of the plan that the model imagines is part of the costs."""
        return True

    @property
    def answers_ahead(self) -> bool:
        """True only if the whole plan is run at the end."""
        return self.executes == "end"

    async def search(self, search: Search) -> None:
        """Expand plans, the cheapest first, until the cheapest plan is complete; then run that plan."""
        costs = Costs(search, self)
        frontier: Frontier = [(0.0, 0.0, 0, search.root)]
        with suppress(BudgetError):  # the plan found by then is still run
            for _ in range(self.expansions):
                node = frontier[0][-1]
                if search.ended(node):
                    stop = await self._run(search, node, costs)
                    if not search.ended(node):  # its finish was refused, so the search continues from it
                        continue
                    if stop or not self.oracle_stop or len(frontier) == 1:
                        return
                    heappop(frontier)
                elif not await self._expand(search, frontier, costs):
                    break
        complete = [entry for entry in frontier if search.ended(entry[-1])]
        await self._run(search, min(complete or frontier)[-1], costs)

    async def _expand(self, search: Search, frontier: Frontier, costs: Costs) -> bool:
        """Replace the frontier's first node by its children, or return False if no node would be left."""
        node = frontier[0][-1]
        if self.executes == "expanded":
            await self._run(search, node, costs)
            if search.ended(node):  # the world ended the work, so the plan is complete
                return True
        await search.propose([node], self.branching)
        for child in node.open:
            search.imagine(child)
        found = await every([partial(costs.of, child) for child in node.open])
        if not found and len(frontier) == 1:
            return False
        heappop(frontier)
        for child, f in zip(node.open, found, strict=True):
            child.value = -f
            heappush(frontier, (f, -costs.shares[child.label] / child.depth, child.place, child))
        return True

    async def _run(self, search: Search, node: Node, costs: Costs) -> bool:
        """Run those actions of a plan that have not been run yet; returns whether the search may stop.

        Nothing is run after the world has ended the work.
        """
        for edge in reversed([*node.edges()]):
            if edge.execution is None:
                await search.enact(edge)
                search.reached(edge, -costs.h[edge.label])
            if search.ended(edge):
                break
        return search.resolved


class Costs:
    """For each node, keyed by its label: g(n), h(n), and the sum of the sample shares of the plan's actions."""

    def __init__(self, search: Search, planner: AStar) -> None:
        self._search, self._planner = search, planner
        self._outline = len(search.episode.case.plan.substeps)
        episode, count = search.episode, planner.demonstrations
        solved = episode.demonstrations(count) or (episode.solved(count) if planner.solved == OTHER_HALF else ())
        last = () if self._outline else (FINISH,)
        self._memory = Memory(tuple((*(call.tool for call in one.calls.values()), *last) for one in solved))
        self.g, self.h = {search.root.label: 0.0}, {search.root.label: 1.0}
        self.shares = {search.root.label: 0.0}

    async def of(self, node: Node) -> float:
        """f(n) for a node whose parent already has a g."""
        tools = [edge.action.tool for edge in reversed([*node.edges()]) if edge.action]
        known = self._memory.likeness([tool for tool in tools if tool != NO_TOOL])
        share, before = node.share or 0.0, (node.parent or self._search.root).label
        self.shares[node.label] = self.shares[before] + share
        self.g[node.label] = self.g[before] + mixed(known, share, self._planner.alpha)
        place = self._memory.place(tools[-1]) if tools[-1] != NO_TOOL else None
        self.h[node.label] = mixed(place, await self._imagined(node), self._planner.beta)
        return self.g[node.label] + self.h[node.label]

    async def _imagined(self, node: Node) -> float:
        """h2: the depth of a node, divided by the depth of the imagined end of its plan."""
        view, depth = self._search.view(node), node.depth
        if view is None:
            return 1.0
        if self._outline:
            return depth / self._outline
        episode, acting = self._search.episode, replace(self._planner, thought=0)
        asked = await episode.sample(
            plan_prompt(episode, view, acting),
            *(f"node{node.label}", "plan"),
            temperature=acting.temperature,
            max_tokens=acting.max_tokens,
        )
        node.spent += asked.usage
        plan = read_plan_of(asked, episode, view, acting)
        if plan is None:
            return 0.0
        left = next((place for place, action in enumerate(plan) if action.finished), len(plan))
        return depth / (depth + left)


def mixed(known: float | None, told: float, weight: float) -> float:
    """(1 − s1)^w (1 − s2)^(1−w) of two scores in [0, 1]; 1 − s2 if s1 is unknown."""
    return 1 - told if known is None else float((1 - known) ** weight * (1 - told) ** (1 - weight))

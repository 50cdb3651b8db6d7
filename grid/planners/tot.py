"""Tree of thoughts (Yao et al. 2023a, algorithm 1: ToT-BFS): breadth-first search over plans; the best plan is run."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import JUDGE, SAMPLE
from grid.core.errors import BudgetError
from grid.core.problem import BRANCHING
from grid.core.util import STRICT
from grid.episode.tree import Node
from grid.planners.search import Search, TreeSearch, best
from grid.planners.side_by_side import every


@dataclass(frozen=True, config=STRICT)
class TreeOfThoughts(TreeSearch):
    """A thought is a call that is written down and not executed (tooltree B.3).

    At each level, `branching` (k) thoughts are sampled after each kept chain, and the `beam` (b) best of all resulting
    chains are kept. Chains are rated by `value` (the mean of `values` separate judgements of each chain) or by `vote`
    (the share of `votes` votes that name the chain as the best). Thoughts and judgements are sampled at `temperature`.

    A chain that has ended is still compared with the others. When all kept chains have ended, the best chain is run
    without the model, with references filled in on the way.

    What the paper leaves open:
    - If a call fails while the chain runs, the rest of the chain is still run, since no thought depends on the results
      of calls. References to the failed call's result stay unfilled in later calls.
    - Among equally rated chains, the chain created first is kept.
    - If a budget is used up during the search, the best chain kept until then is run, within the limits of the budget.
    - With `oracle_stop` the kept chains are run in order of rank until one resolves the case.
    """

    temperature: Annotated[float, Field(ge=0)] = 0.7
    beam: Annotated[int, Field(ge=1, le=2000)] = 5
    evaluation: Literal["value", "vote"] = "value"
    values: Annotated[int, Field(ge=1, le=1000)] = 3
    votes: Annotated[int, Field(ge=1, le=1000)] = 5

    @property
    def judge_temperature(self) -> float:
        """The temperature of this planner's requests to its judge; other planners use 0."""
        return self.temperature

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        """The needs of a search; the world must support branching only if more than one chain may be run."""
        return frozenset({SAMPLE, JUDGE, *([BRANCHING] if self.oracle_stop else [])})

    @property
    def answers_ahead(self) -> bool:
        """Always true, since the best chain is run only when it is complete."""
        return True

    async def search(self, search: Search) -> None:
        """Algorithm 1: S_t = the b best of { [s, z] : s in S_t-1, z in G(p, s, k) }, until all have ended."""
        kept = [search.root]
        with suppress(BudgetError):  # the episode records which budget; the chains kept until then are run
            while thoughts := await self._thoughts(search, kept):
                await self._evaluate(search, thoughts)
                kept = sorted(thoughts, key=lambda node: -node.value)[: self.beam]
        for node in kept:
            if await search.run(node) or not self.oracle_stop:
                return

    async def _thoughts(self, search: Search, kept: list[Node]) -> list[Node]:
        """The next candidates: each kept chain with one more thought, or unchanged if it has ended.

        The list is empty if all chains have ended.
        """
        growing = [node for node in kept if not search.ended(node)]
        if not growing:
            return []
        await search.propose(growing, self.branching)
        for node in growing:
            for child in node.open:
                search.imagine(child)
        return [chain for node in kept for chain in (node.open if node in growing else [node])]

    async def _evaluate(self, search: Search, thoughts: list[Node]) -> None:
        """V(p, S): each chain's value."""
        if self.evaluation == "vote" and len(thoughts) == 1:
            found = [1.0]
        elif self.evaluation == "value":
            judging = [
                partial(search.value, node, planned=True, samples=self.values, temperature=self.temperature)
                for node in thoughts
            ]
            found = await every(judging)
        else:
            paths = [node.path for node in thoughts if node.path]
            chains = ["\n".join((f"{len(path.lines)} steps:", *path.lines)) for path in paths]
            found = await search.scores.votes(
                best(search.episode), chains, samples=self.votes, temperature=self.temperature
            )
        for node, value in zip(thoughts, found, strict=True):
            node.value = value

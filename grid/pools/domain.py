"""The tools of the case's domain (traject_bench §4.1)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.dataclasses import dataclass

from grid.datasets.base import Problem
from grid.pools.base import used
from grid.pools.whole import Whole
from grid.strict import STRICT
from grid.types import ToolSpec


@dataclass(frozen=True, config=STRICT)
class Domain(Whole):
    """The tools whose category is `Problem.domain`, in the library's order.

    A case's own tools of other domains (UltraTool has tools that several domains use) are in it too, not the right
    ones alone: else these would stand out.
    """

    def lacks(self, problem: Problem) -> str | None:
        """The name of a domain that has tools."""
        domains = {tool.category for tool in problem.library.values()}
        return None if problem.domain and problem.domain in domains else "the case's domain, as tools name it"

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The domain's tools."""
        own = used(problem).keys() | set(problem.own)
        return {name: tool for name, tool in stock.items() if tool.category == problem.domain or name in own}

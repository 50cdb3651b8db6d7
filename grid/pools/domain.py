"""The pool of the tools in the case's domain (traject_bench §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import Problem
from grid.core.types import ToolSpec
from grid.core.util import STRICT
from grid.pools.whole import Whole, used


@dataclass(frozen=True, config=STRICT)
class Domain(Whole):
    """The tools whose category is `Problem.domain`, in the library's order.

    The pool also has all of the case's own tools that belong to other domains (in UltraTool, several domains use the
    same tools). If the right tools were the only ones from other domains, they would be easy to spot.
    """

    needs: ClassVar[str | None] = "a domain with tools for each case"

    def fits(self, problem: Problem) -> bool:
        """Whether there are tools in the case's domain."""
        return bool(problem.domain) and any(tool.category == problem.domain for tool in problem.library.values())

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The domain's tools."""
        own = used(problem).keys() | set(problem.own)
        seen = problem.library  # a tool in several domains counts as a tool in the case's domain
        return {n: tool for n, tool in stock.items() if seen.get(n, tool).category == problem.domain or n in own}

"""The pool of a case's own tools: the right tools, and the candidates named in the case's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import Problem
from grid.core.types import ToolSpec
from grid.core.util import STRICT
from grid.pools.whole import Whole, used


@dataclass(frozen=True, config=STRICT)
class CaseTools(Whole):
    """The right tools and the tools in `Problem.own`, in the library's order, which does not reveal the right ones."""

    needs: ClassVar[str | None] = "candidate tools for each case"

    def fits(self, problem: Problem) -> bool:
        """Whether the case names any tools."""
        return bool(problem.own)

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The case's own tools."""
        own = used(problem).keys() | set(problem.own)
        return {name: tool for name, tool in stock.items() if name in own}

"""Every tool of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import Problem
from grid.core.strict import STRICT
from grid.core.types import ToolSpec


@dataclass(frozen=True, config=STRICT)
class Whole:
    """The dataset's library, the same for all cases."""

    in_context: ClassVar[int] = 0
    version: ClassVar[str] = ""
    needs: ClassVar[str | None] = None

    def stock(self, library: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library."""
        return library

    def fits(self, problem: Problem) -> bool:
        """Any case."""
        return True

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library."""
        return stock

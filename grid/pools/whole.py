"""The protocol of pools, and the pool that has every tool of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from pydantic.dataclasses import dataclass

from grid.core.problem import Problem
from grid.core.types import ToolSpec
from grid.core.util import STRICT


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
        """Whether the pool fits a case; it fits any."""
        return True

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library."""
        return stock


# Pools: the tools from which a case's tools are retrieved, or which are offered if nothing is retrieved.


class Pool(Protocol):
    """A choice of tools, made for each case. It knows the reference, whose tools are always included."""

    @property
    def in_context(self) -> int:
        """A pool of at most so many tools is offered whole, whatever the retriever's limits are."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the files that it reads change; empty if it reads none. Part of every cell's id."""
        ...

    def stock(self, library: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """All tools that any case of a dataset may get. They are indexed once; words have their weights from them."""
        ...

    @property
    def needs(self) -> str | None:
        """What a case must name, in words; None if any case will do."""
        ...

    def fits(self, problem: Problem) -> bool:
        """Whether a case names what is needed."""
        ...

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The case's pool from the stock, in the order that tools have if nothing ranks them."""
        ...


def used(problem: Problem) -> dict[str, ToolSpec]:
    """The tools that the reference calls, in the order of the calls."""
    return {call.tool: problem.library[call.tool] for call in problem.reference.calls.values() if call}

"""The protocol for pools, and the pool that has all tools of a benchmark."""

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
        """True: the pool fits every case."""
        return True

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library."""
        return stock


# Pools: the tools from which a case's tools are retrieved, or all of which are offered if nothing is retrieved.


class Pool(Protocol):
    """A choice of tools for each case. A pool has access to the reference, whose tools it always includes."""

    @property
    def in_context(self) -> int:
        """The maximum size at which a pool is offered whole, regardless of the retriever's limits."""
        ...

    @property
    def version(self) -> str:
        """A name for the files that the pool reads; it changes when a file changes, and is empty if no files are read.

        It is part of every cell's id.
        """
        ...

    def stock(self, library: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """All tools that the cases of a dataset may get.

        They are indexed once, and the weights of words in retrieval are computed from them.
        """
        ...

    @property
    def needs(self) -> str | None:
        """A description of the data that the pool needs for each case; None if the pool fits every case."""
        ...

    def fits(self, problem: Problem) -> bool:
        """Whether a case has the data that the pool needs."""
        ...

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The case's tools from the stock, in the order that is used if nothing ranks them."""
        ...


def used(problem: Problem) -> dict[str, ToolSpec]:
    """The tools that the reference calls, in the order of the calls."""
    return {call.tool: problem.library[call.tool] for call in problem.reference.calls.values() if call}

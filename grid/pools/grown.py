"""A pool of so many tools (tooltree A.11): a case's own, and distractors of other domains."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import Problem
from grid.core.retriever import Index
from grid.core.strict import STRICT
from grid.core.types import ToolSpec
from grid.episode.options import Retrieved
from grid.pools.base import used
from grid.pools.distractors import distractors, fingerprint
from grid.retrievers.bm25 import BM25

OWN = 14
"""A case's own tools, where its reference does not call more."""


@dataclass(frozen=True, config=STRICT)
class Grown:
    """A case's own tools and `distractors` of other domains, whatever the dataset's library has.

    14 are the case's: those that its reference calls, those that its record names, and those that BM25 finds for its
    substeps in the dataset's library, the best of each first; more, where the reference calls more. The distractors are
    tools of the dataset, of SLATE and of the files in `path`, none of the case's domain or of one that a tool of the
    reference is of, nor of the same function as one. Where there are too few, real tools are varied (`variations`). A
    larger pool holds a smaller one's tools: `seed` draws their order, the same for all cases, trials and planners.
    """

    needs: ClassVar[str | None] = None
    distractors: Annotated[int, Field(ge=0, le=100_000)] = 10_000
    in_context: Annotated[int, Field(ge=0)] = 24
    seed: Annotated[int, Field(ge=0)] = 0
    path: str | None = None

    @property
    def version(self) -> str:
        """Changes whenever the tools that distractors are taken from do."""
        return f"tools-{fingerprint(self.path)}"

    def stock(self, library: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library and distractors for any case: twice as many as a case takes, as some are of its own domains."""
        if not self.distractors:
            return library
        own = tuple(library.values())
        found = distractors(own, self.path, self.seed, 2 * (OWN + self.distractors) + len(own))
        return MappingProxyType({**{tool.name: tool for tool in found}, **library})

    def fits(self, problem: Problem) -> bool:
        """Any case."""
        return True

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The case's tools, then as many distractors as are wanted.

        Raises:
            ConfigError: there are too few.
        """
        right = used(problem)
        found = right | {name: problem.library[name] for name in problem.own} | self._near(problem)
        found = dict(islice(found.items(), max(OWN, len(right))))
        functions = {problem.same_function.get(name, name) for name in right}
        domains = {name.casefold() for name in (problem.domain, *(tool.category for tool in right.values())) if name}
        size = len(found) + self.distractors
        for tool in stock.values():
            if len(found) >= size:
                break
            same = problem.same_function.get(tool.name, tool.name) in functions
            domain = problem.library.get(tool.name, tool).category.casefold()  # of several it may be the case's
            if tool.name not in found and not same and domain not in domains:
                found[tool.name] = tool
        if len(found) < size:
            allowed = f"at most {self.distractors + len(found) - size:,}, or path=FOLDER with tools of more domains"
            raise ConfigError("pool.distractors", self.distractors, allowed)
        return dict(sorted(found.items()))  # the right ones stand anywhere

    def _near(self, problem: Problem) -> dict[str, ToolSpec]:
        """What BM25 finds, whatever retrieves for the planner: so the pool is the same for all retrievers."""
        index = _indexed(tuple(problem.library.values()))
        near = Retrieved(index.retrieve, problem.case.plan.substeps, OWN).tools(problem.case, None)
        return {tool.name: tool for tool in near}


@lru_cache(maxsize=2)
def _indexed(tools: tuple[ToolSpec, ...]) -> Index:
    return BM25().index({tool.name: tool for tool in tools})

"""A library of so many tools (tooltree A.11): a case's own, and distractors of other domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import Problem
from grid.errors import ConfigError
from grid.planners.options import Retrieved
from grid.retrievers.base import Extensible, Index
from grid.robustness.distractors import distractors, fingerprint
from grid.strict import STRICT
from grid.types import Case, Substep, ToolSpec

OWN = 14
"""Tools of the smallest library."""


@dataclass(frozen=True, config=STRICT)
class LibrarySize:
    """Gives each case a library of `size` tools, whatever the dataset's own has.

    14 are the case's: those that its reference calls, and then those that the retriever finds for its substeps in the
    dataset's library, the best of each first; more, where the reference calls more. The others are distractors of
    other domains: tools of the dataset, of SLATE and of the files in `path`, none of a domain that a tool of the
    reference is of, nor of the same function as one. Where there are too few, real tools are varied (`variations`). A
    larger library holds a smaller one's tools: `seed` draws their order, the same for all cases, trials and planners.

    A library of at most `in_context` tools is offered whole, the nearest first; of a larger one what the retriever
    finds. One index of the dataset's and all distractors serves every case: words weigh as they are frequent there.
    """

    size: Annotated[int, Field(ge=OWN, le=100_000)] = 10_014
    in_context: Annotated[int, Field(ge=0)] = 24
    seed: Annotated[int, Field(ge=0)] = 0
    path: str | None = None

    @property
    def version(self) -> str:
        """Changes whenever the tools that distractors are taken from do."""
        return f"tools-{fingerprint(self.path)}"

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with a library of its own; `seed` draws nothing."""
        if not isinstance(index, Extensible):
            allowed = "a retriever whose index other tools can be added to (bm25)"
            raise ConfigError("robustness.library_size", type(index).__name__, allowed)
        stock, spread = stock_of(index, self.path, self.seed, self.size)
        library = self._library(problem, stock)
        most = len(library) if len(library) <= self.in_context else spread.top_k

        @cache
        def candidates(case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
            ranked = (tool for tool in spread.ranked(case, substep) if library.get(tool.name) is tool)
            return tuple(islice(ranked, most))

        return replace(problem, candidates=candidates, library=library)

    def _library(self, problem: Problem, stock: tuple[ToolSpec, ...]) -> Mapping[str, ToolSpec]:
        """The case's tools, then as many distractors as are missing."""
        used = {call.tool: problem.library[call.tool] for call in problem.reference.calls.values() if call}
        near = Retrieved(problem.candidates, problem.case.plan.substeps, OWN).tools(problem.case, None)
        found = dict(islice((used | {tool.name: tool for tool in near}).items(), max(OWN, len(used))))
        functions = {problem.same_function.get(name, name) for name in used}
        domains = {tool.category.casefold() for tool in used.values() if tool.category}
        for tool in stock:
            if len(found) >= self.size:
                return found
            same = problem.same_function.get(tool.name, tool.name) in functions
            if tool.name not in found and not same and tool.category.casefold() not in domains:
                found[tool.name] = tool
        if len(found) < self.size:
            allowed = f"at most {len(found):,}, or path=FOLDER with tools of more domains"
            raise ConfigError("robustness.library_size.size", self.size, allowed)
        return found


@lru_cache(maxsize=8)
def stock_of(index: Extensible, path: str | None, seed: int, size: int) -> tuple[tuple[ToolSpec, ...], Extensible]:
    """Distractors for any case, and an index of them and the dataset's tools.

    Twice as many as a case takes: some are of its own domains.
    """
    own = tuple(index.tools)
    if size <= OWN:
        return (), index
    found = distractors(own, path, seed, 2 * size + len(own))
    names = {tool.name for tool in own}
    return found, index.of((*own, *(tool for tool in found if tool.name not in names)))

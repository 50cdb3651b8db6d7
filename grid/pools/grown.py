"""A pool of so many tools (tooltree A.11): a case's own, and distractors of other domains."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, islice
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import Index, Problem
from grid.core.types import ToolSpec, to_json
from grid.core.util import STRICT, derive_seed
from grid.datasets.slate.dataset import Slate
from grid.episode.options import Retrieved
from grid.pools.tool_files import distinct, named, read_tools
from grid.pools.whole import used
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


# Distractors: real tools of other domains, and variations of them where these are too few (tooltree A.11).


@lru_cache(maxsize=4)
def real_tools(path: str | None) -> tuple[ToolSpec, ...]:
    """SLATE's tools and those in the folder, of each description one."""
    return distinct((*Slate().tools.values(), *(read_tools(path) if path else ())))


@lru_cache(maxsize=4)
def fingerprint(path: str | None) -> str:
    """Twelve hexadecimal digits of `real_tools`."""
    parts = ([t.name, t.description, t.category, [[p.name, p.type] for p in t.parameters]] for t in real_tools(path))
    return hashlib.sha256("\n".join(map(to_json, parts)).encode()).hexdigest()[:12]


def distractors(own: Sequence[ToolSpec], path: str | None, seed: int, count: int) -> tuple[ToolSpec, ...]:
    """The first `count` (or as many as there are): real tools in an order drawn from `seed`, then variations.

    `own` are a dataset's tools: they are distractors too, for cases of other domains, and no other tool has a name or a
    description of theirs. Whatever `count` is, the order is the same.
    """
    real = distinct((*own, *real_tools(path)))
    drawn = sorted(real, key=lambda tool: derive_seed(seed, "distractor", tool.name))
    return (*drawn[:count], *islice(variations(drawn), max(count - len(drawn), 0)))


def variations(tools: Sequence[ToolSpec]) -> Iterator[ToolSpec]:
    """Real tools as another domain's service would offer them: large libraries have one function from many providers.

    `track_parcel` "Tells where a parcel is." becomes `finance_track_parcel` "Tells where a parcel is, for Finance.",
    with the same arguments and its own domain, for every other that a real tool names and every two ("for Finance and
    Travel"); each tool once before any twice.
    """
    named_by_tools = sorted({tool.category for tool in tools if tool.category})
    domains = [*named_by_tools, *map(" and ".join, combinations(named_by_tools, 2))]
    taken = {tool.name.casefold() for tool in tools}
    for turn in range(len(domains)):
        for place, tool in enumerate(tools):
            domain = domains[(place + turn) % len(domains)]
            name = named(f"{domain} {tool.name}")
            if domain != tool.category and name.casefold() not in taken:
                taken.add(name.casefold())
                text = f"{tool.description.rstrip('. ')}, for {domain}."
                yield replace(tool, name=name, description=text)

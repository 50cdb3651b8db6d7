"""Which options a decision has, and in which order they stand.

Retrievers give the best tool first. Shown like that, "always the first option" is a policy, and a model's liking for
low numbers looks like skill. So the order is drawn: from the sweep's seed, the case and the step, and from nothing
that differs between planners, models or trials.
"""

from __future__ import annotations

from typing import NamedTuple

from grid.datasets.base import Candidates
from grid.planners.once import Once
from grid.seeds import derive_seed
from grid.types import NO_TOOL, Case, Substep, ToolSpec

QUERY = ""
"""Stands for the step where the tools are those of the whole query: they have one order a case, so that all its
prompts share them as a prefix."""


class Options(NamedTuple):
    """The tools of a decision as they are shown; so many (`place`) stand before `no_tool`, or `finish`."""

    tools: tuple[ToolSpec, ...]
    place: int


class Retrieved(NamedTuple):
    """What was retrieved for a case, best first.

    `pool` are the substeps whose candidates make the tools of the whole query, `of_query` at most; without any it is
    the query that tools are retrieved for.
    """

    candidates: Candidates
    pool: tuple[Substep, ...]
    of_query: int

    def tools(self, case: Case, substep: Substep | None) -> tuple[ToolSpec, ...]:
        """The tools for a substep; None: those of the whole query, which are its substeps', the best of each first."""
        if substep is not None:
            return self.candidates(case, substep)
        ranked = tuple(self.candidates(case, one) for one in self.pool or (Substep("0", case.query, ""),))
        longest = max(map(len, ranked))
        found = {tools[rank].name: tools[rank] for rank in range(longest) for tools in ranked if rank < len(tools)}
        return tuple(found.values())[: self.of_query]


def in_order(tools: tuple[ToolSpec, ...], seed: int | None, case: str, step: str, most: int | None = None) -> Options:
    """The first `most` - 1 of the tools with `no_tool` or `finish` in a drawn order; the same objects once more.

    A tool's place among the others does not depend on which others there are. Without a seed they stand as they are,
    and `no_tool` or `finish` last.
    """
    return _in_order(tools, seed, case, step, most)


def _ordered(tools: tuple[ToolSpec, ...], seed: int | None, case: str, step: str, most: int | None) -> Options:
    kept = tools if most is None else tools[: most - 1]
    if seed is None:
        return Options(kept, len(kept))
    of_step = derive_seed(seed, "options", case, step)
    keys = {tool.name: derive_seed(of_step, tool.name) for tool in kept}
    last = derive_seed(of_step, NO_TOOL)
    return Options(tuple(sorted(kept, key=lambda tool: keys[tool.name])), sum(key < last for key in keys.values()))


_in_order: Once[tuple[ToolSpec, ...], Options] = Once(_ordered)

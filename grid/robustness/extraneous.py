"""Extraneous tools (agent_planning_benchmark §3.1): tools that resemble the right tools but do not help."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from typing import ClassVar, Literal

from pydantic.dataclasses import dataclass

from grid.core.problem import Index, Problem
from grid.core.types import Case, Substep, ToolSpec
from grid.core.util import STRICT, derive_seed


@dataclass(frozen=True, config=STRICT)
class Extraneous:
    """Adds `k` near neighbours to the candidates of each substep, at seeded random positions among the candidates.

    The neighbours are the tools in the library that are most similar to the substep's tool. The substep's tool is the
    reference's tool if the substep needs one; for all other substeps, and for substeps outside the case's own plan, it
    is the first candidate. No tool that the reference uses is added, nor any tool with the same function as such a
    tool.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    k: Literal[2, 4, 6, 8, 10] = 10

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with more candidates for each substep."""
        useful = {_function(call.tool, problem) for call in problem.reference.calls.values() if call}
        planned = {substep.id for substep in problem.case.plan.substeps}

        @cache
        def candidates(case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
            offered = problem.candidates(case, substep)
            own = substep.id in planned and not substep.drafted  # drafted substeps have numbers too
            call = problem.reference.calls.get(substep.id) if own else None
            known = problem.library.get(call.tool) if call else None  # an earlier setting may have removed it
            anchor = known or next(iter(offered), None)
            if anchor is None:
                return offered
            names = {tool.name for tool in offered}
            near = (
                tool
                for tool in index.nearest(f"{anchor.name} {anchor.description}")
                if tool.name not in names and _function(tool.name, problem) not in useful
            )
            rng = random.Random(derive_seed(seed, "extraneous", case.id, substep.id))
            mixed = list(offered)
            for tool, _ in zip(near, range(self.k), strict=False):
                mixed.insert(rng.randint(0, len(mixed)), problem.library.get(tool.name, tool))
            return tuple(mixed)

        return replace(problem, candidates=candidates)


def _function(tool: str, problem: Problem) -> str:
    return problem.same_function.get(tool, tool)

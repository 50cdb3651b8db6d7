"""Which options a decision has, and in which order they stand.

Retrievers give the best tool first. Shown like that, "always the first option" is a policy, and a model's liking for
low numbers looks like skill. So the order is drawn: from the sweep's seed, the case and the step, and from nothing
that differs between planners, models or trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from grid.core.problem import Candidates, Mode, Problem
from grid.core.types import NO_TOOL, Case, Step, Substep, ToolSpec
from grid.core.util import Once, derive_seed

QUERY = ""
"""Stands for the step where the tools are those of the whole query: they have one order a case, so that all its
prompts share them as a prefix."""
SOUGHT = 500
"""Characters of a thought, and of an observation, that tools are retrieved by."""


class Options(NamedTuple):
    """The tools of a decision as they are shown; so many (`place`) stand before `no_tool`, or `finish`.

    `sought`: by what they were found besides the substep, or the query.
    """

    tools: tuple[ToolSpec, ...]
    place: int
    sought: str = ""


class Retrieved(NamedTuple):
    """What is retrieved for a case, best first.

    `parts` are the substeps whose candidates make the tools of the whole query, `of_query` at most; without any it is
    the query that tools are retrieved for. `mode`: when, and what is sought by.
    """

    candidates: Candidates
    parts: tuple[Substep, ...]
    of_query: int
    mode: Mode = "static"

    @classmethod
    def of(cls, problem: Problem) -> Retrieved:
        """As a problem has it retrieved."""
        return cls(problem.candidates, problem.parts, problem.query_tools, problem.retrieved)

    def sought(self, steps: Sequence[Step]) -> str:
        """What tools are retrieved by behind these steps; empty where it is the substep or the query alone.

        By thoughts: what the last step's were, which stay until there is a new one.
        """
        if self.mode == "static":
            return ""
        if self.mode == "thought":
            return steps[-1].sought if steps else ""
        thoughts = (step.thought for step in reversed(steps) if step.thought)
        observations = (step.observation.text() for step in reversed(steps) if step.observation)
        return "\n".join(text[:SOUGHT] for text in (next(thoughts, ""), next(observations, "")) if text)

    def tools(self, case: Case, substep: Substep | None, sought: str = "") -> tuple[ToolSpec, ...]:
        """The tools for a substep; None: those of the whole query, which are its substeps', the best of each first.

        Retrieved anew, those of the whole query are found by the query: its substeps may be hidden. A thought is sought
        by alone.
        """
        if sought and self.mode == "thought":
            found = self.candidates(replace(case, query=""), Substep("0", sought, ""))
            return found[: self.of_query] if substep is None else found
        if substep is not None:
            return self.candidates(case, _with(substep, sought))
        query = (_with(Substep("0", case.query, ""), sought),)
        ranked = tuple(self.candidates(case, one) for one in (self.mode == "static" and self.parts) or query)
        longest = max(map(len, ranked))
        every = {tools[rank].name: tools[rank] for rank in range(longest) for tools in ranked if rank < len(tools)}
        return tuple(every.values())[: self.of_query]


def _with(substep: Substep, sought: str) -> Substep:
    return replace(substep, text=f"{substep.text}\n{sought}") if sought else substep


def in_order(
    tools: tuple[ToolSpec, ...], seed: int | None, case: str, step: str, most: int | None = None, sought: str = ""
) -> Options:
    """The first `most` - 1 of the tools with `no_tool` or `finish` in a drawn order; the same objects once more.

    A tool's place among the others does not depend on which others there are. Without a seed they stand as they are,
    and `no_tool` or `finish` last.
    """
    return _in_order(tools, seed, case, step, most, sought)


def _ordered(
    tools: tuple[ToolSpec, ...], seed: int | None, case: str, step: str, most: int | None, sought: str
) -> Options:
    kept = tools if most is None else tools[: most - 1]
    if seed is None:
        return Options(kept, len(kept), sought)
    of_step = derive_seed(seed, "options", case, step)
    keys = {tool.name: derive_seed(of_step, tool.name) for tool in kept}
    last = derive_seed(of_step, NO_TOOL)
    place = sum(key < last for key in keys.values())
    return Options(tuple(sorted(kept, key=lambda tool: keys[tool.name])), place, sought)


_in_order: Once[tuple[ToolSpec, ...], Options] = Once(_ordered)

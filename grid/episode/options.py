"""The options of a decision, and their order.

Retrievers return the best tool first. If options kept this order, always choosing the first option would be a good
policy, and a model's preference for low numbers would look like skill. So the order is random. The order depends on the
sweep's seed, the case and the step, and is the same for all planners, models and trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from grid.core.problem import Candidates, Mode, Problem
from grid.core.types import NO_TOOL, Case, Step, Substep, ToolSpec
from grid.core.util import Once, derive_seed

QUERY = ""
"""The step name used for the tools of the whole query. These tools have one order per case, so that all prompts of the
case share the tools as a prefix."""
SOUGHT = 500
"""Maximum number of characters of a thought, and of an observation, that are used to retrieve tools."""


class Options(NamedTuple):
    """The tools of a decision in the order shown; `place` is the number of tools before `no_tool` or `finish`.

    `sought`: the text that was used to retrieve the tools, in addition to the substep or the query.
    """

    tools: tuple[ToolSpec, ...]
    place: int
    sought: str = ""

    def without(self, *names: str) -> Options:
        """The options, in the same order, except the tools with these names."""
        before, behind = (
            tuple(tool for tool in part if tool.name not in names)
            for part in (self.tools[: self.place], self.tools[self.place :])
        )
        return Options(before + behind, len(before), self.sought)


class Retrieved(NamedTuple):
    """The retrieval of tools for a case, best first.

    `parts` are the substeps whose candidates form the tools of the whole query, at most `of_query` tools; without
    `parts`, tools are retrieved for the query's text. `mode`: when tools are retrieved, and with which text.
    """

    candidates: Candidates
    parts: tuple[Substep, ...]
    of_query: int
    mode: Mode = "static"

    @classmethod
    def of(cls, problem: Problem) -> Retrieved:
        """The retrieval that a problem defines."""
        return cls(problem.candidates, problem.parts, problem.query_tools, problem.retrieved)

    def sought(self, steps: Sequence[Step]) -> str:
        """The additional text for retrieving tools after these steps; empty if only the substep or the query is used.

        In mode `thought`, the text used at the last step is reused until there is a new thought.
        """
        if self.mode == "static":
            return ""
        if self.mode == "thought":
            return steps[-1].sought if steps else ""
        thoughts = (step.thought for step in reversed(steps) if step.thought)
        observations = (step.observation.text() for step in reversed(steps) if step.observation)
        return "\n".join(text[:SOUGHT] for text in (next(thoughts, ""), next(observations, "")) if text)

    def tools(self, case: Case, substep: Substep | None, sought: str = "") -> tuple[ToolSpec, ...]:
        """The tools for a substep; for the whole query (None), all substeps' tools, each substep's best tool first.

        If tools are retrieved more than once, the whole query's tools are retrieved with the query's text, since its
        substeps may be hidden. In mode `thought`, tools are retrieved with the thought alone.
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
    """The first `most` - 1 tools with `no_tool` or `finish`, in random order.

    The relative order of two tools does not depend on the remaining tools. Without a seed, the tools keep their order,
    and `no_tool` or `finish` comes last. Calls with the same tuple of tools (the same object) and equal other arguments
    return the same object.
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

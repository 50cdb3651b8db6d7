"""Inaccurate plans (egb_slate appendix B.4): some substeps that need a tool are worded less precisely.

The paper rewrites "Use file writing tool to create and write content" into "Perform file operation" and "Search for
files matching pattern" into "Find relevant files": the kind of action and the tool's field are kept. The paper rewrote
10.5% of the substeps that call a tool, and did so only once. A changed plan is part of the benchmark, so all trials
have the same changed plan.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import Index, Problem
from grid.core.types import Plan, Substep, ToolSpec
from grid.core.util import STRICT, derive_seed

# Groups of verbs in tool names, each with the broad intent that covers the group.
_INTENTS = (
    (
        "get find fetch look lookup search list show retrieve query view read pull trace track locate scan browse",
        "Find the relevant {area} information",
    ),
    (
        "check verify validate confirm test inspect audit screen assess evaluate examine",
        "Check the {area} side of this",
    ),
    (
        "compute calculate estimate quote forecast measure compare analyze rank score project",
        "Work out the {area} figures",
    ),
    (
        "send notify email message inform announce alert remind dispatch publish post share",
        "Pass on the {area} matter",
    ),
    (
        "create open register add book reserve schedule issue start draft generate set build make",
        "Set up what is needed for {area}",
    ),
    (
        "update change edit modify adjust revise extend move replace rename reschedule switch",
        "Make the {area} change",
    ),
    ("cancel delete remove close stop revoke withdraw release end void", "Undo the {area} arrangement"),
)
_OTHERWISE = "Perform the {area} operation"
_BY_VERB = {verb: text for verbs, text in _INTENTS for verb in verbs.split()}


@dataclass(frozen=True, config=STRICT)
class InaccuratePlan:
    """Rewords a random `share` of the substeps that need a tool (10.5% in the paper).

    The choice depends only on the case: it is the same in every trial, with every seed and every planner. The substeps
    chosen with a smaller `share` are a subset of the substeps chosen with a larger `share`.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    share: Annotated[float, Field(ge=0, le=1)] = 0.105

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem, in which some substeps have broader texts; `seed` is not used."""
        substeps = tuple(self._reworded(substep, problem) for substep in problem.case.plan.substeps)
        return replace(problem, case=replace(problem.case, plan=Plan(substeps)))

    def _reworded(self, substep: Substep, problem: Problem) -> Substep:
        call = problem.reference.calls[substep.id]
        if call is None or derive_seed(0, "inaccurate_plan", problem.case.id, substep.id) / 2**63 >= self.share:
            return substep
        tool = problem.library.get(call.tool)  # an earlier setting may have removed it
        return replace(substep, text=broadened(tool)) if tool else substep


def broadened(tool: ToolSpec) -> str:
    """A broad intent that covers this tool and many others: the kind of action, and the tool's field."""
    area = re.sub(r"\s+", " ", tool.category.replace("&", "and")).strip().lower() or "general"
    meant = {_BY_VERB[word] for word in tool.name.lower().split("_") if word in _BY_VERB}
    # A name with verbs of two kinds (`book_search`) does not identify the action.
    return (meant.pop() if len(meant) == 1 else _OTHERWISE).format(area=area)

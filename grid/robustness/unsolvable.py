"""Cases made unsolvable by tool removal (agent_planning_benchmark §3.1, B.4.3): does a planner refuse them?"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import REFERENCES, Index, Problem, no_baselines
from grid.core.types import REJECT, Case, Step, Substep, TaskKind, ToolSpec, Trajectory
from grid.core.util import STRICT, derive_seed
from grid.episode.planning import chain_of
from grid.robustness.offering import (
    each_step,
    first_turn,
    function_of,
    has_own_kind,
    in_terms,
    needed_calls,
    offered_as,
)
from grid.worlds.layers import REJECT_TOOL, RejectingWorld, RejectState, Wanted

MUST_USE_TOOLS = "Each part of this must come from a tool that is made for it; no part may be estimated or assumed."
"""The sentence added to the query of solvable and unsolvable cases alike. It forbids guessing when a tool is
missing."""
KIND = TaskKind("unsolvable", unsolvable_kind="tool_removal")
_PLACE = 4  # index of REJECT_TOOL: near the front, so it is kept even if few candidates are
_OF_CALLS = (
    "tool_match_rate", "action_accuracy", "retrieval_rate", "exact_match", "inclusion", "inclusion_set", "usage",
    "tool_precision", "tool_recall",
)  # fmt: skip


@dataclass(frozen=True, config=STRICT)
class Unsolvable:
    """Removes, in a `share` of the cases, all tools of one function that the resolution needs.

    The function and the cases are drawn at random. If there are several turns, the function is needed in the first turn
    that needs any tool, so that no work is done before that turn. In every case, solvable or not, the query says that
    no part may be estimated, and REJECT_TOOL is offered at every decision, so that neither of these reveals which cases
    cannot be solved.

    success: if tools were removed, the request must be refused before any call. If no tools were removed, success is
    decided as it would be if this setting were not used, except that a refusal is a failure. A refusal ends the work:
    later calls fail. The column `refused` records whether there was a refusal, and `unsolvable_kind` records the change
    made to the case. If tools were removed, metrics of calls are None, and the finished trajectory is not examined. A
    case whose resolution needs no tool loses no tools; in such a case, a refusal counts as a decision to call no tool.
    A task of agent_planning_benchmark is not changed.

    With an outline, the refusal uses one substep, and no tool may be called at any other substep.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({REFERENCES})

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem, with a refusal offered and, if the case is drawn, without the tools of one function."""
        if has_own_kind(problem):
            return problem
        own, needed = derive_seed(seed, "unsolvable"), needed_calls(problem)
        functions = sorted({function_of(call.tool, problem) for call in first_turn(problem.reference, needed).values()})
        rng = random.Random(own)
        taken = functions and rng.random() < self.share
        gone = rng.choice(functions) if taken else None
        removed = frozenset(name for name in problem.library if gone is not None and function_of(name, problem) == gone)
        wanted: Wanted = "refusal" if removed else "resolution" if functions else "either"
        world = RejectingWorld(problem.world, wanted, removed)
        return replace(
            _stated(problem, removed, _as_before, partial(_measure, world)),
            world=world,
            case=replace(problem.case, query=f"{problem.case.query} {MUST_USE_TOOLS}"),
            library=MappingProxyType(_without(removed, problem.library) | {REJECT: REJECT_TOOL}),
            candidates=offered_as(problem, partial(_offer, removed, _place(problem))),
            query_tools=problem.query_tools + 1,
            own=(*(name for name in problem.own if name not in removed), *([REJECT] if problem.own else [])),
        )


def _stated(problem: Problem, removed: frozenset[str], *terms: Any) -> Problem:
    """The problem, with refusals in its metrics. If tools were removed, the problem is marked as unsolvable."""
    found = in_terms(problem, *terms)
    if not removed:
        return found
    unsolvable = replace(problem.reference, unsolvable=True)
    return replace(found, reference=unsolvable, examine=None, baselines=no_baselines, kind=KIND)


def _without(removed: frozenset[str], library: Mapping[str, ToolSpec]) -> dict[str, ToolSpec]:
    return {name: tool for name, tool in library.items() if name not in removed}


def _place(problem: Problem) -> int:
    """The index of REJECT_TOOL among a substep's candidates.

    The index is near the front, so that the tool is also among the candidates of the whole query.
    """
    parts = len(problem.case.plan.substeps) or 1
    return max(0, min(_PLACE, problem.query_tools // parts - 1))


def _offer(
    removed: frozenset[str], place: int, case: Case, substep: Substep, offered: tuple[ToolSpec, ...]
) -> tuple[ToolSpec, ...]:
    kept = [tool for tool in offered if tool.name not in removed and tool.name != REJECT]
    return (*kept[:place], REJECT_TOOL, *kept[place:])


def _measure(world: RejectingWorld, trajectory: Trajectory) -> Mapping[str, Any]:
    """The column `refused`, and the metrics that differ from those of the undisturbed case.

    If a refusal is wanted, `success` says whether it came before any call, and the metrics of calls are None. If the
    resolution is wanted, `success` is False after a refusal. Predicted chains are also measured.
    """
    chain, own = chain_of(trajectory), dict[str, Any]()
    refused = chain.refusal is not None
    if world.wanted == "refusal":
        right = refused and not chain.calls if trajectory.chain is not None else world.resolved(trajectory.end)
        own = {**dict.fromkeys(_OF_CALLS), "success": right}
    elif refused and world.wanted == "resolution":
        own = {"success": False}
    return {"refused": refused, **own}


def _as_before(trajectory: Trajectory) -> Trajectory:
    """The trajectory, ending in the inner world's state. A refusal becomes a decision to call no tool."""
    found, end = each_step(trajectory, _without_refusal), trajectory.end
    return replace(found, end=end.inner) if isinstance(end, RejectState) else found


def _without_refusal(step: Step) -> Step:
    if step.call is None or step.call.tool != REJECT:
        return step
    return replace(step, call=None, written=None, observation=None)

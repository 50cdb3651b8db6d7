"""A broken tool (agent_planning_benchmark §3.1, §4.2.3): how does a planner react if a needed tool does not work?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import REFERENCES, Index, Problem
from grid.core.types import (
    ALTER,
    FINISH,
    OTHER,
    REFUSE,
    REJECT,
    REPLACE,
    RETRY,
    Observation,
    Step,
    ToolCall,
    Trajectory,
)
from grid.core.util import STRICT, derive_seed
from grid.core.world import State, World, resolved_by
from grid.robustness.offering import (
    Double,
    beside,
    double,
    each_step,
    function_of,
    has_own_kind,
    in_terms,
    needed_calls,
    with_call,
    with_chain_calls,
)
from grid.worlds.layers import Layer
from grid.worlds.schema import ERROR


@dataclass(frozen=True, config=STRICT)
class BrokenTool:
    """One tool that the resolution needs is out of service: it answers every call with an error.

    The tool is drawn from the tools of the reference. A replacement has the same function, but a different name and
    different argument names (`grid.robustness.offering`). From the first decision on, the replacement is offered
    wherever the broken tool is offered. Before one of the two tools is called, nothing shows which of them works. The
    conditions for resolving the case do not change. The column `behaviour` records the planner's reaction to the first
    failure (`behaviour_of`).

    With an outline, the failing call uses up its substep. A planner that goes through the substeps once cannot recover
    within the failed substep; it can only choose better at later substeps that need the same tool. Planners that make
    several attempts (by search, reflection or retries) can recover. Without an outline, every planner can continue with
    the replacement, with two exceptions: a plan that is run without looking at results (`zero_shot`), and a case with a
    single decision. A case whose resolution needs no tool is not changed, nor is a task of agent_planning_benchmark.
    """

    needs: ClassVar[frozenset[str]] = frozenset({REFERENCES})

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem, with one tool out of service and its replacement offered."""
        tools = sorted({call.tool for call in needed_calls(problem).values() if call.tool in problem.library})
        if not tools or has_own_kind(problem):
            return problem
        own = derive_seed(seed, "broken_tool")
        tool = problem.library[random.Random(own).choice(tools)]
        other, function = double(tool, problem.library, own), function_of(tool.name, problem)
        alike = frozenset(name for name in problem.library if function_of(name, problem) == function)
        world, reference = BrokenWorld(problem.world, other), problem.reference
        restated = in_terms(problem, partial(_as_before, other), partial(_measure, world, alike))
        return replace(
            beside(restated, {tool.name: [other.spec]}, own),
            world=world,
            reference=replace(reference, substitutes={**reference.substitutes, tool.name: other.substitute}),
            same_function={**problem.same_function, other.spec.name: function},
        )


@plain_dataclass(frozen=True)
class BrokenWorld(Layer):
    """A world in which one tool always fails and its double does the tool's work."""

    double: Double

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call. Calls to the broken tool fail; its double does what the tool would do if it worked."""
        if call.tool == self.double.tool:
            return state, Observation({ERROR: f"{call.tool} is out of service."}, failed=True)
        if call.tool != self.double.spec.name:
            return await self.inner.apply(state, call)
        return await run_double(self.inner, self.double, state, call)


async def run_double(world: World, double: Double, state: State, call: ToolCall) -> tuple[State, Observation]:
    """The outcome of a call to a tool's double. The world supports only the original tool."""
    strange = double.strange(call)
    if strange is not None:
        return state, double.refused(strange)
    after, observation = await world.apply(state, double.original(call))
    return after, double.told(observation)


def behaviour_of(trajectory: Trajectory, broken: str, replacement: str, alike: Set[str], resolved: bool) -> str | None:
    """The kind of decision that followed the broken tool's first failure; None if the tool was never called.

    replace: a call to the replacement. retry: another call to the broken tool. refuse: a rejection of the request,
    giving up, or a finish although the case is not resolved. alter: a call to a third tool with the same function, or
    to any other tool if the case was then resolved without the replacement. other: everything else, including a step
    without a tool, an answer that cannot be read, and the end of the work. Decisions on all branches are considered, in
    the order in which they were taken.
    """
    decisions = trajectory.decisions or trajectory.steps
    place = next((place for place, step in enumerate(decisions) if _called(step) == broken), None)
    if place is None:
        return None
    behind = decisions[place + 1 : place + 2]
    if not behind or behind[0].malformed:
        return OTHER
    tool = _called(behind[0])
    if tool is None or tool in (REJECT, FINISH):
        ended = behind[0].finished or not behind[0].substep.text or tool is not None
        return REFUSE if ended and not resolved else OTHER
    if tool in (replacement, broken):
        return REPLACE if tool == replacement else RETRY
    otherwise = resolved and all(_called(step) != replacement for step in trajectory.steps)
    return ALTER if tool in alike or otherwise else OTHER


def _called(step: Step) -> str | None:
    return step.call.tool if step.call else None


def _measure(world: BrokenWorld, alike: Set[str], trajectory: Trajectory) -> Mapping[str, Any]:
    """The column `behaviour`."""
    names = world.double.tool, world.double.spec.name
    called = any(_called(step) == names[0] for step in (*trajectory.steps, *trajectory.decisions))
    if not called:
        return {"behaviour": None}
    return {"behaviour": behaviour_of(trajectory, *names, alike, resolved_by(world, trajectory.steps, trajectory.end))}


def _as_before(double: Double, trajectory: Trajectory) -> Trajectory:
    """The trajectory, with calls to the replacement turned into calls to the broken tool."""

    def original(call: ToolCall) -> ToolCall:
        return double.original(call) if call.tool == double.spec.name else call

    return with_chain_calls(each_step(trajectory, lambda step: with_call(step, original)), original)

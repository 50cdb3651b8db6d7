"""A broken tool (agent_planning_benchmark §3.1, §4.2.3): what does a planner do when a tool it needs stops working?"""

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

    The tool is drawn from those of the reference. A replacement with the same function, but with other names for itself
    and its arguments (`grid.robustness.offering`), is offered wherever the broken tool is, from the first decision on.
    Nothing shows which of the two works before one is called. The case is resolved as ever; `behaviour` says what
    followed the first failure (`behaviour_of`).

    Under an outline the failing call uses up its substep, which is not decided again: a planner of one pass cannot
    recover there; it can only do better at later substeps that need the same tool. Planners that try again can recover:
    searches, reflection, retries. Without an outline any planner can go on with the replacement, except with a plan
    that is run without looking at results (`zero_shot`), and in a case of a single decision. A case whose resolution
    needs no tool stays as it is, and so does a case that is itself a task of agent_planning_benchmark.
    """

    needs: ClassVar[frozenset[str]] = frozenset({REFERENCES})

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with one tool out of service, and its replacement."""
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
    """A world in which one tool fails with any arguments, and its double does what the tool did."""

    double: Double

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """An error for the broken tool; a call of the double is run as a call of the broken tool would have been."""
        if call.tool == self.double.tool:
            return state, Observation({ERROR: f"{call.tool} is out of service."}, failed=True)
        if call.tool != self.double.spec.name:
            return await self.inner.apply(state, call)
        return await run_double(self.inner, self.double, state, call)


async def run_double(world: World, double: Double, state: State, call: ToolCall) -> tuple[State, Observation]:
    """The outcome of a call of a tool's double, in a world that knows the tool."""
    strange = double.strange(call)
    if strange is not None:
        return state, double.refused(strange)
    after, observation = await world.apply(state, double.original(call))
    return after, double.told(observation)


def behaviour_of(trajectory: Trajectory, broken: str, replacement: str, alike: Set[str], resolved: bool) -> str | None:
    """What the decision after the first failure of the broken tool did; None if the tool was never called.

    replace: it called the replacement. retry: it called the broken tool again. refuse: it rejected the request, gave
    up, or finished a case that is not resolved. alter: it called another tool that does the same, or any other tool if
    the case was then resolved without the replacement. other: everything else, including a step without a tool, an
    answer that cannot be read, and the end of the work. Decisions are read in their order, on any branch.
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
    """The trajectory with the broken tool's name in place of the replacement's."""

    def original(call: ToolCall) -> ToolCall:
        return double.original(call) if call.tool == double.spec.name else call

    return with_chain_calls(each_step(trajectory, lambda step: with_call(step, original)), original)

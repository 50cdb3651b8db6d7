"""Tools that cost something (agent_planning_benchmark §3.1, B.4.4): is a plan the cheapest that does it?"""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import REFERENCES, Index, Problem, Reference
from grid.core.types import REJECT, Case, Observation, Parameter, Substep, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT, derive_seed
from grid.core.world import State
from grid.episode.planning import chain_of
from grid.robustness.broken_tool import run_double
from grid.robustness.composites import Composite, composites, expanded, least_cost
from grid.robustness.naming import Double, double, words
from grid.robustness.offering import (
    beside,
    each_step,
    function_of,
    has_own_kind,
    in_terms,
    needed_calls,
    offered_as,
    with_call,
    with_chain_calls,
)
from grid.worlds.layers import Layer

NOTE = (
    "Each tool's description ends with what a call of it costs, failed or not. What is wanted is the least total cost."
)
"""What the planner is told."""
_BASE = (1, 5)
_EXTRA = (2, 4)
_TRAPS = (2, 4)
_MOST_WORDS = 4  # of a tool's name in that of the one that takes note of it
_NOTED = (Parameter("what", "string", "what was called, and with what"),)


@dataclass(frozen=True, config=STRICT)
class Costs:
    """Every tool has a cost, 1 to 5, drawn; descriptions tell it, and a note asks for the least total cost.

    Two kinds of tools are added. Composites do two or three consecutive calls of the reference in one, for less than
    these cost together (`grid.robustness.composites`). Two to four traps, by turns: an overpriced tool that does what a
    needed one does; a redundant one that only notes that such a call was made; a near neighbour off the target, of no
    function of the reference. No tool does all of a case.

    `plan_cost` is the sum over the calls of the path that is returned, failed ones among them; `least_cost` the least
    for the calls that the resolution takes, each made once, by the cheapest tool of its function or in a composite. It
    is exact for the reference's way: where a world takes other ways too, a plan may cost less. None where the case
    cannot be solved. success is as ever: costs decide nothing.

    Stands last in a list of settings, so that what the others add has a cost as well. A task of
    agent_planning_benchmark stays as it is.
    """

    needs: ClassVar[frozenset[str]] = frozenset({REFERENCES})

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with costs, composites and traps."""
        if has_own_kind(problem):
            return problem
        own, calls = derive_seed(seed, "costs"), needed_calls(problem)
        calls = {step: call for step, call in calls.items() if call.tool in problem.library}
        costs = {name: _drawn(name, own) for name in problem.library if name != REJECT}
        each = {step: _cheapest(call.tool, problem, costs) for step, call in calls.items()}
        made = composites(problem, calls, each, own)
        traps = _traps(problem, index, calls, costs, own)
        more: tuple[Composite | Trap, ...] = (*made, *traps)
        added = {one.spec.name: one.cost for one in more}
        least = None if problem.reference.unsolvable else float(least_cost(each, made))
        doubles = tuple(trap.double for trap in traps if trap.double)
        world = PricedWorld(problem.world, made, doubles, frozenset(trap.spec.name for trap in traps if trap.redundant))
        new: dict[str, list[ToolSpec]] = {}
        for one in more:
            for anchor in one.anchors:
                new.setdefault(anchor, []).append(one.spec)
        terms = partial(_as_before, made, doubles, problem.reference)
        measured = in_terms(problem, terms, partial(_measure, costs | added, least))
        return _told(replace(beside(measured, new, own), world=world), costs | added)


@plain_dataclass(frozen=True)
class Trap:
    """A tool that costs more than it is worth; a `double` does what its tool does, a `redundant` one nothing."""

    spec: ToolSpec
    anchors: tuple[str, ...]
    cost: int
    double: Double | None = None
    redundant: bool = False


@plain_dataclass(frozen=True)
class PricedWorld(Layer):
    """A world in which composites run their parts, doubles do what their tools do, and redundant tools nothing."""

    composites: tuple[Composite, ...]
    doubles: tuple[Double, ...]
    redundant: frozenset[str]

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """What the added tools do; a composite that fails leaves the state as it was where the world branches."""
        if call.tool in self.redundant:
            return state, Observation({"status": "taken note of"})
        for other in self.doubles:
            if call.tool == other.spec.name:
                return await run_double(self.inner, other, state, call)
        for composite in self.composites:
            if call.tool == composite.spec.name:
                after, observation = await composite.run(self.inner, state, call)
                return (state if observation.failed and self.branches else after), observation
        return await self.inner.apply(state, call)


def _drawn(name: str, seed: int) -> int:
    return random.Random(derive_seed(seed, "cost", name)).randint(*_BASE)


def _cheapest(tool: str, problem: Problem, costs: Mapping[str, int]) -> int:
    """What the cheapest tool of a tool's function costs that is not out of service."""
    function, broken = function_of(tool, problem), problem.reference.substitutes
    alike = [name for name in costs if function_of(name, problem) == function and name not in broken]
    return min((costs[name] for name in alike), default=costs[tool])


def _traps(
    problem: Problem, index: Index, calls: Mapping[str, ToolCall], costs: Mapping[str, int], seed: int
) -> tuple[Trap, ...]:
    """Two to four traps around tools that are needed; none where no tool is."""
    rng = random.Random(derive_seed(seed, "traps"))
    tools = sorted({call.tool for call in calls.values()})
    useful = {function_of(call.tool, problem) for call in problem.reference.calls.values() if call}
    found: dict[str, Trap] = {}
    for place in range(rng.randint(*_TRAPS) if tools else 0):
        tool = problem.library[rng.choice(tools)]
        taken = problem.library.keys() | found.keys()
        if place % 3 == 0:
            other = double(tool, taken, derive_seed(seed, "overpriced", place))
            trap = Trap(other.spec, (tool.name,), costs[tool.name] + rng.randint(*_EXTRA), double=other)
        elif place % 3 == 1:
            trap = Trap(_note_taker(tool, taken), (tool.name,), rng.randint(*_BASE), redundant=True)
        else:
            near = (
                one
                for one in index.nearest(f"{tool.name} {tool.description}")
                if one.name in problem.library and function_of(one.name, problem) not in useful
            )
            neighbour = next(near, None)
            if neighbour is None:
                continue
            trap = Trap(problem.library[neighbour.name], (tool.name,), costs[neighbour.name])
        found[trap.spec.name] = trap
    return tuple(found.values())


def _note_taker(tool: ToolSpec, taken: Container[str]) -> ToolSpec:
    """A tool that does nothing for the request."""
    stem = "_".join(("note", *words(tool.name)[:_MOST_WORDS], "call"))
    name = next(name for name in (stem, *(f"{stem}_{n}" for n in range(2, 1000))) if name not in taken)
    description = f"Takes note that {tool.name} was called and with what; returns nothing of its own."
    return ToolSpec(name, description, _NOTED, ("status",), tool.category)


def _told(problem: Problem, costs: Mapping[str, int]) -> Problem:
    """The problem whose tools' descriptions tell their costs."""
    library = MappingProxyType(
        {
            name: replace(tool, description=f"{tool.description} Cost: {costs[name]}.".strip())
            if name in costs
            else tool
            for name, tool in problem.library.items()
        }
    )

    def offer(case: Case, substep: Substep, offered: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return tuple(library.get(tool.name, tool) for tool in offered)

    case = replace(problem.case, notes=(*problem.case.notes, NOTE))
    return replace(problem, library=library, candidates=offered_as(problem, offer), case=case)


def _measure(costs: Mapping[str, int], least: float | None, trajectory: Trajectory) -> Mapping[str, Any]:
    """Columns plan_cost and least_cost."""
    total = sum(costs.get(call.name, 0) for call in chain_of(trajectory).calls)
    return {"plan_cost": float(total), "least_cost": least}


def _as_before(
    made: Sequence[Composite], doubles: Sequence[Double], reference: Reference, trajectory: Trajectory
) -> Trajectory:
    """The trajectory with what doubles are doubles of, and on its path the calls that composites made."""
    originals = {double.spec.name: double.original for double in doubles}

    def original(call: ToolCall) -> ToolCall:
        return originals.get(call.tool, lambda same: same)(call)

    found = with_chain_calls(each_step(trajectory, lambda step: with_call(step, original)), original)
    return replace(found, steps=expanded(made, reference, found.steps))

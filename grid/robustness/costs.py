"""Tools with costs, and composite tools (agent_planning_benchmark §3.1, B.4.4, B.5): is a plan the cheapest one?"""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from grid.core.problem import REFERENCES, Index, Problem, Reference
from grid.core.types import (
    REJECT,
    Case,
    Json,
    Observation,
    Parameter,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import STRICT, derive_seed
from grid.core.world import State, World
from grid.episode.planning import chain_of
from grid.robustness.broken_tool import run_double
from grid.robustness.offering import (
    Double,
    beside,
    double,
    each_step,
    function_of,
    has_own_kind,
    in_terms,
    needed_calls,
    offered_as,
    with_call,
    with_chain_calls,
    words,
)
from grid.text import references
from grid.worlds.layers import Layer
from grid.worlds.schema import ERROR

# Composite tools, which combine two or three consecutive calls of a reference, and the minimum cost with such tools.


_SIZES = (2, 3)
_MOST = 6
"""Maximum number of composites in a case (agent_planning_benchmark B.4.4)."""


@plain_dataclass(frozen=True)
class Part:
    """One call that a composite makes.

    Its arguments come from the composite's arguments and from earlier parts' results. `given` maps argument names of
    the part's tool to argument names of the composite. `taken` maps argument names to the index of an earlier part and
    a field of that part's result.
    """

    tool: str
    given: Mapping[str, str]
    taken: Mapping[str, tuple[int, str]]


@plain_dataclass(frozen=True)
class Composite:
    """A tool that runs its parts in their order.

    `groups` lists the groups of reference steps that one call to the tool can replace. If `linked`, every part except
    the first uses an earlier part's result, and the tool returns the last part's result. Otherwise the tool returns the
    results of all parts, keyed by the parts' numbers from 1.
    """

    spec: ToolSpec
    parts: tuple[Part, ...]
    groups: tuple[tuple[str, ...], ...]
    cost: int
    linked: bool

    @property
    def anchors(self) -> tuple[str, ...]:
        """The tools next to which the composite is offered."""
        return tuple(dict.fromkeys(part.tool for part in self.parts))

    async def run(self, world: World, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call in a world that supports the parts' tools. The call fails as soon as a part fails."""
        known = {parameter.name for parameter in self.spec.parameters}
        strange = [name for name in call.arguments if name not in known]
        if strange:
            return state, _failed(f"{self.spec.name} has no argument {strange[0]:.80}")
        outputs: list[Mapping[str, Json]] = []
        for part in self.parts:
            arguments = {name: call.arguments[own] for name, own in part.given.items() if own in call.arguments}
            for name, (place, field) in part.taken.items():
                if field not in outputs[place]:
                    return state, _failed(f"{self.parts[place].tool} returned no {field} for {part.tool}")
                arguments[name] = outputs[place][field]
            state, observation = await world.apply(state, ToolCall(part.tool, arguments))
            if observation.failed:
                return state, _failed(f"{part.tool} failed: {observation.text()}")
            outputs.append(observation.content)
        if self.linked:
            return state, observation
        return state, Observation({str(place): dict(output) for place, output in enumerate(outputs, 1)})

    def call(self, calls: Sequence[ToolCall]) -> ToolCall:
        """The call to the composite that replaces these calls to its parts' tools."""
        pairs = ((own, one.arguments[name]) for part, one in zip(self.parts, calls, strict=True)
                 for name, own in part.given.items() if name in one.arguments)  # fmt: skip
        return ToolCall(self.spec.name, dict(pairs))

    def calls(self, call: ToolCall, group: Sequence[str]) -> list[ToolCall]:
        """The calls to the parts' tools that a call to the composite makes.

        In these calls, references to earlier results name the steps in `group`.
        """
        return [
            ToolCall(
                part.tool,
                {name: call.arguments[own] for name, own in part.given.items() if own in call.arguments}
                | {name: references.reference(group[place], field) for name, (place, field) in part.taken.items()},
            )
            for part in self.parts
        ]


def composites(
    problem: Problem, calls: Mapping[str, ToolCall], costs: Mapping[str, int], seed: int
) -> tuple[Composite, ...]:
    """Up to six composites of a problem.

    `calls` are the needed calls, and `costs` has the cost of each; no composite replaces all of them. A composite joins
    a group of calls in which each call except the first uses the result of an earlier call of the group. No call
    outside the group may use the intermediate results. If the reference has no such group, and no answer is derived
    from results, a composite joins calls that are merely consecutive. A composite costs less than all its parts
    together, but at least as much as its parts without the cheapest part, so that using overlapping composites never
    pays off.
    """
    rng = random.Random(derive_seed(seed, "composites"))
    groups = _groups(problem.reference, calls)
    linked = {group: parts for group in groups if (parts := _linked(problem, calls, group))}
    loose = {} if linked or problem.case.answered else {g: p for g in groups if (p := _loose(problem, calls, g))}
    by_parts: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for group, parts in (linked or loose).items():
        by_parts.setdefault(tuple(map(_form, parts)), []).append(group)
    chosen = rng.sample(sorted(by_parts.values()), min(len(by_parts), _MOST))
    found: dict[str, Composite] = {}
    for same in chosen:
        parts = (linked or loose)[same[0]]
        spec = _spec(problem, parts, bool(linked))
        if spec.name not in problem.library and spec.name not in found:
            # One composite may stand for several groups of calls; the calls of these groups cost the same.
            each = [costs[step] for step in same[0]]
            cost = sum(each) - rng.randint(1, min(each))
            found[spec.name] = Composite(spec, parts, tuple(same), cost, bool(linked))
    return tuple(found.values())


def least_cost(costs: Mapping[str, int], made: Sequence[Composite]) -> int:
    """The minimum total cost of all steps, if each step is done once, alone or in a composite.

    `costs` contains the cost of each step, in the order of the steps. The result is exact, because composites join
    consecutive steps, so that the best way to do the remaining steps never depends on how the earlier steps were done.
    """
    steps = list(costs)
    best = [0] * (len(steps) + 1)
    for place in reversed(range(len(steps))):
        joined = [
            one.cost + best[place + len(group)]
            for one in made
            for group in one.groups
            if tuple(steps[place : place + len(group)]) == group
        ]
        best[place] = min([costs[steps[place]] + best[place + 1], *joined])
    return best[0]


def expanded(made: Sequence[Composite], reference: Reference, path: Sequence[Step]) -> tuple[Step, ...]:
    """The path, with each call to a composite expanded to one step for each of its parts.

    If an outline is followed, the step of a part belongs to the substep of the reference call that the part replaces,
    provided that the path calls no tool at this substep. A call to a composite that failed becomes a single step, with
    the call to the first part's tool.
    """
    by_name = {one.spec.name: one for one in made}
    own, found = {step.substep.id: step for step in path}, list[Step]()
    filled: dict[str, Step] = {}
    for step in path:
        composite = by_name.get(step.call.tool) if step.call else None
        if composite is None or step.call is None:
            found.append(step)
            continue
        group = next((group for group in composite.groups if step.substep.id in group), composite.groups[0])
        calls = composite.calls(step.call, group)
        if step.observation and step.observation.failed:
            found.append(replace(step, call=calls[0], written=calls[0]))
            continue
        here = group.index(step.substep.id) if step.substep.id in group else 0
        for place, call in enumerate(calls):
            other = own.get(group[place]) if reference.followed and place != here else None
            last = place == len(calls) - 1
            part = replace(step, call=call, written=call, observation=step.observation if last else Observation({}))
            if other is not None and other.call is None and not other.malformed:
                filled[group[place]] = replace(part, substep=other.substep)
            elif place == here:
                found.append(part)
            else:
                found.append(replace(part, substep=replace(step.substep, id=f"{step.substep.id}+{place}")))
    return tuple(filled.get(step.substep.id, step) if step.call is None else step for step in found)


def _groups(reference: Reference, calls: Mapping[str, ToolCall]) -> list[tuple[str, ...]]:
    """The groups of two or three consecutive calls within one turn.

    No group contains all calls, a call that is right although it fails, or a call to a tool that is out of service.
    """
    runs: list[list[str]] = [[]]
    for step, call in reference.calls.items():
        if step in calls and step not in reference.failing and call and call.tool not in reference.substitutes:
            runs[-1].append(step)
        elif call is not None or not reference.followed:
            runs.append([])
    return [
        tuple(run[place : place + size])
        for run in runs
        for size in _SIZES
        for place in range(len(run) - size + 1)
        if size < len(calls)
    ]


def _linked(problem: Problem, calls: Mapping[str, ToolCall], group: Sequence[str]) -> tuple[Part, ...] | None:
    """The parts for a group whose calls use each other's results.

    None if the calls are not linked in this way, or if a result other than the last call's is needed outside the group.
    """
    inside, between = set(group), set(group[:-1])
    outside = [call for step, call in problem.reference.calls.items() if call and step not in inside]
    if any(producer in between for call in outside for producer, _ in references.found_in(call)):
        return None
    if problem.case.answered and between & set(problem.reference.resolution):
        return None
    taken: list[dict[str, tuple[int, str]]] = []
    for place, step in enumerate(group):
        here = dict[str, tuple[int, str]]()
        for name, value in calls[step].arguments.items():
            found = [pair for pair in references.found_in(ToolCall("", {name: value})) if pair[0] in inside]
            whole = references.PATTERN.fullmatch(value) if isinstance(value, str) else None
            if found and not whole:
                return None
            if found:
                here[name] = group.index(found[0][0]), found[0][1]
        if place and not any(producer < place for producer, _ in here.values()):
            return None
        if any(producer >= place for producer, _ in here.values()):
            return None
        taken.append(here)
    return _parts(problem, calls, group, taken)


def _loose(problem: Problem, calls: Mapping[str, ToolCall], group: Sequence[str]) -> tuple[Part, ...] | None:
    """The parts for a group of calls; None if the result of any of these calls is used by a call of the reference."""
    used = {pair[0] for call in problem.reference.calls.values() if call for pair in references.found_in(call)}
    return None if used & set(group) else _parts(problem, calls, group, [{} for _ in group])


def _parts(
    problem: Problem,
    calls: Mapping[str, ToolCall],
    group: Sequence[str],
    taken: Sequence[Mapping[str, tuple[int, str]]],
) -> tuple[Part, ...]:
    names, found = set[str](), list[Part]()
    for step, here in zip(group, taken, strict=True):
        tool, given = problem.library[calls[step].tool], dict[str, str]()
        declared = [one.name for one in tool.parameters]
        for name in dict.fromkeys((*declared, *calls[step].arguments)):
            if name not in here:
                own = next(one for one in _own_names(name, tool.name) if one not in names)
                names.add(own)
                given[name] = own
        found.append(Part(tool.name, given, here))
    return tuple(found)


def _own_names(name: str, tool: str) -> Iterator[str]:
    """Possible names for an argument: its own name, then alternatives in case another part uses the same name."""
    yield name
    yield f"{name}_of_{'_'.join(words(tool)[:_MOST_WORDS]) or 'part'}"
    place = 2
    while True:
        yield f"{name}_{place}"
        place += 1


def _spec(problem: Problem, parts: Sequence[Part], linked: bool) -> ToolSpec:
    tools = [problem.library[part.tool] for part in parts]
    name = "_then_".join("_".join(words(tool.name)[:_MOST_WORDS]) or "call" for tool in tools)
    does = " ".join(f"{place}. {tool.name}: {tool.description}" for place, tool in enumerate(tools, 1))
    handed = "Each takes what it needs of the ones before; the result is the last one's." if linked else "All results."
    parameters: list[Parameter] = []
    for part, tool in zip(parts, tools, strict=True):
        declared = {one.name: one for one in tool.parameters}
        for name_of, own in part.given.items():
            known = declared.get(name_of, Parameter(name_of, "string", "", required=False))
            parameters.append(replace(known, name=own))
    returns = tools[-1].returns if linked else tuple(str(place) for place in range(1, len(parts) + 1))
    description = f"Does in one call, one after another: {does} {handed}"
    return ToolSpec(name, description, tuple(parameters), returns, tools[0].category)


def _form(part: Part) -> str:
    return to_json([part.tool, dict(part.given), {name: list(pair) for name, pair in part.taken.items()}])


def _failed(why: str) -> Observation:
    return Observation({ERROR: f"{why}."}, failed=True)


# Tools that cost something (agent_planning_benchmark §3.1, B.4.4): is a plan the cheapest one that reaches the goal?


NOTE = (
    "Each tool's description ends with what a call of it costs, failed or not. What is wanted is the least total cost."
)
"""The note that is shown to the planner."""
_BASE = (1, 5)
_EXTRA = (2, 4)
_TRAPS = (2, 4)
_MOST_WORDS = 4  # maximum number of words of a tool's name in a derived tool's name
_NOTED = (Parameter("what", "string", "what was called, and with what"),)


@dataclass(frozen=True, config=STRICT)
class Costs:
    """Gives every tool a random cost from 1 to 5, which its description states; a note asks for the lowest total cost.

    Two kinds of tools are added. A composite replaces two or three consecutive calls of the reference by one call, and
    costs less than these calls together (`composites`). Two to four traps are offered, of three sorts in
    turn: an overpriced tool that does the same as a needed tool; a redundant tool that only notes that a needed tool
    was called; and a tool that resembles a needed tool but does not help, because no reference tool has its function.
    No tool solves a whole case. REJECT has no cost.

    `plan_cost` is the total cost of the calls in the predicted chain or, if calls are run, of the calls on the returned
    path, including failed calls. `least_cost` is the minimum total cost of the calls that the resolution needs, where
    each call is made once, by the cheapest tool with its function or in a composite. `least_cost` is None if the case
    cannot be solved. `least_cost` is exact for the reference's solution. If a world accepts other solutions too, a plan
    may cost less than that. Costs do not influence success.

    In a list of settings, put this setting last, so that tools added by other settings get a cost as well. A task of
    agent_planning_benchmark is not changed.
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
    """A tool that costs more than it is worth.

    A trap with a `double` does the same as an existing tool; a `redundant` trap does nothing.
    """

    spec: ToolSpec
    anchors: tuple[str, ...]
    cost: int
    double: Double | None = None
    redundant: bool = False


@plain_dataclass(frozen=True)
class PricedWorld(Layer):
    """A world in which composites run their parts, doubles act like their tools, and redundant tools do nothing."""

    composites: tuple[Composite, ...]
    doubles: tuple[Double, ...]
    redundant: frozenset[str]

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call. If the world supports branching, a composite that fails leaves the state unchanged."""
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
    """The cost of the cheapest tool with the same function as `tool`, ignoring tools that are out of service."""
    function, broken = function_of(tool, problem), problem.reference.substitutes
    alike = [name for name in costs if function_of(name, problem) == function and name not in broken]
    return min((costs[name] for name in alike), default=costs[tool])


def _traps(
    problem: Problem, index: Index, calls: Mapping[str, ToolCall], costs: Mapping[str, int], seed: int
) -> tuple[Trap, ...]:
    """Two to four traps next to needed tools; fewer if nothing resembles a needed tool, none if none is needed."""
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
    """The redundant counterpart of a tool, which only notes that the tool was called."""
    stem = "_".join(("note", *words(tool.name)[:_MOST_WORDS], "call"))
    name = next(name for name in (stem, *(f"{stem}_{n}" for n in range(2, 1000))) if name not in taken)
    description = f"Takes note that {tool.name} was called and with what; returns nothing of its own."
    return ToolSpec(name, description, _NOTED, ("status",), tool.category)


def _told(problem: Problem, costs: Mapping[str, int]) -> Problem:
    """The problem with each tool's cost in its description."""
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
    """The trajectory, with doubles replaced by the original tools.

    On its path, composites are replaced by the calls that they made.
    """
    originals = {double.spec.name: double.original for double in doubles}

    def original(call: ToolCall) -> ToolCall:
        return originals.get(call.tool, lambda same: same)(call)

    found = with_chain_calls(each_step(trajectory, lambda step: with_call(step, original)), original)
    return replace(found, steps=expanded(made, reference, found.steps))

"""Tools that cost something, composites too (agent_planning_benchmark §3.1, B.4.4, B.5): is a plan the cheapest?"""

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

# Tools that do two or three consecutive calls of a reference in one, and the least that its calls cost with them.


_SIZES = (2, 3)
_MOST = 6
"""Composites of a case (agent_planning_benchmark B.4.4)."""


@plain_dataclass(frozen=True)
class Part:
    """One call of a composite: which of the composite's arguments are which of its own, and what earlier parts give.

    `given` maps its argument names to the composite's, `taken` its argument names to (place of the part, field).
    """

    tool: str
    given: Mapping[str, str]
    taken: Mapping[str, tuple[int, str]]


@plain_dataclass(frozen=True)
class Composite:
    """A tool that runs its parts in their order. `groups` are the steps of the reference that one call of it does.

    `linked`: every part but the first takes an earlier one's result, and the result is the last part's; else it is all
    of theirs, by their places from 1.
    """

    spec: ToolSpec
    parts: tuple[Part, ...]
    groups: tuple[tuple[str, ...], ...]
    cost: int
    linked: bool

    @property
    def anchors(self) -> tuple[str, ...]:
        """The tools that it is offered beside."""
        return tuple(dict.fromkeys(part.tool for part in self.parts))

    async def run(self, world: World, state: State, call: ToolCall) -> tuple[State, Observation]:
        """What a call does in a world that knows the parts; it fails with the first part that does."""
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
        """One call of it that makes these calls of its parts' tools."""
        pairs = ((own, one.arguments[name]) for part, one in zip(self.parts, calls, strict=True)
                 for name, own in part.given.items() if name in one.arguments)  # fmt: skip
        return ToolCall(self.spec.name, dict(pairs))

    def calls(self, call: ToolCall, group: Sequence[str]) -> list[ToolCall]:
        """The calls of its parts' tools that one call of it makes; what parts take is told by references to `group`."""
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
    """Up to six composites of a problem, none of which does all of `calls` (the needed ones that have a cost each).

    They join calls of which each takes a result of one before, where nothing else takes what comes in between. Where a
    reference has no such calls, and no answer is taken from results, they join calls that merely follow each other. A
    composite costs less than its parts, and no less than they do without the cheapest of them: overlapping ones never
    pay.
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
            # One form may stand for several groups, whose calls cost the same.
            each = [costs[step] for step in same[0]]
            cost = sum(each) - rng.randint(1, min(each))
            found[spec.name] = Composite(spec, parts, tuple(same), cost, bool(linked))
    return tuple(found.values())


def least_cost(costs: Mapping[str, int], made: Sequence[Composite]) -> int:
    """The least that all steps cost (by step, in their order), each done once, by itself or in a composite.

    Exact: composites are of consecutive steps, so that the best of the rest never depends on what was done before.
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
    """A path with a step for each call that a composite made.

    Where an outline is followed a part has the substep of its own call, if the path calls nothing there.
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
    """Two or three consecutive calls of one turn, not all that there are; none that fails by right."""
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
    """The parts of a group whose calls take each other's results; None where they do not, or others take them too."""
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
    """The parts of a group of calls whose results no call takes; None where one does."""
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
    """An argument's name and, where another part has it too, others."""
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


# Tools that cost something (agent_planning_benchmark §3.1, B.4.4): is a plan the cheapest that does it?


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
    these cost together (`grid.robustness.costs`). Two to four traps, by turns: an overpriced tool that does what a
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

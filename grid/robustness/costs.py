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

# Tools that do two or three consecutive calls of a reference in one, and the least cost of its calls with such tools.


_SIZES = (2, 3)
_MOST = 6
"""The most composites of a case (agent_planning_benchmark B.4.4)."""


@plain_dataclass(frozen=True)
class Part:
    """One call of a composite, and the sources of its arguments: the composite's arguments, and earlier parts' results.

    `given` maps its argument names to the composite's, and `taken` maps them to (place of the earlier part, field).
    """

    tool: str
    given: Mapping[str, str]
    taken: Mapping[str, tuple[int, str]]


@plain_dataclass(frozen=True)
class Composite:
    """A tool that runs its parts in their order. Each of `groups` is the reference steps that one call of it can do.

    `linked`: every part but the first takes an earlier part's result, and the tool's result is the last part's.
    Otherwise the tool's result has the results of all parts, by their places from 1.
    """

    spec: ToolSpec
    parts: tuple[Part, ...]
    groups: tuple[tuple[str, ...], ...]
    cost: int
    linked: bool

    @property
    def anchors(self) -> tuple[str, ...]:
        """The tools beside which it is offered."""
        return tuple(dict.fromkeys(part.tool for part in self.parts))

    async def run(self, world: World, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call in a world that knows the parts; it fails with the first part that fails."""
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
        """The one call of the composite that makes these calls of its parts' tools."""
        pairs = ((own, one.arguments[name]) for part, one in zip(self.parts, calls, strict=True)
                 for name, own in part.given.items() if name in one.arguments)  # fmt: skip
        return ToolCall(self.spec.name, dict(pairs))

    def calls(self, call: ToolCall, group: Sequence[str]) -> list[ToolCall]:
        """The calls of its parts' tools that one call of it makes; parts take results by references to `group`."""
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
    """Up to six composites of a problem, none of which does all of `calls` (the needed calls, which all have a cost).

    They join calls each of which takes a result of an earlier one, if no other call takes the results in between. If a
    reference has no such calls, and no answer is taken from results, they join calls that merely follow each other. A
    composite costs less than its parts together, and no less than they do without the cheapest of them, so that
    overlapping composites never pay.
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
    """The least total cost of all steps (by step, in their order), each done once, by itself or in a composite.

    Exact: composites join consecutive steps, so that the best for the rest never depends on what was done before.
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

    If an outline is followed, a part has the substep of its own call, provided that the path calls nothing there.
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
    """Two or three consecutive calls of one turn, but never all calls, and none that is right to fail."""
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
    """The parts of a group whose calls take each other's results; None if they do not, or if others take them too."""
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
    """The parts of a group of calls whose results no call takes; None if a call does."""
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
    """An argument's name and, in case another part has the same one, further names."""
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
"""The note for the planner."""
_BASE = (1, 5)
_EXTRA = (2, 4)
_TRAPS = (2, 4)
_MOST_WORDS = 4  # of a tool's name that go into the name of a tool made from it
_NOTED = (Parameter("what", "string", "what was called, and with what"),)


@dataclass(frozen=True, config=STRICT)
class Costs:
    """Every tool has a drawn cost, 1 to 5; descriptions state it, and a note asks for the least total cost.

    Two kinds of tools are added. Composites do two or three consecutive calls of the reference in one, for less than
    these cost together (`grid.robustness.costs`). Traps, two to four, come in turns: an overpriced tool that does what
    a needed one does; a redundant tool that only notes that such a call was made; a near neighbour that misses the
    target, with no function of the reference. No tool does all of a case.

    `plan_cost` is the sum over the calls of the returned path, failed calls included. `least_cost` is the least for the
    calls that the resolution needs, each made once, by the cheapest tool of its function or in a composite; None if the
    case cannot be solved. It is exact for the reference's way: if a world accepts other ways too, a plan may cost less.
    success is decided as ever, without the costs.

    This setting comes last in a list of settings, so that the tools that others add have a cost as well. A task of
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
    """A tool that costs more than it is worth; a `double` does what another tool does, a `redundant` tool nothing."""

    spec: ToolSpec
    anchors: tuple[str, ...]
    cost: int
    double: Double | None = None
    redundant: bool = False


@plain_dataclass(frozen=True)
class PricedWorld(Layer):
    """A world in which composites run their parts, doubles do what their tools do, and redundant tools do nothing."""

    composites: tuple[Composite, ...]
    doubles: tuple[Double, ...]
    redundant: frozenset[str]

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The outcome of a call; a composite that fails leaves the state as it was, if the world branches."""
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
    """The cost of the cheapest tool that has a tool's function and is not out of service."""
    function, broken = function_of(tool, problem), problem.reference.substitutes
    alike = [name for name in costs if function_of(name, problem) == function and name not in broken]
    return min((costs[name] for name in alike), default=costs[tool])


def _traps(
    problem: Problem, index: Index, calls: Mapping[str, ToolCall], costs: Mapping[str, int], seed: int
) -> tuple[Trap, ...]:
    """Two to four traps around tools that are needed; none if no tool is needed."""
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
    """The trajectory with the tools that doubles stand for, and on its path the calls that composites made."""
    originals = {double.spec.name: double.original for double in doubles}

    def original(call: ToolCall) -> ToolCall:
        return originals.get(call.tool, lambda same: same)(call)

    found = with_chain_calls(each_step(trajectory, lambda step: with_call(step, original)), original)
    return replace(found, steps=expanded(made, reference, found.steps))

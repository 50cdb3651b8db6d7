"""Tools that do two or three consecutive calls of a reference in one, and the least that its calls cost with them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grid.core.problem import Problem, Reference
from grid.core.types import Json, Observation, Parameter, Step, ToolCall, ToolSpec, to_json
from grid.core.util import derive_seed
from grid.core.world import State, World
from grid.robustness.naming import words
from grid.text import references
from grid.worlds.schema import ERROR

_SIZES = (2, 3)
_MOST = 6
"""Composites of a case (agent_planning_benchmark B.4.4)."""
_MOST_WORDS = 4  # of a part's name in the composite's


@dataclass(frozen=True)
class Part:
    """One call of a composite: which of the composite's arguments are which of its own, and what earlier parts give.

    `given` maps its argument names to the composite's, `taken` its argument names to (place of the part, field).
    """

    tool: str
    given: Mapping[str, str]
    taken: Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
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

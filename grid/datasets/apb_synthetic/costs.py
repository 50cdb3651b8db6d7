"""Tools with costs: composites that are cheaper than their parts, and traps (agent_planning_benchmark B.5)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grid.core.types import Json, Parameter, ToolSpec
from grid.datasets.apb_synthetic.draft import Chain, Draft, shuffled
from grid.datasets.apb_synthetic.expansion import MadeStep
from grid.datasets.apb_synthetic.tools import instead_of, useless
from grid.text.references import reference
from grid.worlds.programs.model import Task, TypedTool

COMPOSITES, TRAPS = (3, 6), (2, 4)
"""How many of each, from and to."""
Wiring = tuple[tuple[tuple[str, str | int], ...], ...]


@dataclass(frozen=True)
class Window:
    """Two or three consecutive steps, later ones of which use earlier ones, as one call.

    `parameters` name what it takes from outside, with the parts' own parameters; `arguments` are the variables there.
    """

    functions: tuple[str, ...]
    wiring: Wiring
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...]

    @property
    def signature(self) -> tuple[tuple[str, ...], Wiring]:
        """Equal for windows that one composite serves."""
        return self.functions, self.wiring


def windows(draft: Draft) -> dict[tuple[int, int], Window]:
    """By first step and number of steps all windows of the reference."""
    found = {}
    for size in (2, 3):
        for first in range(len(draft.program.steps) - size + 1):
            window = _window(draft, draft.program.steps[first : first + size])
            if window is not None:
                found[first, size] = window
    return found


def enough(draft: Draft) -> bool:
    """Whether the case has enough windows for composites, none of them whole, and tools to be traps."""
    return len({window.signature for window in windows(draft).values()}) >= COMPOSITES[0] and any(
        name in draft.category.instead for name in draft.program.functions
    )


def with_costs(draft: Draft, rng: random.Random) -> Task:
    """The case with costs; its reference is the cheapest chain that takes consecutive steps together."""
    costs = {name: rng.randint(1, 5) for name in draft.tools}
    tools = {name: _priced(tool, costs[name]) for name, tool in draft.tools.items()}
    found = windows(draft)
    kinds = list(dict.fromkeys(window.signature for window in found.values()))
    chosen = rng.sample(kinds, min(len(kinds), rng.randint(*COMPOSITES)))
    composites: dict[tuple[tuple[str, ...], Wiring], TypedTool] = {}
    for signature in chosen:
        window = next(one for one in found.values() if one.signature == signature)
        composites[signature] = _composite(draft, window, costs, rng)
    added = {tool.spec.name: tool for tool in [*composites.values(), *_traps(draft, found, costs, composites, rng)]}
    task = draft.task()
    cheapest = _cheapest(draft, {place: composites[one.signature] for place, one in found.items()
                                 if one.signature in composites}, tools)  # fmt: skip
    return replace(
        task,
        tools=shuffled({**tools, **added}, rng),
        reference=tuple(_chain(draft, cheapest, found, composites, tools)),
    )


def _window(draft: Draft, steps: Sequence[MadeStep]) -> Window | None:
    """None where a later step uses none of the earlier ones, or a function comes twice."""
    if len({step.function for step in steps}) < len(steps):
        return None
    inside = {step.variable: place for place, step in enumerate(steps)}
    taken: dict[str, Parameter] = {}
    wiring = []
    for place, step in enumerate(steps):
        if place and not any(name in inside for name in step.arguments):
            return None
        wires: list[tuple[str, str | int]] = []
        for parameter, name in zip(draft.tools[step.function].spec.parameters, step.arguments, strict=True):
            if name in inside:
                wires.append(("part", inside[name]))
                continue
            if name not in taken:
                others = {one.name for one in taken.values()}
                own = parameter.name if parameter.name not in others else f"{parameter.name}_{place + 1}"
                if own in others:
                    return None
                taken[name] = replace(parameter, name=own)
            wires.append(("parameter", taken[name].name))
        wiring.append(tuple(wires))
    return Window(tuple(step.function for step in steps), tuple(wiring), tuple(taken.values()), tuple(taken))


def _composite(draft: Draft, window: Window, costs: Mapping[str, int], rng: random.Random) -> TypedTool:
    whole = sum(costs[name] for name in window.functions)
    return _joined(draft, window, rng.randint(max(1, whole // 2), whole - 1), "", "In one call")


def _joined(draft: Draft, window: Window, cost: int, before: str, how: str) -> TypedTool:
    """One tool for all steps of a window."""
    parts = [draft.tools[name] for name in window.functions]
    does = " Then: ".join(_lowered(tool.spec.description) for tool in parts)
    fields: list[str] = []
    for tool in parts:
        field = tool.spec.returns[0]
        fields.append(field if field not in fields else f"{field}_{len(fields) + 1}")
    spec = ToolSpec(
        _name(before, window.functions),
        f"{how}: {does} Returns all of these results. Cost: {cost}.",
        window.parameters,
        tuple(fields),
    )
    serves = frozenset[str]().union(*(tool.serves for tool in parts))
    return TypedTool(spec, tuple(tool.parts[0] for tool in parts), window.wiring, serves, cost)


def _traps(
    draft: Draft,
    found: Mapping[tuple[int, int], Window],
    costs: Mapping[str, int],
    composites: Mapping[tuple[tuple[str, ...], Wiring], TypedTool],
    rng: random.Random,
) -> list[TypedTool]:
    """Overpriced: another tool for a function, or for two that are cheaper apart (redundant); off-target: useless."""
    items = draft.recipe.items
    overpriced = [
        _priced(instead_of(draft.category, name, items), 2 * costs[name] + rng.randint(3, 6))
        for name in draft.program.functions
        if name in draft.category.instead and draft.category.instead[name][0] not in draft.tools
    ]
    redundant = [
        _joined(draft, window, sum(costs[name] for name in window.functions) + rng.randint(2, 4),
                "detailed_", "Step by step with a full log")
        for window in dict.fromkeys(found.values())
        if len(window.functions) == 2
    ]  # fmt: skip
    off_target = [_priced(useless(draft.category, name, items), rng.randint(1, 4)) for name in draft.category.useless]
    count = rng.randint(*TRAPS)
    kinds = [rng.sample(kind, len(kind)) for kind in (overpriced, redundant, off_target)]
    traps: list[TypedTool] = []
    while len(traps) < count:
        for kind in kinds:
            if kind and len(traps) < count:
                traps.append(kind.pop())
    return traps


def _priced(tool: TypedTool, cost: int) -> TypedTool:
    spec = replace(tool.spec, description=f"{tool.spec.description} Cost: {cost}.")
    return replace(tool, spec=spec, cost=cost)


def _name(before: str, functions: Sequence[str]) -> str:
    """In the style of the functions' own names."""
    if functions[0][0].isupper():
        return before.rstrip("_").capitalize() + "And".join(functions)
    return before + "_and_".join(functions)


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:]


def _cheapest(
    draft: Draft, composites: Mapping[tuple[int, int], TypedTool], tools: Mapping[str, TypedTool]
) -> list[tuple[int, int]]:
    """The steps cut into windows and single ones, so that the sum of the costs is least: a shortest path."""
    count = len(draft.program.steps)
    best: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]
    for end in range(1, count + 1):
        single = tools[draft.program.steps[end - 1].function].cost or 0
        ways = [(best[end - 1][0] + single, [*best[end - 1][1], (end - 1, 1)])]
        for size in (2, 3):
            tool = composites.get((end - size, size))
            if tool is not None:
                ways.append((best[end - size][0] + (tool.cost or 0), [*best[end - size][1], (end - size, size)]))
        best.append(min(ways, key=lambda way: way[0]))
    return best[count][1]


def _chain(
    draft: Draft,
    cut: Sequence[tuple[int, int]],
    found: Mapping[tuple[int, int], Window],
    composites: Mapping[tuple[tuple[str, ...], Wiring], TypedTool],
    tools: Mapping[str, TypedTool],
) -> Chain:
    """The calls of the cut steps."""
    chain: Chain = []
    made: dict[str, str] = {}
    for first, size in cut:
        steps = draft.program.steps[first : first + size]
        if size == 1:
            tool, names = tools[steps[0].function], steps[0].arguments
        else:
            window = found[first, size]
            tool, names = composites[window.signature], window.arguments
        arguments: dict[str, Json] = {
            parameter.name: made.get(name) or draft.values[name]
            for parameter, name in zip(tool.spec.parameters, names, strict=True)
        }
        for step, field in zip(steps, tool.spec.returns, strict=True):
            made[step.variable] = reference(str(len(chain)), field)
        chain.append((tool.spec.name, arguments))
    return chain

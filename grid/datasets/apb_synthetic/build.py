"""From a recipe to its task: whole, cut off behind some calls, with useless tools, a broken one, or unsolvable."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grid.core.types import Json, Parameter, TaskKind, ToolSpec
from grid.core.util import derive_seed
from grid.datasets.apb_synthetic.draft import Chain, Draft, shuffled
from grid.datasets.apb_synthetic.records import Recipe
from grid.datasets.apb_synthetic.stock import Category, MadeStep, categories, frames, instead_of, slots, useless
from grid.text.references import reference
from grid.worlds.programs.model import Constraint, Done, Function, Task, TypedTool, value_of

NOTE = "Every tool has a cost, which its description tells. The least total cost is wanted."


@dataclass(frozen=True)
class Built:
    """A case: its task, what it is called in the tables, and the solvable task that it was made from."""

    recipe: Recipe
    task: Task
    kind: TaskKind
    solvable: Task


def build(recipe: Recipe) -> Built:
    """The recipe's case. The same recipe gives the same case."""
    draft = Draft(recipe, categories()[recipe.category], frames())
    rng = random.Random(derive_seed(recipe.seed, "apb_synthetic", recipe.base, "disturbed"))
    solvable = draft.task()
    task = solvable
    match recipe.task_family:
        case "extraneous":
            task = _with_useless(draft, recipe.n_extraneous or 0, rng)
        case "broken":
            task = _broken(draft, recipe.place or 0, rng)
        case "costs":
            task = with_costs(draft, rng)
        case "unsolvable":
            task = _unsolvable(draft, rng)
    if recipe.task_family in ("stepwise", "stages", "extraneous") and recipe.k is not None:
        task = replace(task, done=tuple(_done(draft, task))[: recipe.place], horizon=recipe.k)
    kind = TaskKind(recipe.task_family, recipe.category, recipe.k, recipe.stage, recipe.n_extraneous, recipe.unsolvable)
    return Built(recipe, task, kind, task if recipe.task_family != "unsolvable" else solvable)


def _done(draft: Draft, task: Task) -> Iterator[Done]:
    """The reference's calls as made, with what they found."""
    known = draft.functions
    for step, (name, arguments) in zip(draft.program.steps, task.reference, strict=True):
        field = task.tools[name].spec.returns[0]
        yield Done(name, arguments, {field: value_of(draft.facts[step.variable], known)})


def _with_useless(draft: Draft, count: int, rng: random.Random) -> Task:
    """So many useless tools among the others; more of them hold the fewer."""
    names = rng.sample(list(draft.category.useless), len(draft.category.useless))[:count]
    added = {name: useless(draft.category, name, draft.recipe.items) for name in names}
    task = draft.task()
    return replace(task, tools=shuffled({**task.tools, **added}, rng))


def _broken(draft: Draft, place: int, rng: random.Random) -> Task:
    """The call of a place has failed; another tool has its function."""
    task = draft.task()
    function = draft.program.steps[place].function
    other = instead_of(draft.category, function, draft.recipe.items)
    done = tuple(_done(draft, task))[: place + 1]
    failed = replace(done[-1], content={"error": rng.choice(draft.frames.errors)}, failed=True)
    return replace(
        task,
        tools=shuffled({**task.tools, other.spec.name: other}, rng),
        reference=tuple(draft.reference(place, other)),
        done=(*done[:-1], failed),
        horizon=1,
        broken=function,
        replacement=other.spec.name,
    )


def _unsolvable(draft: Draft, rng: random.Random) -> Task:
    task = replace(draft.task(), unsolvable=draft.recipe.unsolvable, reference=())
    told, types = draft.program.told, draft.category.types
    match draft.recipe.unsolvable:
        case "attachment_missing":
            kept = tuple(one for one in task.constants if not types[one.type].file)
            gone = frozenset(type_ for type_ in told.values() if types[type_].file)
            return replace(task, query=draft.query(files=False), constants=kept, missing=gone)
        case "missing_information":
            used = {name for step in draft.program.steps for name in step.arguments}
            name = rng.choice([name for name, type_ in told.items() if types[type_].private and name in used])
            instead = {name: types[told[name]].private or ""}
            kept = tuple(one for one in task.constants if one != draft.constant(name))
            goals = tuple(
                replace(goal, text=draft.written(want.text, instead))
                for goal, want in zip(task.goals, draft.program.wants, strict=True)
            )
            return replace(
                task, query=draft.query(instead), constants=kept, goals=goals, missing=frozenset({told[name]})
            )
        case "tool_removal":
            function = rng.choice(draft.program.functions)
            text = rng.choice(draft.frames.removed).replace("{doing}", draft.category.functions[function][3])
            tools = {name: tool for name, tool in task.tools.items() if not _does(tool.parts, function)}
            return replace(task, query=draft.query(extra=text), tools=tools)
        case _:
            constraints = rng.choice(contradictions(draft, rng))
            return replace(
                task,
                query=draft.query(extra=constraints[0].text),
                constraints=(*task.constraints, *constraints),
            )


def _does(parts: Sequence[Function], function: str) -> bool:
    return any(part.name == function for part in parts)


# Constraints that no chain can keep to (agent_planning_benchmark B.4.3), each with its sentence.


def contradictions(draft: Draft, rng: random.Random) -> Sequence[tuple[Constraint, ...]]:
    """One of each way that the case allows: an order in a circle, too few calls, a needed function forbidden or down.

    All constraints of a way have its whole sentence.
    """
    frames, functions = draft.frames, draft.program.functions

    def said(texts: Sequence[str], **names: str) -> str:
        text = rng.choice(texts)
        for slot, function in names.items():
            text = text.replace("{" + slot + "}", draft.category.functions[function][3])
        return text

    one = rng.choice(functions)
    text, down = said(frames.forbidden, doing=one), said(frames.offline, doing=one)
    found: list[tuple[Constraint, ...]] = [
        (Constraint("forbid_function", (one,), text),),
        (Constraint("require_function", (one,), down), Constraint("forbid_function", (one,), down)),
    ]
    circles = [(first, then) for first in functions for then in functions if needs(draft.category, then, first)]
    if circles:
        first, then = rng.choice(circles)
        text = said(frames.cycle, first=first, then=then)
        found.append((Constraint("before", (then, first), text),))
    repeated = [name for name in functions if draft.count(name) > 1]
    if repeated:
        name = rng.choice(repeated)
        most = draft.count(name) - 1
        text = said(frames.too_few, doing=name).replace("{n}", frames.number_words[most])
        found.append((Constraint("at_most", (name, str(most)), text),))
    return found


def needs(category: Category, function: str, other: str) -> bool:
    """Whether every call of a function takes what only the other one finds."""
    for slot in slots(category.functions[function][0]):
        makers = [name for name, (_, gives, _, _) in category.functions.items() if slots(gives)[0].type == slot.type]
        if makers == [other] and category.types[slot.type].draw is None:
            return True
    return False


# Tools with costs: composites that are cheaper than their parts, and traps (agent_planning_benchmark B.5).


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

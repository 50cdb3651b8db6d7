"""Make a recipe's task: whole, cut after some calls, unsolvable, or with useless tools, a broken tool or costs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grid.core.types import Json, Parameter, TaskKind, ToolSpec
from grid.core.util import derive_seed
from grid.datasets.apb_synthetic.stock import (
    Category,
    Family,
    Frames,
    MadeStep,
    Program,
    Recipe,
    Rule,
    categories,
    expand,
    frames,
    instead_of,
    needs,
    tool_of,
    useless,
)
from grid.text.references import reference
from grid.worlds.programs.model import (
    Applied,
    Constant,
    Constraint,
    Done,
    Fact,
    Function,
    Goal,
    Task,
    TypedTool,
    distinct,
    fill,
    value_of,
)

NOTE = "Every tool has a cost, stated in its description. Aim for the lowest total cost."


@dataclass(frozen=True)
class Built:
    """A case: recipe, task, kind (for the tables), and the solvable task behind an unsolvable one (else `task`)."""

    recipe: Recipe
    task: Task
    kind: TaskKind
    solvable: Task


def build(recipe: Recipe) -> Built:
    """The recipe's case. The same recipe always gives the same case."""
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
    """The reference's calls, with their results, as calls already made."""
    known = draft.functions
    for step, (name, arguments) in zip(draft.program.steps, task.reference, strict=True):
        field = task.tools[name].spec.returns[0]
        yield Done(name, arguments, {field: value_of(draft.facts[step.variable], known)})


def _with_useless(draft: Draft, count: int, rng: random.Random) -> Task:
    """Mix `count` useless tools into the task's tools; a larger `count` includes the tools for any smaller `count`."""
    names = rng.sample(list(draft.category.useless), len(draft.category.useless))[:count]
    added = {name: useless(draft.category, name, draft.recipe.items) for name in names}
    task = draft.task()
    return replace(task, tools=shuffled({**task.tools, **added}, rng))


def _broken(draft: Draft, place: int, rng: random.Random) -> Task:
    """The task after the call at `place` has failed. A second tool with the failed tool's function is added."""
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


# Constraints that no chain can satisfy (agent_planning_benchmark B.4.3), each with its sentence.


def contradictions(draft: Draft, rng: random.Random) -> Sequence[tuple[Constraint, ...]]:
    """Contradictions, one of each possible kind: circular order, too few calls, a needed function forbidden or offline.

    All constraints of a contradiction have the same text: the sentence that states the contradiction.
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


# Tools with costs: composites that are cheaper than their parts, and traps (agent_planning_benchmark B.5).


COMPOSITES, TRAPS = (3, 6), (2, 4)
"""Minimum and maximum number of composites, and of traps."""
Wiring = tuple[tuple[tuple[str, str | int], ...], ...]


@dataclass(frozen=True)
class Window:
    """Two or three consecutive steps as one call; each step after the first uses the result of an earlier step.

    `parameters` get their values from outside the window; `arguments` are the variables that hold these values.
    """

    functions: tuple[str, ...]
    wiring: Wiring
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...]

    @property
    def signature(self) -> tuple[tuple[str, ...], Wiring]:
        """A key that is the same for two windows if the same composite tool can make the calls of both."""
        return self.functions, self.wiring


def windows(draft: Draft) -> dict[tuple[int, int], Window]:
    """All windows of the reference, by first step and number of steps."""
    found = {}
    for size in (2, 3):
        for first in range(len(draft.program.steps) - size + 1):
            window = _window(draft, draft.program.steps[first : first + size])
            if window is not None:
                found[first, size] = window
    return found


def enough(draft: Draft) -> bool:
    """Whether a case has enough tools for traps and enough windows (never the whole chain) for composites."""
    return len({window.signature for window in windows(draft).values()}) >= COMPOSITES[0] and any(
        name in draft.category.instead for name in draft.program.functions
    )


def with_costs(draft: Draft, rng: random.Random) -> Task:
    """The case with costs. Its reference is the cheapest chain; a call of this chain may join consecutive steps."""
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
    """The steps' window; None if a later step uses no earlier result, or if two functions or parameters are alike."""
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
    return _joined(draft, window, rng.randint(max(1, whole // 2), whole - 1), "", "In a single call")


def _joined(draft: Draft, window: Window, cost: int, before: str, how: str) -> TypedTool:
    """One tool for all steps of a window."""
    parts = [draft.tools[name] for name in window.functions]
    does = "; then ".join(_lowered(tool.spec.description).removesuffix(".") for tool in parts)
    fields: list[str] = []
    for tool in parts:
        field = tool.spec.returns[0]
        fields.append(field if field not in fields else f"{field}_{len(fields) + 1}")
    spec = ToolSpec(
        _name(before, window.functions),
        f"{how}, {does}. Returns all of these results. Cost: {cost}.",
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
    """Traps: overpriced second tools, redundant tools (dearer than their two parts) and off-target (useless) tools."""
    items = draft.recipe.items
    overpriced = [
        _priced(instead_of(draft.category, name, items), 2 * costs[name] + rng.randint(3, 6))
        for name in draft.program.functions
        if name in draft.category.instead and draft.category.instead[name][0] not in draft.tools
    ]
    redundant = [
        _joined(draft, window, sum(costs[name] for name in window.functions) + rng.randint(2, 4),
                "detailed_", "Step by step, with a full log")
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
    """A name in the style of the functions' own names."""
    if functions[0][0].isupper():
        return before.rstrip("_").capitalize() + "And".join(functions)
    return before + "_and_".join(functions)


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:]


def _cheapest(
    draft: Draft, composites: Mapping[tuple[int, int], TypedTool], tools: Mapping[str, TypedTool]
) -> list[tuple[int, int]]:
    """Divide the steps into windows and single steps so that the total cost is minimal (a shortest path)."""
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
    """The calls: one for each single step and one for each window of `cut`."""
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


# A solvable case under construction: constants, facts, tools, reference chain, and query.


_SLOT = re.compile(r"\{(each )?([^{}]+)\}")
_INNER = re.compile(r"<(\w+)>")
_BEGIN = re.compile(r"(^|[.!?] )([a-z]\S*)")
Chain = list[tuple[str, Mapping[str, Json]]]


@dataclass
class Draft:
    """One case. `values` maps the constants' names to their values; `facts` maps variables' names to their facts."""

    recipe: Recipe
    category: Category
    frames: Frames
    family: Family = dataclasses.field(init=False)
    program: Program = dataclasses.field(init=False)
    rng: random.Random = dataclasses.field(init=False)
    values: dict[str, str] = dataclasses.field(init=False)
    facts: dict[str, Fact] = dataclasses.field(init=False)
    tools: dict[str, TypedTool] = dataclasses.field(init=False)
    constraints: list[Constraint] = dataclasses.field(default_factory=list)
    opening: str = ""
    further: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        recipe, category = self.recipe, self.category
        self.family = category.families[recipe.family]
        self.program = expand(category, recipe.family, recipe.extras, recipe.items)
        self.rng = random.Random(derive_seed(recipe.seed, "apb_synthetic", recipe.base))
        self.values = self._constants()
        self.facts = self._facts()
        self.tools = {name: tool_of(category, name, recipe.items) for name in self.program.functions}
        self.opening = self.rng.choice(self.family.ask)
        self.further = [self.rng.choice(self.family.also[extra].say) for extra in recipe.extras]
        self._restrict()
        self._fill_up()

    def task(self, query: str = "") -> Task:
        """The task as drafted so far."""
        return Task(
            query=query or self.query(),
            goals=tuple(
                Goal(fact, want.tag, self.written(want.text))
                for want in self.program.wants
                if isinstance(fact := self.facts[want.variable], Applied)
            ),
            constants=tuple(self.constant(name) for name in self.program.told),
            tools=dict(self.tools),
            reference=tuple(self.reference()),
            constraints=tuple(self.constraints),
        )

    def constant(self, name: str) -> Constant:
        """A constant that the query gives."""
        key = name.partition("[")[0]
        type_ = self.program.told[name]
        said = self.category.types[type_].means if self.category.types[type_].file else key.replace("_", " ")
        return Constant(type_, self.values[name], said)

    def reference(self, broken: int | None = None, replacement: TypedTool | None = None) -> Chain:
        """The steps as calls, in order; steps are counted from 0.

        The call of step `broken` fails. The tool `replacement` repeats the failed call and makes all later calls of the
        same function.
        """
        made: dict[str, str] = {}
        chain: Chain = []
        standing = dict(self.tools)
        for number, step in enumerate(self.program.steps):
            if number == broken and replacement is not None:
                chain.append(self._call(standing[step.function], step, made))
                standing[step.function] = replacement
            tool = standing[step.function]
            call = self._call(tool, step, made)
            made[step.variable] = reference(str(len(chain)), tool.spec.returns[0])
            chain.append(call)
        return chain

    def _call(self, tool: TypedTool, step: MadeStep, made: Mapping[str, str]) -> tuple[str, Mapping[str, Json]]:
        names = [parameter.name for parameter in tool.spec.parameters]
        found = [made.get(name) or self.values[name] for name in step.arguments]
        return tool.spec.name, dict(zip(names, found, strict=True))

    def query(self, instead: Mapping[str, str] | None = None, extra: str = "", files: bool = True) -> str:
        """The query with `extra`; `instead` maps constants' names to texts for values; `files`: list the files too."""
        texts = [self.opening, *self.further, extra]
        body = _BEGIN.sub(_begun, " ".join(" ".join(self.written(text, instead) for text in texts if text).split()))
        attached = [self.values[name] for name, type_ in self.program.told.items() if self.category.types[type_].file]
        return f"{body}\nFiles: {', '.join(attached)}" if attached and files else body

    def written(self, text: str, instead: Mapping[str, str] | None = None) -> str:
        """A phrasing with its slots filled in."""

        def one(name: str) -> str:
            if instead and name in instead:
                return instead[name]
            return self.category.types[self.program.told[name]].write.replace("{}", self.values[name])

        def slot(match: re.Match[str]) -> str:
            if match[2].startswith("?"):
                return match[2][1:].split("|")[self.recipe.items > 1]
            if match[1]:
                return _listed(
                    [
                        _INNER.sub(lambda inner, place=place: one(self._named(inner[1], place)), match[2])
                        for place in range(self.recipe.items)
                    ]
                )
            if f"{match[2]}[0]" in self.values:
                return _listed([one(f"{match[2]}[{place}]") for place in range(self.recipe.items)])
            return one(match[2])

        return _SLOT.sub(slot, text)

    @property
    def functions(self) -> dict[str, Function]:
        """The functions of the tools, by name."""
        return {part.name: part for tool in self.tools.values() for part in tool.parts}

    def sound(self) -> bool:
        """Whether all facts have different values."""
        return distinct(list(self.facts.values()), self.functions)

    def count(self, function: str) -> int:
        """The number of steps that call the given function."""
        return sum(step.function == function for step in self.program.steps)

    def _named(self, key: str, place: int) -> str:
        return f"{key}[{place}]" if f"{key}[{place}]" in self.values else key

    def _constants(self) -> dict[str, str]:
        """A value for each constant; no two values are equal."""
        found: dict[str, str] = {}
        for name, type_ in self.program.told.items():
            template = self.category.types[type_].draw or ""
            drawn = (fill(template, self.rng) for _ in range(1000))
            found[name] = next(value for value in drawn if value not in found.values())
        for type_ in {type_ for type_ in self.program.told.values() if self.category.types[type_].ordered}:
            names = [name for name, other in self.program.told.items() if other == type_]
            values = sorted((found[name] for name in names), key=_rank)
            found |= dict(zip(names, values, strict=True))
        return found

    def _facts(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {name: self.constant(name) for name in self.program.told}
        for step in self.program.steps:
            found[step.variable] = Applied(step.function, tuple(found[name] for name in step.arguments))
        return found

    def _restrict(self) -> None:
        """Add the recipe's constraints, and add a sentence for each of them to the query."""
        for place in self.recipe.rules:
            rule = self.family.rules[place]
            text = self.written_rule(rule, self.rng.choice(rule.say))
            self.further.append(text)
            self.constraints.append(self._constraint(rule, text))
            if rule.kind == "forbid":
                self.tools[rule.of[0]] = tool_of(self.category, rule.of[0], self.recipe.items)
        if self.recipe.avoid:
            tool = instead_of(self.category, self.recipe.avoid, self.recipe.items)
            text = self.rng.choice(self.frames.forbid_tool).replace("{tool}", tool.spec.name)
            self.further.append(text)
            self.tools[tool.spec.name] = tool
            self.constraints.append(Constraint("forbid_tool", (tool.spec.name,), text))

    def written_rule(self, rule: Rule, text: str) -> str:
        """A rule's sentence; {n} is replaced by the number of calls of the rule's first function, in words."""
        return text.replace("{n}", self.frames.number_words[self.count(rule.of[0])]) if "{n}" in text else text

    def _constraint(self, rule: Rule, text: str) -> Constraint:
        if rule.kind == "at_most":
            return Constraint("at_most", (rule.of[0], str(self.count(rule.of[0]))), text)
        return Constraint("before" if rule.kind == "before" else "forbid_function", tuple(rule.of), text)

    def _fill_up(self) -> None:
        """Add unneeded tools of the category up to the recipe's number of tools; shuffle all tools with the seed."""
        others = [name for name in self.category.functions if name not in self.tools]
        self.rng.shuffle(others)
        for name in others[: max(0, self.recipe.bank - len(self.tools))]:
            self.tools[name] = tool_of(self.category, name, self.recipe.items)
        self.tools = shuffled(self.tools, self.rng)


def shuffled(tools: Mapping[str, TypedTool], rng: random.Random) -> dict[str, TypedTool]:
    """The tools in random order."""
    names = rng.sample(list(tools), len(tools))
    return {name: tools[name] for name in names}


def _begun(match: re.Match[str]) -> str:
    """A sentence's first word, capitalised unless it is a name such as an address or a branch."""
    word = match[2]
    return match[1] + (word if re.search(r"[@/_\d]", word) else word[0].upper() + word[1:])


def _rank(value: str) -> tuple[int, ...]:
    """The sort key for a value of an ordered type: a date's year, month and day, or the numbers in any other value."""
    try:
        return dt.datetime.strptime(value, "%d %B %Y").timetuple()[:3]
    except ValueError:
        return tuple(int(number) for number in re.findall(r"\d+", value))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

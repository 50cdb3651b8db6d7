"""Figures for the cases of one seed beside the paper's figures (agent_planning_benchmark §3.1, §B.1, tables 10, 11)."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.table import Table

from grid.core.types import ALTER, REJECT, REPLACE, Chain, ChainCall, to_json
from grid.datasets.apb_synthetic.build import COMPOSITES, TRAPS, Built
from grid.datasets.apb_synthetic.dataset import (
    BINS,
    CATEGORIES,
    COUNTS_EXTRANEOUS,
    HORIZONS,
    STAGES,
    ApbSynthetic,
    fits,
)
from grid.datasets.apb_synthetic.stock import UNSOLVABLE, Category, Family, Program, categories, expand, found, slots
from grid.worlds.programs import search
from grid.worlds.programs.model import Function, Task, distinct, possibilities
from grid.worlds.programs.scoring import diagnose

FAMILIES = {"holistic": 1109, "stepwise": 900, "extraneous": 1500, "broken": 300, "unsolvable": 400, "costs": 106}
STAGED = 300
"""The number of cases in each stage (table 15)."""
MEAN_STEPS, MEAN_TOOLS = 12.48, 9.4
LEAST_GOAL_FAMILIES = 60


@dataclass(frozen=True)
class Margin:
    """One figure: the paper's value (None if the paper has none), our value, and the allowed difference."""

    name: str
    paper: float | None
    ours: float
    tolerance: float = 0

    @property
    def holds(self) -> bool:
        """Whether our value is within the tolerance; true if the paper has no value."""
        return self.paper is None or abs(self.ours - self.paper) <= self.tolerance + 1e-9


def margins(cases: Sequence[Built]) -> list[Margin]:
    """All figures. Tools are counted without `reject` and without the tools that a setting adds."""
    families = Counter[str](case.kind.task_family for case in cases)
    holistic = [case for case in cases if case.kind.task_family == "holistic"]
    lengths = [len(case.task.reference) for case in holistic]
    categories = Counter(case.kind.task_category for case in holistic)
    return [
        *(Margin(f"{name} cases", paper, families[name]) for name, paper in FAMILIES.items()),
        *_kinds(cases),
        *(Margin(name, paper, categories[name]) for name, paper in CATEGORIES.items()),
        Margin("mean steps", MEAN_STEPS, fmean(lengths), 0.25),
        *(
            Margin(_bin(steps), paper, sum(length in steps for length in lengths), 5)
            for steps, paper in BINS.items()
        ),
        Margin("tools a query", MEAN_TOOLS, fmean(len(case.task.tools) for case in holistic), 0.25),
        Margin("different tools called", None, fmean(len(set(dict(case.task.reference))) for case in holistic)),
        Margin("wanted facts", None, fmean(len(set(case.task.wanted)) for case in holistic)),
        Margin("constraints", None, fmean(len(case.task.constraints) for case in holistic)),
        Margin("goal families", None, len({case.recipe.family for case in cases})),
        Margin("different queries of holistic cases", None, len({case.task.query for case in holistic})),
        Margin("words a query", None, fmean(len(case.task.query.split()) for case in holistic)),
    ]  # fmt: skip


def baselines(cases: Sequence[Built]) -> list[Margin]:
    """The success rate of refusing every task, by task family; only every tenth case is tried."""
    nothing = Chain((), "it cannot be carried out")
    found = []
    for name in FAMILIES:
        chosen = [case for case in cases if case.kind.task_family == name][::10]
        passed = [diagnose(case.task, case.kind, nothing).correct for case in chosen]
        found.append(Margin(f"success of refusing everything, {name}", None, fmean(passed)))
    return found


def _kinds(cases: Sequence[Built]) -> Iterator[Margin]:
    stepwise = [case.kind for case in cases if case.kind.task_family == "stepwise"]
    single = [kind for kind in stepwise if kind.horizon_k == 1]
    single += [case.kind for case in cases if case.kind.task_family == "stages"]
    for k in HORIZONS:
        yield Margin(f"step-wise, k {k}", 300, sum(kind.horizon_k == k for kind in stepwise))
    for stage in STAGES:
        yield Margin(f"one next step, {stage}", STAGED, sum(kind.stage == stage for kind in single))
    extraneous = [case.kind for case in cases if case.kind.task_family == "extraneous"]
    for count in COUNTS_EXTRANEOUS:
        yield Margin(f"extraneous, n_e {count}", 300, sum(kind.n_extraneous == count for kind in extraneous))
    yield Margin("extraneous, k 1", 750, sum(kind.horizon_k == 1 for kind in extraneous))
    yield Margin("extraneous, holistic", 750, sum(kind.horizon_k is None for kind in extraneous))
    for name in UNSOLVABLE:
        yield Margin(f"unsolvable, {name}", 100, sum(case.kind.unsolvable_kind == name for case in cases))


def _bin(steps: range) -> str:
    return f"of more than {steps.start - 1} steps" if steps.stop > 99 else f"of {steps.start} to {steps.stop - 1} steps"


def tables(dataset: ApbSynthetic) -> Iterator[Table | str]:
    """Our figures for all cases of the seed next to the paper's, and the success rate of refusing every task."""
    cases = [dataset.built(name) for name in dataset.records]
    table = Table(title=f"{len(cases)} cases, {dataset.version}")
    for column in ("margin", "paper", "here", "allowed", "holds"):
        table.add_column(column, justify="left" if column == "margin" else "right")
    for one in (*margins(cases), *baselines(cases)):
        allowed = "" if one.paper is None else f"± {one.tolerance:g}" if one.tolerance else "exact"
        paper = "" if one.paper is None else f"{one.paper:g}"
        table.add_row(one.name, paper, f"{one.ours:.5g}", allowed, "yes" if one.holds else "NO")
    yield table
    tasks = [case.task for case in cases if case.kind.task_family == "costs"]
    spent = [sum(task.tools[tool].cost or 0 for tool, _ in task.reference) for task in tasks]
    least = sum(cost == search.least_cost(task) for cost, task in zip(spent, tasks, strict=True))
    yield f"the reference has the least cost in {least} of {len(tasks)} cases with costs"


def broken(dataset: ApbSynthetic) -> Iterator[str]:
    """A line for each rule that the stock or a case of the seed breaks, and for each figure outside its tolerance."""
    yield from problems(categories())
    cases = [dataset.built(name) for name in dataset.records]
    for built in cases:
        yield from broken_rules(built)
    for one in (*margins(cases), *baselines(cases)):
        if not one.holds:
            yield f"{one.name}: {one.ours:.5g} here, but {one.paper} in the paper"


def written(dataset: ApbSynthetic, case_id: str) -> Iterator[str]:
    """A case in readable form: query, tools, calls made, reference, wanted facts and constraints."""
    built = dataset.built(case_id)
    task, kind = built.task, built.kind
    yield f"{kind.task_category}; {built.recipe.family}"
    yield from (line for part in task.query.splitlines() for line in textwrap.wrap(part, 110))
    yield "  tools:"
    for tool in task.tools.values():
        mark = "-" if tool.extraneous else "=" if tool.stands_for else " "
        parameters = ", ".join(parameter.name for parameter in tool.spec.parameters)
        yield f"   {mark} {tool.spec.name}({parameters}): {tool.spec.description}"
    for number, done in enumerate(task.done):
        yield f"  done {number} {done.tool} {to_json(dict(done.arguments))} -> {to_json(dict(done.content))}"
    reference = task.reference or built.solvable.reference
    for number, (name, arguments) in list(enumerate(reference))[len(task.done) :]:
        asked = task.horizon is None or number < len(task.done) + task.horizon
        yield f"  {'call' if asked else 'later'} {number} {name} {to_json(dict(arguments))}"
    for goal in task.goals:
        yield f"  wanted: {goal.text} [{goal.tag}]"
    for constraint in task.constraints:
        yield f"  constraint: {constraint.kind} {' '.join(constraint.arguments)}"
    if task.unsolvable:
        yield f"  unsolvable, {task.unsolvable}: {search.derivable(task)}"


# The rules that every case must obey, checked case by case.


def broken_rules(built: Built) -> Iterator[str]:
    """A line for each rule that a case breaks."""
    task, kind = built.task, built.kind
    name = built.recipe.id
    if not distinct([*built.solvable.constants, *built.solvable.needed], functions(built.solvable)):
        yield f"{name}: two facts have the same value"
    why = search.derivable(task)
    if kind.task_family == "unsolvable":
        if why is None:
            yield f"{name}: the case is declared unsolvable, but calls solve it"
        if search.derivable(built.solvable) is not None:
            yield f"{name}: its original case, which must be solvable, cannot be solved"
        verdict = diagnose(task, kind, Chain((), "it cannot be done"))
        if not verdict.refused:
            yield f"{name}: a refusal is not recognized as a refusal"
        return
    if why is not None:
        yield f"{name}: the case cannot be solved: {why}"
    if not set(task.wanted) <= {fact for outcome in found(task) for fact in outcome.values()}:
        yield f"{name}: the reference does not find all wanted facts"
    verdict = diagnose(task, kind, predicted(task))
    right = verdict.behaviour in (REPLACE, ALTER) if kind.task_family == "broken" else verdict.correct
    if not right:
        yield f"{name}: the reference is judged {sorted(verdict.errors) or verdict.behaviour}: {verdict.reasons}"
    refused = diagnose(task, kind, Chain((), "it cannot be done"))
    if refused.correct or refused.behaviour in (REPLACE, ALTER):
        yield f"{name}: a refusal passes"
    called = {tool for tool, _ in task.reference}
    for tool in task.tools.values():
        if tool.extraneous and tool.spec.name in called:
            yield f"{name}: the reference calls {tool.spec.name}, which is an extraneous tool"
    if kind.task_family == "costs":
        yield from (f"{name}: {text}" for text in _costs(built))


def predicted(task: Task) -> Chain:
    """A correct prediction: the reference's next calls after those already made, as many as the task asks for."""
    first = len(task.done)
    calls = task.reference[first : None if task.horizon is None else first + task.horizon]
    return Chain(tuple(ChainCall(name, arguments) for name, arguments in calls), first=first)


def functions(task: Task) -> dict[str, Function]:
    """The functions of a task's tools by name."""
    return {part.name: part for tool in task.tools.values() for part in tool.parts}


def _costs(built: Built) -> Iterator[str]:
    task = built.task
    plain = {tool.parts[0].name: tool.cost or 0 for tool in task.tools.values()
             if len(tool.parts) == 1 and tool.stands_for is None}  # fmt: skip
    joined = [tool for tool in task.tools.values() if len(tool.parts) > 1]
    cheap = [tool for tool in joined if (tool.cost or 0) < sum(plain[part.name] for part in tool.parts)]
    traps = len(task.tools) - len(cheap) - len(plain)
    if not COMPOSITES[0] <= len(cheap) <= COMPOSITES[1]:
        yield f"{len(cheap)} composite tools, but {COMPOSITES[0]} to {COMPOSITES[1]} are needed"
    if not TRAPS[0] <= traps <= TRAPS[1] + 1:  # one more if the query forbids a tool by name
        yield f"{traps} traps, but {TRAPS[0]} to {TRAPS[1]} are needed"
    if any(not 1 <= cost <= 5 for cost in plain.values()):
        yield "a base cost is not from 1 to 5"
    spent = sum(task.tools[name].cost or 0 for name, _ in task.reference)
    least = search.least_cost(task)
    if least is None or least > spent:
        yield f"the least cost is {least}, but the reference costs {spent}"
    if any(len(tool.parts) >= len(task.needed) for tool in task.tools.values()):
        yield "one call solves the case"


# The rules that the stock breaks, one line each.


MANY = 10_000
"""Minimum number of different values that a type must allow if its values are found by tools."""
MOST_EXTRANEOUS = 10
_WRITTEN = re.compile(r"\{(each )?([^{}]+)\}")
_ONE_OR_MANY = re.compile(r"\{\?[^{}|]*\|[^{}|]*\}")
_INNER = re.compile(r"<(\w+)>")


def problems(categories: Mapping[str, Category]) -> list[str]:
    """A line for each rule that the stock breaks; empty if the stock is sound.

    Raises ValueError if a step is not written as a call.
    """
    found: list[str] = []
    names: dict[str, str] = {REJECT: "the grid"}
    for category in categories.values():
        found += [f"{category.category}: {text}" for text in _category(category)]
        for name in (*category.functions, *(one[0] for one in category.instead.values()), *category.useless):
            if name in names:
                found.append(f"{category.category}: tool {name} is also in {names[name]}")
            names[name] = category.category
        for name in category.families:
            if names.get(f"family {name}"):
                found.append(f"{category.category}: family {name} is also in {names[f'family {name}']}")
            names[f"family {name}"] = category.category
    return found


def _category(category: Category) -> Iterator[str]:
    for name, type_ in category.types.items():
        if (type_.draw is None) == (type_.make is None):
            yield f"type {name}: give either draw (the type is told) or make (the type is found)"
        if type_.make is not None and possibilities(type_.make) < MANY:
            yield f"type {name}: {type_.make!r} gives {possibilities(type_.make)} values, but {MANY} are needed"
        if type_.draw is not None and not type_.file and type_.private is None:
            yield f"type {name}: a told type needs a private form, unless it is a file"
    for name, (takes, gives, *_) in category.functions.items():
        for slot in (*slots(takes), *slots(gives)):
            if slot.type not in category.types:
                yield f"function {name}: unknown type {slot.type!r}"
        if slots(gives)[0].type in category.types and category.types[slots(gives)[0].type].make is None:
            yield f"function {name}: its result {slots(gives)[0].type} is a told type, but must be a found type"
    for name, (_, takes, _) in category.instead.items():
        if name not in category.functions:
            yield f"instead of {name}: there is no such function"
        elif [slot.type for slot in slots(takes)] != [slot.type for slot in slots(category.functions[name][0])]:
            yield f"instead of {name}: the two functions take different types"
    for name, (takes, _) in category.useless.items():
        if any(slot.type not in category.types for slot in slots(takes)):
            yield f"useless {name}: unknown type in {takes!r}"
    if len(category.useless) < MOST_EXTRANEOUS:
        yield f"{len(category.useless)} useless tools, but {MOST_EXTRANEOUS} are needed"
    for name, family in category.families.items():
        yield from (f"family {name}: {text}" for text in _family(category, name, family))


def _family(category: Category, name: str, family: Family) -> Iterator[str]:
    items = family.items[0]
    program = expand(category, name, tuple(family.also), items)
    yield from _program(category, program)
    files = any(category.types.get(type_) and category.types[type_].file for type_ in family.told.values())
    for text in family.ask:
        yield from _text(category, text, family.told, family.told)
        if files != ("attach" in text.lower()):
            yield f"{text!r} must mention an attachment if the family has a file, and only then"
    for extra in family.also.values():
        for text in extra.say:
            yield from _text(category, text, {**family.told, **extra.told}, extra.told)
    for rule in family.rules:
        orders = [
            [step.function for step in expand(category, name, extras, items).steps]
            for extras in (tuple(family.also), ())
        ]
        unknown = [one for one in rule.of if one not in category.functions]
        if unknown:
            yield f"rule {rule.kind}: unknown function {unknown[0]}"
        elif not any(fits(rule, order) for order in orders):
            yield f"rule {rule.kind} {rule.of}: no chain of the family follows the rule"
        if rule.kind == "at_most" and any("{n}" not in text for text in rule.say):
            yield f"rule {rule.kind} {rule.of}: a sentence lacks {{n}}"


def _program(category: Category, program: Program) -> Iterator[str]:
    types = dict(program.told)
    for name, type_ in program.told.items():
        if type_ not in category.types or category.types[type_].draw is None:
            yield f"{name}: {type_!r} is not a told type"
    used: set[str] = set()
    for step in program.steps:
        if step.function not in category.functions:
            yield f"step {step.variable}: unknown function {step.function!r}"
            continue
        takes, gives, *_ = category.functions[step.function]
        slots_ = slots(takes)
        wanted = [slot.type for slot in slots_] if not any(slot.starred for slot in slots_) else None
        given = [types.get(one, f"nothing ({one})") for one in step.arguments]
        if wanted is not None and wanted != given:
            yield f"step {step.variable}: {step.function} takes {wanted}, not {given}"
        types[step.variable] = slots(gives)[0].type
        used |= set(step.arguments)
    wants = {want.variable for want in program.wants}
    for variable in types:
        if variable not in used | wants:
            yield f"{variable} is neither used nor wanted"
    for variable in wants - types.keys():
        yield f"{variable} is wanted but never found"


def _text(category: Category, text: str, known: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[str]:
    """The errors in a phrasing. It must mention all `needed` constants except files, and only `known` constants."""
    keys = {key.removesuffix("[]"): type_ for key, type_ in known.items()}
    text = _ONE_OR_MANY.sub("", text)
    said = {
        name for match in _WRITTEN.finditer(text) for name in (_INNER.findall(match[2]) if match[1] else [match[2]])
    }
    for name in said - keys.keys():
        yield f"{text!r} has a slot {name!r}, which nothing fills"
    for key, type_ in needed.items():
        if key.removesuffix("[]") not in said and type_ in category.types and not category.types[type_].file:
            yield f"{text!r} does not tell {key}"

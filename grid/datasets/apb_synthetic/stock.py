"""The authored stock: types, functions, goal families of 22 categories (one YAML file each), and common types.

The values of a *type* are given by the query (`draw`) or found by tools (`make`); both keys have templates of
`grid.worlds.programs.model`. A *function* is `[takes, gives, the tool's description, the description as a gerund]`.
`takes` and `gives` are types. A name before the type names the parameter or field (`origin:city`); otherwise the
parameter or field has the type's name. A starred parameter is repeated for each item of the case. `instead` has a
second tool for a function. `useless` has tools that fit the scenario but serve no goal.

A *family* has constants that the query gives (`told`; `cities[]: city` is one city for each item), steps that find
facts (`steps`), wanted facts with their sentences (`wants`), and several phrasings of the request (`ask`). In a text,
`{?one|many}` becomes `one` if the case has one item, and `many` otherwise. Further requests are under `also`,
constraints under `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import DataError
from grid.core.types import Chain, Json, Parameter, Stage, Step, TaskKind, ToolCall, ToolSpec, Verdict
from grid.core.types import Family as ChainFamily
from grid.datasets.files import read_jsonl, read_stock
from grid.episode.plan_judging import JudgedTask
from grid.text.references import PATTERN
from grid.worlds.programs.model import Applied, Constant, Fact, Function, Task, TypedTool
from grid.worlds.programs.scoring import diagnose

# The typed tools of a category: its functions' tools, their replacements, and useless tools.


def function_of(category: Category, name: str, items: int) -> Function:
    """A function of a category, with its inputs for the given number of items."""
    takes, gives, _, _ = category.functions[name]
    inputs = [slot.type for slot in slots(takes) for _ in range(items if slot.starred else 1)]
    output = slots(gives)[0].type
    return Function(name, tuple(inputs), output, category.types[output].make or "")


@cache
def tool_of(category: Category, name: str, items: int) -> TypedTool:
    """A function's first tool, which has the function's name."""
    takes, gives, does, _ = category.functions[name]
    spec = ToolSpec(name, does, _parameters(category, takes, items), (slots(gives)[0].name,))
    return TypedTool(spec, (function_of(category, name, items),), serves=serves(category)[name])


@cache
def instead_of(category: Category, name: str, items: int) -> TypedTool:
    """A function's second tool, with its own name and its own parameter names."""
    other, takes, does = category.instead[name]
    field = slots(category.functions[name][1])[0].name
    spec = ToolSpec(other, does, _parameters(category, takes, items), (field,))
    return TypedTool(spec, (function_of(category, name, items),), serves=serves(category)[name], stands_for=name)


@cache
def useless(category: Category, name: str, items: int) -> TypedTool:
    """An extraneous tool: it fits the scenario but serves no goal."""
    takes, does = category.useless[name]
    return TypedTool(ToolSpec(name, does, _parameters(category, takes, items), ("result",)), ())


@cache
def serves(category: Category) -> Mapping[str, frozenset[str]]:
    """For each function, the tags of the category's goals that depend on facts found by the function."""
    found: dict[str, set[str]] = {name: set() for name in category.functions}
    for name, family in category.families.items():
        program = expand(category, name, tuple(family.also), 1)
        made = {step.variable: step for step in program.steps}
        for want in program.wants:
            waiting = [want.variable]
            for variable in waiting:  # the list grows during the loop
                if variable in made:
                    found[made[variable].function].add(want.tag)
                    waiting += made[variable].arguments
    return {name: frozenset(tags) for name, tags in found.items()}


def _parameters(category: Category, takes: str, items: int) -> tuple[Parameter, ...]:
    found = []
    for slot in slots(takes):
        means = category.types[slot.type].means
        if slot.starred:
            found += [
                Parameter(
                    f"{slot.name}_{number}", "string", f"{means} (number {number} in the order given in the request)"
                )
                for number in range(1, items + 1)
            ]
        else:
            found.append(Parameter(slot.name, "string", means))
    return tuple(found)


# A family expanded for a number of items and further requests: constants, steps in order, and wanted facts.


@dataclass(frozen=True)
class MadeStep:
    """A step: the variable that it finds (`place[1]` for the second item), its function and its arguments' names."""

    variable: str
    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Want:
    """A wanted variable, the tag of its intent, and its sentence."""

    variable: str
    tag: str
    text: str


@dataclass(frozen=True)
class Program:
    """A family expanded for a number of items. `told` maps each constant's name to the constant's type."""

    told: Mapping[str, str]
    steps: tuple[MadeStep, ...]
    wants: tuple[Want, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the steps call, each once, in order."""
        return tuple(dict.fromkeys(step.function for step in self.steps))


@cache
def expand(category: Category, name: str, extras: tuple[str, ...], items: int) -> Program:
    """The program of a family with its extras; every list has `items` items.

    Consecutive steps on items are done item by item. A call that two parts need is made only once. Raises ValueError if
    a step is not written as a call.
    """
    family = category.families[name]
    parts: list[Part] = [family, *(family.also[extra] for extra in extras)]
    told = {one: type_ for part in parts for key, type_ in part.told.items() for one in _each(key, items)}
    wants = [
        Want(one, f"{name}.{key.removesuffix('[]')}", text)
        for part in parts
        for key, text in part.wants.items()
        for one in _each(key, items)
    ]
    made, same = _once(step for part in parts for step in _steps(part, items))
    return Program(told, made, tuple(Want(same.get(one.variable, one.variable), one.tag, one.text) for one in wants))


def _once(steps: Iterable[MadeStep]) -> tuple[tuple[MadeStep, ...], dict[str, str]]:
    """Drop steps that repeat an earlier call; also map each dropped step's variable to the earlier call's variable."""
    found: dict[tuple[str, tuple[str, ...]], MadeStep] = {}
    same: dict[str, str] = {}
    for step in steps:
        arguments = tuple(same.get(name, name) for name in step.arguments)
        first = found.setdefault((step.function, arguments), MadeStep(step.variable, step.function, arguments))
        if first.variable != step.variable:
            same[step.variable] = first.variable
    return tuple(found.values()), same


def _steps(part: Part, items: int) -> Iterator[MadeStep]:
    for listed, group in groupby(part.steps.items(), key=lambda step: step[0].endswith("[]")):
        run = list(group)
        for place in range(items if listed else 1):
            for key, text in run:
                function, arguments = call(text)
                found = (one for argument in arguments for one in _argument(argument, place, items))
                yield MadeStep(_at(key, place), function, tuple(found))


def _each(key: str, items: int) -> list[str]:
    return [_at(key, place) for place in range(items)] if key.endswith("[]") else [key]


def _at(key: str, place: int) -> str:
    return f"{key.removesuffix('[]')}[{place}]" if key.endswith("[]") else key


def _argument(argument: str, place: int, items: int) -> list[str]:
    if argument.endswith("*"):
        return [f"{argument[:-1]}[{number}]" for number in range(items)]
    return [_at(argument, place)]


@dataclass(frozen=True)
class Shape:
    """A possible composition of a case (family, items, extras), with its number of steps and its functions."""

    family: str
    items: int
    extras: tuple[str, ...]
    steps: int
    functions: tuple[str, ...]


@cache
def shapes(category: Category) -> tuple[Shape, ...]:
    """Every shape of every family."""
    found = []
    for name, family in category.families.items():
        for items in range(family.items[0], family.items[1] + 1):
            for extras in _subsets(list(family.also)):
                program = expand(category, name, extras, items)
                found.append(Shape(name, items, extras, len(program.steps), program.functions))
    return tuple(found)


def _subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for name in names:
        found += [(*one, name) for one in found]
    return found


# The authored stock: types, functions, goal families of 22 categories (one YAML file each), and common types.
#
# The values of a *type* are given by the query (`draw`) or found by tools (`make`); both keys have templates of
# `grid.worlds.programs.model`. A *function* is `[takes, gives, the tool's description, the description as a gerund]`.
# `takes` and `gives` are types. A name before the type names the parameter or field (`origin:city`); otherwise the
# parameter or field has the type's name. A starred parameter is repeated for each item of the case. `instead` has a
# second tool for a function. `useless` has tools that fit the scenario but serve no goal.
#
# A *family* has constants that the query gives (`told`; `cities[]: city` is one city for each item), steps that find
# facts (`steps`), wanted facts with their sentences (`wants`), and several phrasings of the request (`ask`). In a
# text, `{?one|many}` becomes `one` if the case has one item, and `many` otherwise. Further requests are under `also`,
# constraints under `rules`.


STOCK = Path(__file__).parent / "stock"
COMMON = "common.yaml"
FRAMES = "frames.yaml"
_STEP = re.compile(r"(\w+)\((.*)\)")
RuleKind = Literal["before", "at_most", "forbid"]
M = TypeVar("M", bound=BaseModel)
Texts = Annotated[list[str], Field(min_length=2)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Type(_Strict):
    """The type of constants or facts. `means` describes a parameter of the type; `write` is a value's form in queries.

    `private` is the text that replaces the constant in a query that withholds it. `file`: the constant is an
    attachment, and no sentence of the query mentions it. `ordered`: a case's values of this type are sorted in
    ascending order.
    """

    means: str = Field(alias="is")
    draw: str | None = None
    make: str | None = None
    write: str = "{}"
    private: str | None = None
    file: bool = False
    ordered: bool = False


class Slot(_Strict):
    """A parameter or a field: its name and type. If `starred`, there is one parameter for each item."""

    name: str
    type: str
    starred: bool = False


class Rule(_Strict):
    """A constraint on a family's chain, and the sentences that express it."""

    kind: RuleKind
    of: list[str]
    say: Texts


class Part(_Strict):
    """A possible request: its constants, its steps (variable to call), and its wanted variables with sentences."""

    told: dict[str, str] = {}
    steps: dict[str, str]
    wants: Annotated[dict[str, str], Field(min_length=1)]


class Extra(Part):
    """A further request of a family, with the sentences that express it."""

    say: Texts


class Family(Part):
    """One kind of goal. Every list has at least `items[0]` and at most `items[1]` items."""

    items: tuple[int, int] = (1, 1)
    ask: Annotated[list[str], Field(min_length=3)]
    also: dict[str, Extra] = {}
    rules: list[Rule] = []


class Category(_Strict):
    """One of the 22 categories, as in its file."""

    category: str
    types: dict[str, Type]
    functions: dict[str, tuple[str, str, str, str]]
    instead: dict[str, tuple[str, str, str]]
    useless: dict[str, tuple[str, str]]
    families: dict[str, Family]

    def __hash__(self) -> int:
        """The name's hash, so that results for a category can be cached."""
        return hash(self.category)


class Frames(_Strict):
    """Sentences that fit every family; `{doing}`, `{then}`, `{first}`, `{n}` and `{tool}` are filled in."""

    forbid_tool: Texts
    removed: Texts
    cycle: Texts
    too_few: Texts
    forbidden: Texts
    offline: Texts
    errors: Texts
    number_words: list[str]


def slots(text: str) -> list[Slot]:
    """Read the slots in a text of `takes` or `gives`, such as `origin:city, stops*:city`."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, type_ = part.partition(":")
        name = name.strip()
        found.append(Slot(name=name.rstrip("*"), type=(type_ or name).strip().rstrip("*"), starred="*" in part))
    return found


def call(text: str) -> tuple[str, list[str]]:
    """Read a step: the function and its arguments' names. Raises ValueError if the text is not a step."""
    match = _STEP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"step {text!r} is not written as function(argument, argument)")
    return match[1], [one.strip() for one in match[2].split(",") if one.strip()]


@cache
def categories(folder: Path = STOCK) -> dict[str, Category]:
    """Every category by name, in the order of the files' names; its types include the common ones.

    Raises DataError with the file, the key and the value if a file does not have the required form.
    """
    common = {name: _read(Type, folder / COMMON, value, name) for name, value in read_stock(folder / COMMON).items()}
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name in (COMMON, FRAMES):
            continue
        one = _read(Category, path, read_stock(path))
        found[one.category] = one.model_copy(update={"types": {**common, **one.types}})
    return found


@cache
def frames(folder: Path = STOCK) -> Frames:
    """The sentences of `frames.yaml`. Raises the same errors as `categories`."""
    return _read(Frames, folder / FRAMES, read_stock(folder / FRAMES))


def _read(model: type[M], path: Path, value: object, under: str = "") -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join([*filter(None, [under]), *(str(part) for part in first["loc"])])
        raise DataError(path, None, f"{where}={first['input']!r}: {first['msg']}") from None


# A case in the form in which it is drawn: a line of `cases.jsonl`, which the stock expands into the whole case.


CASES = "cases.jsonl"
Unsolvable = Literal["contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"]
UNSOLVABLE: tuple[Unsolvable, ...] = (
    "contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"
)  # fmt: skip


class Recipe(BaseModel):
    """A case: its goal family, its number of items, its further requests (`extras`) and its constraints (`rules`).

    `base` names the solvable case from which the case is made; cases with the same base have the same constants. `bank`
    is the number of tools, not counting those that the task family adds; a case that needs more tools has more. `avoid`
    is a function whose second tool is offered but forbidden. `place` is the number of calls already made, and `k` is
    the number of calls to predict. In a broken case, `place` is the index of the failed call.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    base: str
    task_family: ChainFamily
    category: str
    family: str
    items: int = 1
    extras: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()
    avoid: str | None = None
    bank: int = 9
    seed: int = 0
    k: int | None = None
    place: int | None = None
    stage: Stage | None = None
    n_extraneous: int | None = None
    unsolvable: Unsolvable | None = None


def write(recipes: Iterable[Recipe], path: Path) -> None:
    """Write one line for each recipe."""
    text = "".join(recipe.model_dump_json(exclude_defaults=True) + "\n" for recipe in recipes)
    path.write_text(text, encoding="utf-8")


def read(path: Path) -> list[Recipe]:
    """The recipes of a file. Raises DataError with the number of a line that is not JSON or not a recipe."""
    found = []
    for number, line in read_jsonl(path, own=True):
        try:
            found.append(Recipe.model_validate(line, strict=False))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise DataError(path, number, f"{key}={first['input']!r}: {first['msg']}") from None
    return found


# The part of a generated case that a judge sees, and the true verdict on a plan for it (agent_planning_benchmark §C).


def judged_task(task: Task, kind: TaskKind, done: tuple[Step, ...]) -> JudgedTask:
    """The task as a judge sees it; `done` has the calls already made, with their results."""
    behind = task.reference[len(done) :] if kind.task_family != "unsolvable" else ()
    return JudgedTask(
        task.query,
        kind,
        tuple(tool.spec for tool in task.tools.values()),
        tuple(ToolCall(name, dict(arguments)) for name, arguments in behind),
        done,
        tuple(name for name, tool in task.tools.items() if tool.extraneous),
        task.broken,
        task.replacement,
        {name: tool.cost for name, tool in task.tools.items() if tool.cost is not None},
    )


def truth(task: Task, kind: TaskKind, chain: Chain) -> Verdict:
    """The symbolic scorer's verdict on a plan.

    For unsolvable cases and broken tools, the verdict has no errors and no grade. Raises ValueError as `diagnose` does.
    """
    found = diagnose(task, kind, chain)
    if kind.task_family in ("broken", "unsolvable"):
        return Verdict(found.correct)
    return Verdict(found.correct, found.errors, found.grade)


# The facts that the calls of a task's reference find, derived from the calls themselves.


Facts = Mapping[str, Fact]


def found(task: Task) -> list[dict[str, Applied]]:
    """For each call of the reference, the facts that it finds, by field; a call that failed finds no facts.

    Raises ValueError if an argument is neither a constant of the task nor a field of an earlier call.
    """
    told = {constant.value: constant for constant in task.constants}
    failed = {place for place, done in enumerate(task.done) if done.failed}
    outcomes: list[dict[str, Applied]] = []
    for place, (name, arguments) in enumerate(task.reference):
        given = {key: _fact(value, told, outcomes) for key, value in arguments.items()}
        outcomes.append({} if place in failed else applied(task.tools[name], given))
    return outcomes


def applied(tool: TypedTool, given: Facts) -> dict[str, Applied]:
    """The facts that a call of the tool finds, by field; the call's arguments are the facts in `given`."""
    outputs: list[Applied] = []
    names = [parameter.name for parameter in tool.spec.parameters]
    for number, part in enumerate(tool.parts):
        if tool.wiring:
            inputs = [given[str(of)] if kind == "parameter" else outputs[int(of)] for kind, of in tool.wiring[number]]
        else:
            inputs = [given[name] for name in names]
        outputs.append(Applied(part.name, tuple(inputs)))
    return dict(zip(tool.spec.returns, outputs, strict=True))


def _fact(value: Json, told: Mapping[str, Constant], outcomes: Sequence[Facts]) -> Fact:
    match = PATTERN.fullmatch(str(value))
    if match is None:
        if str(value) not in told:
            raise ValueError(f"no constant has the value {value!r}")
        return told[str(value)]
    place, field = int(match[1]), match[2]
    if place >= len(outcomes) or field not in outcomes[place]:
        raise ValueError(f"{value} is not a field of an earlier call")
    return outcomes[place][field]


def resolving(task: Task) -> tuple[str, ...]:
    """The positions, as texts, of those calls of the reference that are the first to find a wanted fact.

    Raises ValueError as `found` does, or KeyError if the reference does not find a wanted fact.
    """
    places: dict[Applied, int] = {}
    for place, outcome in enumerate(found(task)):
        for fact in outcome.values():
            places.setdefault(fact, place)
    return tuple(str(place) for place in sorted({places[fact] for fact in task.wanted}))


def needs(category: Category, function: str, other: str) -> bool:
    """Whether `function` needs a value that only the function `other` can find."""
    for slot in slots(category.functions[function][0]):
        makers = [name for name, (_, gives, _, _) in category.functions.items() if slots(gives)[0].type == slot.type]
        if makers == [other] and category.types[slot.type].draw is None:
            return True
    return False

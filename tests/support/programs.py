"""Random typed programs for tests: small, of every shape that a task may have."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from grid.core.types import Json, Parameter, ToolSpec
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
    value_of,
)

WORDS = ("hotel", "ticket", "budget", "forecast", "route", "invoice", "menu", "survey", "contract", "sample", "report")
VERBS = ("find", "list", "price", "check", "rank", "draw_up", "convert", "book", "merge", "audit")


def tool(
    name: str, function: Function, cost: int | None = None, serves: Sequence[str] = (), stands_for: str | None = None
) -> TypedTool:
    """A tool with one part."""
    parameters = tuple(
        Parameter(f"{type_}_{place}" if function.inputs.count(type_) > 1 else type_, "string", f"a {type_}")
        for place, type_ in enumerate(function.inputs)
    )
    spec = ToolSpec(name, f"finds a {function.output}", parameters, (f"{function.output}_found",))
    return TypedTool(spec, (function,), serves=frozenset(serves), cost=cost, stands_for=stands_for)


def extraneous(name: str, type_: str) -> TypedTool:
    """A tool that finds nothing of use."""
    return TypedTool(ToolSpec(name, "looks useful", (Parameter(type_, "string", f"a {type_}"),), ("result",)), ())


def composite(name: str, first: TypedTool, second: TypedTool, place: int, cost: int) -> TypedTool:
    """Two tools in one, the first one's output at an input of the second."""
    one, other = first.parts[0], second.parts[0]
    parameters = [Parameter(f"a_{parameter.name}", "string", "") for parameter in first.spec.parameters]
    wires: list[tuple[str, str | int]] = []
    for number, parameter in enumerate(second.spec.parameters):
        if number == place:
            wires.append(("part", 0))
        else:
            parameters.append(Parameter(f"b_{parameter.name}", "string", ""))
            wires.append(("parameter", f"b_{parameter.name}"))
    wiring = (tuple(("parameter", f"a_{parameter.name}") for parameter in first.spec.parameters), tuple(wires))
    returns = (f"a_{first.spec.returns[0]}", f"b_{second.spec.returns[0]}")
    spec = ToolSpec(name, "does both", tuple(parameters), returns)
    return TypedTool(spec, (one, other), wiring, first.serves | second.serves, cost)


@dataclass
class Shape:
    """How large a random task is."""

    types: int = 5
    functions: int = 6
    constants: int = 3
    steps: int = 6
    costs: bool = False
    composites: int = 0
    extraneous: int = 2
    others: int = 2


def task(rng: random.Random, shape: Shape | None = None) -> Task:
    """A solvable task without constraints, and its reference."""
    shape = shape or Shape()
    types = rng.sample(WORDS, shape.types)
    functions = [
        Function(
            f"{rng.choice(VERBS)}_{number}_{types[number % shape.types]}",
            tuple(rng.choices(types[: max(1, number)], k=rng.randint(1, 2))),
            types[(number + 1) % shape.types],
            "{d8}",
        )
        for number in range(shape.functions)
    ]
    constants = [
        Constant(
            types[place] if place < 2 else rng.choice(types[:2]),
            f"{types[0].title()} {rng.randrange(10**6)}",
            f"told {place}",
        )
        for place in range(shape.constants)
    ]
    found: list[Fact] = list(constants)
    made: list[Applied] = []
    types_of = {part.name: part.output for part in functions}

    def type_of(fact: Fact) -> str:
        return fact.type if isinstance(fact, Constant) else types_of[fact.function]

    for _ in range(50 * shape.steps):
        if len(made) == shape.steps:
            break
        function = rng.choice(functions)
        options = [[fact for fact in found if type_of(fact) == type_] for type_ in function.inputs]
        if all(options):
            fact = Applied(function.name, tuple(rng.choice(of[-2:]) for of in options))
            if fact not in found:
                found.append(fact)
                made.append(fact)
    used = {part for fact in made for part in fact.inputs}
    wanted = [fact for fact in made if fact not in used or rng.random() < 0.15] or made[-1:]
    by_name = {part.name: part for part in functions}
    tools = {
        f"{part.name}_tool": tool(f"{part.name}_tool", part, rng.randint(1, 5) if shape.costs else None, ["own"])
        for part in functions
    }
    return finished(rng, shape, tuple(constants), made, wanted, tools, by_name, types)


def finished(
    rng: random.Random,
    shape: Shape,
    constants: tuple[Constant, ...],
    made: Sequence[Applied],
    wanted: Sequence[Applied],
    tools: dict[str, TypedTool],
    functions: Mapping[str, Function],
    types: Sequence[str],
) -> Task:
    """The task with all its tools in any order."""
    bases = list(tools.values())
    for number in range(shape.composites):
        pairs = [
            (one, other, place)
            for one in bases
            for other in bases
            for place, type_ in enumerate(other.parts[0].inputs)
            if type_ == one.parts[0].output
        ]
        if pairs:
            one, other, place = rng.choice(pairs)
            cost = max(1, (one.cost or 0) + (other.cost or 0) - rng.randint(-1, 3))
            tools[f"both_{number}"] = composite(f"both_{number}", one, other, place, cost)
    for number in range(shape.extraneous):
        name = f"shiny_{number}"
        tools[name] = extraneous(name, rng.choice(types))
    for number in range(shape.others):
        name, type_ = f"foreign_{number}", rng.choice(types[:2])
        odd = Function(name, (type_,), f"oddity_{number}", "{d8}")
        tools[name] = tool(name, odd, rng.randint(1, 5) if shape.costs else None, ["another goal"])
    names = rng.sample(list(tools), len(tools))
    needed = _closure(wanted)
    goals = tuple(Goal(fact, "own", f"find {fact.function}") for fact in wanted)
    steps = [fact for fact in made if fact in needed]
    return Task("Please.", goals, constants, {name: tools[name] for name in names}, tuple(_reference(steps, tools)))


def _closure(wanted: Sequence[Fact]) -> set[Fact]:
    found: set[Fact] = set()
    pending = list(wanted)
    for fact in pending:
        if fact not in found:
            found.add(fact)
            pending += fact.inputs if isinstance(fact, Applied) else ()
    return found


def _reference(steps: Sequence[Applied], tools: Mapping[str, TypedTool]) -> list[tuple[str, Mapping[str, Json]]]:
    places = {fact: place for place, fact in enumerate(steps)}
    chain: list[tuple[str, Mapping[str, Json]]] = []
    for fact in steps:
        spec = tools[f"{fact.function}_tool"].spec
        arguments: dict[str, Json] = {}
        for parameter, part in zip(spec.parameters, fact.inputs, strict=True):
            if isinstance(part, Constant):
                arguments[parameter.name] = part.value
            else:
                field = tools[f"{part.function}_tool"].spec.returns[0]
                arguments[parameter.name] = reference(str(places[part]), field)
        chain.append((spec.name, arguments))
    return chain


def restricted(rng: random.Random, of: Task, count: int = 2) -> Task:
    """The task with random constraints, whether it can keep to them or not."""
    functions = [part.name for one in of.tools.values() for part in one.parts]
    found = []
    for _ in range(count):
        one, other = rng.choice(functions), rng.choice(functions)
        kind = rng.choice(["forbid_function", "require_function", "before", "at_most", "forbid_tool"])
        arguments = {
            "forbid_function": (one,),
            "require_function": (one,),
            "before": (one, other),
            "at_most": (one, str(rng.randint(0, 3))),
            "forbid_tool": (rng.choice(list(of.tools)),),
        }[kind]
        found.append(Constraint(kind, arguments, f"{kind} {arguments}"))  # type: ignore[arg-type]
    return replace(of, constants=of.constants, constraints=tuple(found))


def asking(rng: random.Random, of: Task, count: int = 2) -> Task:
    """The task with constraints that its reference keeps to, and another tool for one of its functions."""
    made = [of.tools[name].parts[0].name for name, _ in of.reference]
    tools = dict(of.tools)
    rules: list[Constraint] = []
    for kind in rng.sample(["forbid_function", "require_function", "before", "at_most", "forbid_tool"], count):
        one = rng.choice(made)
        if kind == "at_most":
            rules.append(Constraint("at_most", (one, str(made.count(one))), f"{one} as often as need be"))
        elif kind == "require_function":
            rules.append(Constraint("require_function", (one,), f"{one} has to be called"))
        elif kind == "before":
            others = [name for name in made if made.index(name) > made.index(one)]
            if others:
                rules.append(Constraint("before", (one, rng.choice(others)), f"{one} comes first"))
        elif kind == "forbid_tool":
            old = tools[f"{one}_tool"]
            names = [replace(parameter, name=f"my_{parameter.name}") for parameter in old.spec.parameters]
            spec = ToolSpec(f"other_{one}", "does the same", tuple(names), (f"my_{old.spec.returns[0]}",))
            tools[spec.name] = replace(old, spec=spec, stands_for=old.spec.name)
            rules.append(Constraint("forbid_tool", (spec.name,), f"not with {spec.name}"))
        else:
            spare = Function(f"spare_{one}", (of.constants[0].type,), "oddity", "{d8}")
            tools[f"{spare.name}_tool"] = tool(f"{spare.name}_tool", spare, None, ["own"])
            rules.append(Constraint("forbid_function", (spare.name,), f"no {spare.name}"))
    return replace(of, tools=tools, constraints=tuple(rules))


def begun(of: Task, calls: int) -> Task:
    """The task behind the first calls of its reference."""
    functions = {part.name: part for one in of.tools.values() for part in one.parts}
    values: list[str] = []
    facts: list[Applied] = []
    done = []
    by_value = {one.value: one for one in of.constants}
    for name, arguments in of.reference[:calls]:
        own = of.tools[name]
        given: dict[str, Json] = {}
        inputs: list[Fact] = []
        for key, value in arguments.items():
            text = str(value)
            if text.startswith("OUTPUT_FROM_STEP_"):
                place = int(text.removeprefix("OUTPUT_FROM_STEP_").partition(".")[0])
                given[key] = values[place]
                inputs.append(facts[place])
            else:
                given[key] = value
                inputs.append(next(one for one in [by_value[text]]))
        facts.append(Applied(own.parts[0].name, tuple(inputs)))
        values.append(value_of(facts[-1], functions))
        done.append(Done(name, given, {own.spec.returns[0]: values[-1]}))
    return replace(of, done=tuple(done))

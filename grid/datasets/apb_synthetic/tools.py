"""The typed tools of a category: of its functions, of what stands for them, and of what is useless."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from grid.core.types import Parameter, ToolSpec
from grid.datasets.apb_synthetic.expansion import expand
from grid.datasets.apb_synthetic.stock import Category, slots
from grid.worlds.programs.model import Function, TypedTool


def function_of(category: Category, name: str, items: int) -> Function:
    """A function of a category, for so many items."""
    takes, gives, _, _ = category.functions[name]
    inputs = [slot.type for slot in slots(takes) for _ in range(items if slot.starred else 1)]
    output = slots(gives)[0].type
    return Function(name, tuple(inputs), output, category.types[output].make or "")


@cache
def tool_of(category: Category, name: str, items: int) -> TypedTool:
    """The tool that is called as its function."""
    takes, gives, does, _ = category.functions[name]
    spec = ToolSpec(name, does, _parameters(category, takes, items), (slots(gives)[0].name,))
    return TypedTool(spec, (function_of(category, name, items),), serves=serves(category)[name])


@cache
def instead_of(category: Category, name: str, items: int) -> TypedTool:
    """The other tool for a function's work: it has its own name, and its own names of parameters."""
    other, takes, does = category.instead[name]
    field = slots(category.functions[name][1])[0].name
    spec = ToolSpec(other, does, _parameters(category, takes, items), (field,))
    return TypedTool(spec, (function_of(category, name, items),), serves=serves(category)[name], stands_for=name)


@cache
def useless(category: Category, name: str, items: int) -> TypedTool:
    """An extraneous tool: of the scenario, and of no use for any goal."""
    takes, does = category.useless[name]
    return TypedTool(ToolSpec(name, does, _parameters(category, takes, items), ("result",)), ())


@cache
def serves(category: Category) -> Mapping[str, frozenset[str]]:
    """By function the tags of all goals of the category that are made from what it finds."""
    found: dict[str, set[str]] = {name: set() for name in category.functions}
    for name, family in category.families.items():
        program = expand(category, name, tuple(family.also), 1)
        made = {step.variable: step for step in program.steps}
        for want in program.wants:
            waiting = [want.variable]
            for variable in waiting:  # which grows
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
                Parameter(f"{slot.name}_{number}", "string", f"{means}; number {number} in the order of the request")
                for number in range(1, items + 1)
            ]
        else:
            found.append(Parameter(slot.name, "string", means))
    return tuple(found)

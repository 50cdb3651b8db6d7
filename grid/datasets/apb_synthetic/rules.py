"""Which rules the stock breaks, a line each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from grid.core.types import REJECT
from grid.datasets.apb_synthetic.draw import fits
from grid.datasets.apb_synthetic.expansion import Program, expand
from grid.datasets.apb_synthetic.stock import Category, Family, slots
from grid.worlds.programs.values import possibilities

MANY = 10_000
"""In so many ways at least values of a type that is found can be made up."""
MOST_EXTRANEOUS = 10
_WRITTEN = re.compile(r"\{(each )?([^{}]+)\}")
_ONE_OR_MANY = re.compile(r"\{\?[^{}|]*\|[^{}|]*\}")
_INNER = re.compile(r"<(\w+)>")


def problems(categories: Mapping[str, Category]) -> list[str]:
    """Every rule that is broken; empty when the stock is sound."""
    found: list[str] = []
    names: dict[str, str] = {REJECT: "the grid"}
    for category in categories.values():
        found += [f"{category.category}: {text}" for text in _category(category)]
        for name in (*category.functions, *(one[0] for one in category.instead.values()), *category.useless):
            if name in names:
                found.append(f"{category.category}: tool {name} is also one of {names[name]}")
            names[name] = category.category
        for name in category.families:
            if names.get(f"family {name}"):
                found.append(f"{category.category}: family {name} is also one of {names[f'family {name}']}")
            names[f"family {name}"] = category.category
    return found


def _category(category: Category) -> Iterator[str]:
    for name, type_ in category.types.items():
        if (type_.draw is None) == (type_.make is None):
            yield f"type {name}: it is either told (draw) or found (make)"
        if type_.make is not None and possibilities(type_.make) < MANY:
            yield f"type {name}: {type_.make!r} gives {possibilities(type_.make)} values, {MANY} are needed"
        if type_.draw is not None and not type_.file and type_.private is None:
            yield f"type {name}: a type that is told, and no file, has a private form"
    for name, (takes, gives, *_) in category.functions.items():
        for slot in (*slots(takes), *slots(gives)):
            if slot.type not in category.types:
                yield f"function {name}: no type {slot.type!r}"
        if slots(gives)[0].type in category.types and category.types[slots(gives)[0].type].make is None:
            yield f"function {name}: it gives {slots(gives)[0].type}, which is told"
    for name, (_, takes, _) in category.instead.items():
        if name not in category.functions:
            yield f"instead of {name}: no such function"
        elif [slot.type for slot in slots(takes)] != [slot.type for slot in slots(category.functions[name][0])]:
            yield f"instead of {name}: it takes other types"
    for name, (takes, _) in category.useless.items():
        if any(slot.type not in category.types for slot in slots(takes)):
            yield f"useless {name}: no type in {takes!r}"
    if len(category.useless) < MOST_EXTRANEOUS:
        yield f"{len(category.useless)} useless tools, {MOST_EXTRANEOUS} are needed"
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
            yield f"{text!r} speaks of an attachment, or the family has one"
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
            yield f"rule {rule.kind}: no function {unknown[0]}"
        elif not any(fits(rule, order) for order in orders):
            yield f"rule {rule.kind} {rule.of}: no chain of the family keeps to it"
        if rule.kind == "at_most" and any("{n}" not in text for text in rule.say):
            yield f"rule {rule.kind} {rule.of}: a sentence lacks {{n}}"


def _program(category: Category, program: Program) -> Iterator[str]:
    types = dict(program.told)
    for name, type_ in program.told.items():
        if type_ not in category.types or category.types[type_].draw is None:
            yield f"{name}: {type_!r} is no type that is told"
    used: set[str] = set()
    for step in program.steps:
        if step.function not in category.functions:
            yield f"step {step.variable}: no function {step.function!r}"
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
        yield f"{variable} is wanted and not found"


def _text(category: Category, text: str, known: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[str]:
    """A phrasing tells all constants but files, and nothing else."""
    keys = {key.removesuffix("[]"): type_ for key, type_ in known.items()}
    text = _ONE_OR_MANY.sub("", text)
    said = {
        name for match in _WRITTEN.finditer(text) for name in (_INNER.findall(match[2]) if match[1] else [match[2]])
    }
    for name in said - keys.keys():
        yield f"{text!r} has a slot {name!r}, which nothing tells"
    for key, type_ in needed.items():
        if key.removesuffix("[]") not in said and type_ in category.types and not category.types[type_].file:
            yield f"{text!r} does not tell {key}"

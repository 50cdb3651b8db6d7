"""A family with so many items and some further wishes, written out: constants, steps in order, wanted facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from grid.datasets.apb_synthetic.stock import Category, Part, call


@dataclass(frozen=True)
class MadeStep:
    """A step: the variable that it finds (`place[1]`: the second item's), its function, and its arguments' names."""

    variable: str
    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Want:
    """A wanted variable, the tag of its intent and its sentence."""

    variable: str
    tag: str
    text: str


@dataclass(frozen=True)
class Program:
    """A family written out. `told` maps each constant's name to its type."""

    told: Mapping[str, str]
    steps: tuple[MadeStep, ...]
    wants: tuple[Want, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """Those that the steps call, each once, in order."""
        return tuple(dict.fromkeys(step.function for step in self.steps))


@cache
def expand(category: Category, name: str, extras: tuple[str, ...], items: int) -> Program:
    """The family's own steps and those of the extras, with so many items of everything that comes in lists.

    Steps on items that stand together are taken item by item. A call that two parts need is made once.
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
    """The steps without those that repeat a call, and by variable of such a one the variable that has its fact."""
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
    """What a case of a category may be made of, and how many steps it has then."""

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

"""A reference chain taken apart, so that it can be changed and written down again, as references or in words."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grid.core.chains import Chain, ChainCall
from grid.core.types import Json
from grid.text.references import PATTERN, reference
from grid.worlds.programs.model import Applied, Fact, Task, TypedTool
from grid.worlds.programs.universe import inputs_of, wiring_of

_WORDS = (
    "the {field} returned from step {number}",
    "the {field} that step {number} gives",
    "{field} from the output of step {number}",
    "Result of step {number} ({field})",
)
_BY_TOOL = ("the {field} from {tool}", "the {field} that {tool} returned", "output of {tool}: {field}")


@dataclass(eq=False)
class Step:
    """A call in the making. Steps are told apart as objects, so that references survive any reordering."""

    tool: str
    arguments: dict[str, Argument]
    misnamed: str = ""
    """What it is called instead."""


@dataclass(frozen=True)
class Output:
    """An argument that is a field of a step's result."""

    of: Step
    field: str


Argument: TypeAlias = "str | Output"


@dataclass
class Draft:
    """The steps of a chain: `done` were made before, `steps` are to be predicted."""

    task: Task
    done: list[Step]
    steps: list[Step]
    rest: list[Step] = field(default_factory=list)
    horizon: int | None = None

    def facts(self, step: Step) -> dict[str, Fact]:
        """By field what a step finds."""
        tool = self.task.tools[step.tool]
        found: list[Fact] = []
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True):
            of = [
                self.fact(step.arguments[str(at)], tool, str(at)) if kind == "parameter" else found[int(at)]
                for kind, at in wires
            ]
            found.append(Applied(part.name, tuple(of)))
        return dict(zip(tool.spec.returns, found, strict=False))

    def fact(self, argument: Argument, tool: TypedTool, name: str) -> Fact:
        """What an argument stands for."""
        if isinstance(argument, Output):
            return self.facts(argument.of)[argument.field]
        type_ = inputs_of(tool)[name]
        return next(one for one in self.task.constants if one.type == type_ and one.value == argument)

    def users(self, step: Step) -> list[Step]:
        """The steps to be predicted that use a step's result."""
        return [one for one in self.steps if any(output.of is step for output in outputs(one))]

    def types(self, step: Step) -> dict[str, str]:
        """The types of a step's arguments."""
        return inputs_of(self.task.tools[step.tool])

    def there(self, place: int) -> list[tuple[str, Argument]]:
        """What there is to be used by the step at a place: types and arguments."""
        told: list[tuple[str, Argument]] = [(one.type, one.value) for one in self.task.constants]
        for step in [*self.done, *self.steps[:place]]:
            tool = self.task.tools.get(step.tool)
            for name, part in zip(tool.spec.returns, tool.parts, strict=False) if tool else ():
                told.append((part.output, Output(step, name)))
        return told


def outputs(step: Step) -> Iterator[Output]:
    """The results that a step uses."""
    return (one for one in step.arguments.values() if isinstance(one, Output))


def draft(task: Task, horizon: int | None) -> Draft:
    """The reference taken apart: behind the calls made before, and so many steps where the task is step-wise."""
    steps: list[Step] = []
    for name, arguments in task.reference:
        steps.append(Step(name, {key: _argument(value, steps) for key, value in arguments.items()}))
    begun = len(task.done)
    ends = len(steps) if horizon is None else begun + horizon
    return Draft(task, steps[:begun], steps[begun:ends], steps[ends:], horizon)


def _argument(value: Json, steps: Sequence[Step]) -> Argument:
    match = PATTERN.fullmatch(value) if isinstance(value, str) else None
    return Output(steps[int(match[1])], match[2]) if match else str(value)


def written(made: Draft, rng: random.Random, refusal: str | None = None) -> Chain:
    """The chain, with references or in words; whole plans are numbered from 0 or from 1.

    A step that is gone is named by its tool, or by a number that no step has. A result of a call made before may be
    written as its value.
    """
    first = len(made.done) if made.done else rng.randrange(2)
    in_words = rng.random() < 0.5
    numbers = {id(step): first - len(made.done) + place for place, step in enumerate([*made.done, *made.steps])}
    values = {id(step): call.content for step, call in zip(made.done, made.task.done, strict=False)}
    counts: dict[str, int] = {}
    for step in [*made.done, *made.steps]:
        counts[_name(step)] = counts.get(_name(step), 0) + 1

    def text(argument: Argument, by: Step) -> Json:
        if not isinstance(argument, Output):
            return argument
        tool, number = _name(argument.of), numbers.get(id(argument.of))
        value = _value(values.get(id(argument.of), {}), argument.field)
        if value is not None and rng.random() < 0.5:
            return value
        if number is None and (tool in counts or rng.random() < 0.5):
            number = first + len(made.steps) + rng.randrange(3)
        if number is None or (in_words and counts.get(tool) == 1 and by.tool != tool and rng.random() < 0.5):
            if rng.random() < 0.3:
                return f"${tool}.{argument.field}"
            return rng.choice(_BY_TOOL).format(field=argument.field, tool=tool)
        if in_words:
            return rng.choice(_WORDS).format(field=argument.field, number=number)
        return reference(str(number), argument.field)

    calls = tuple(
        ChainCall(_name(step), {name: text(argument, step) for name, argument in step.arguments.items()})
        for step in made.steps
    )
    return Chain(calls, refusal, first=first)


def _name(step: Step) -> str:
    return step.misnamed or step.tool


def _value(content: Mapping[str, Json], name: str) -> str | None:
    found = content.get(name)
    return found if isinstance(found, str) else None

"""What the calls of a task's reference find, read off the calls themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.core.types import Json
from grid.text.references import PATTERN
from grid.worlds.programs.model import Applied, Constant, Fact, Task, TypedTool

Facts = Mapping[str, Fact]


def found(task: Task) -> list[dict[str, Applied]]:
    """By call of the reference the facts by field; a call that failed finds none.

    Raises ValueError where an argument is neither a constant that the task tells nor an earlier call's field.
    """
    told = {constant.value: constant for constant in task.constants}
    failed = {place for place, done in enumerate(task.done) if done.failed}
    outcomes: list[dict[str, Applied]] = []
    for place, (name, arguments) in enumerate(task.reference):
        given = {key: _fact(value, told, outcomes) for key, value in arguments.items()}
        outcomes.append({} if place in failed else applied(task.tools[name], given))
    return outcomes


def applied(tool: TypedTool, given: Facts) -> dict[str, Applied]:
    """By field what a call finds with these facts as arguments."""
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
        raise ValueError(f"{value} is no field of an earlier call")
    return outcomes[place][field]


def resolving(task: Task) -> tuple[str, ...]:
    """The calls of the reference that first find the wanted facts, by number."""
    places: dict[Applied, int] = {}
    for place, outcome in enumerate(found(task)):
        for fact in outcome.values():
            places.setdefault(fact, place)
    return tuple(str(place) for place in sorted({places[fact] for fact in task.wanted}))

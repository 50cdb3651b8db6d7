"""What a case is drawn as: a line of `cases.jsonl`, of which the stock makes the whole case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from grid.core.errors import DataError
from grid.core.types import Chain, Family, Json, Stage, Step, TaskKind, ToolCall, Verdict
from grid.datasets.files import read_jsonl
from grid.episode.plan_judging import JudgedTask
from grid.text.references import PATTERN
from grid.worlds.programs.model import Applied, Constant, Fact, Task, TypedTool
from grid.worlds.programs.scoring import diagnose

CASES = "cases.jsonl"
Unsolvable = Literal["contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"]
UNSOLVABLE: tuple[Unsolvable, ...] = (
    "contradictory_constraints", "missing_information", "tool_removal", "attachment_missing"
)  # fmt: skip


class Recipe(BaseModel):
    """A case: of which goal family, with so many items, further wishes (`extras`) and constraints (`rules`).

    `base` names the solvable case that it is made from; cases with one base have the same constants. `bank` is the
    number of tools, `avoid` a function whose other tool is on offer and forbidden. `place` counts the calls that were
    made before, `k` those to predict. Of a broken case `place` is the call that failed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    base: str
    task_family: Family
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
    """One line each."""
    text = "".join(recipe.model_dump_json(exclude_defaults=True) + "\n" for recipe in recipes)
    path.write_text(text, encoding="utf-8")


def read(path: Path) -> list[Recipe]:
    """The recipes of a file; raises DataError with the line of one that does not have this form."""
    found = []
    for number, line in read_jsonl(path, own=True):
        try:
            found.append(Recipe.model_validate(line, strict=False))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise DataError(path, number, f"{key}={first['input']!r}: {first['msg']}") from None
    return found


# What a judge is shown of a generated case, and what is true of a plan of it (agent_planning_benchmark §C).


def judged_task(task: Task, kind: TaskKind, done: tuple[Step, ...]) -> JudgedTask:
    """The task in words; `done` are its first calls with what they returned."""
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
    """What the symbolic scorer says of a plan."""
    found = diagnose(task, kind, chain)
    if kind.task_family in ("broken", "unsolvable"):
        return Verdict(found.correct)
    return Verdict(found.correct, found.errors, found.grade)


# What the calls of a task's reference find, read off the calls themselves.


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

"""Small datasets: tasks in a JSON Lines file, and tools that are Python functions.

A line has a `question` and the `calls` that answer it ({"tool", "arguments"}; `OUTPUT_FROM_STEP_0.result` is replaced
by the result of the first call, and `OUTPUT_FROM_STEP_0.year` by the field `year` of a returned dict). If several tasks
are made from one template, their lines also have the template's name as `cluster`. A line may also have `milestones`
and `forbidden` calls (`grid.datasets.milestones`).
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PydanticUserError, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, ToolError, nearest
from grid.core.problem import BRANCHING, REFERENCES, Milestone, Outline, Problem, Reference
from grid.core.types import RESULT, Case, Json, Parameter, Plan, Skipped, ToolCall, ToolSpec, to_json
from grid.core.util import STRICT
from grid.datasets.dataset import Order, ordered
from grid.datasets.files import fingerprint, read_jsonl, wrong_line
from grid.datasets.grading import listed
from grid.datasets.milestones import Milestones
from grid.datasets.parameters import alternatives, details, type_text, whole
from grid.text import references
from grid.worlds.functions import Function, FunctionWorld, Outcome, called, outcome

ADAPTER = 1
"""Increase this number when changed code yields different cases, tools or outcomes for the same file."""


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class _Record(Milestones):
    model_config = ConfigDict(extra="forbid", strict=True)
    question: Annotated[str, Field(pattern=r"\S")]
    calls: Annotated[list[_Call], Field(min_length=1, max_length=100)]
    cluster: str | None = None


@plain_dataclass(frozen=True)
class _Task:
    question: str
    calls: Mapping[str, ToolCall]
    goal: Outcome
    cluster: str
    milestones: tuple[Milestone, ...] = ()
    forbidden: tuple[Milestone, ...] = ()


@dataclass(config=STRICT)
class FunctionTasks(ABC):
    """Tasks whose tools are Python functions.

    A case is resolved when the planner has obtained the result of the reference's last call from the same tool. Earlier
    calls do not matter.

    Args:
        path: the file; None: the file that is next to the class's module and has its name.
        limit: the maximum number of cases; None: all.
        order: `sampled`, so that every prefix represents all clusters in proportion, or `file`, the file's order.
        outline: the plan that planners have to follow; the cases themselves have no plans.
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @abstractmethod
    def functions(self) -> Sequence[Function]:
        """The tools: pure functions with docstrings and annotated arguments."""

    @cached_property
    def _file(self) -> Path:
        beside = Path(inspect.getfile(type(self))).with_suffix(".jsonl")
        file = Path(self.path).expanduser() if self.path else beside
        if not file.is_file():
            raise ConfigError("dataset.path", self.path or str(file), "a JSON Lines file of tasks")
        return file

    @cached_property
    def version(self) -> str:
        """The adapter's version and the file's fingerprint."""
        return f"functions-a{ADAPTER}-{fingerprint(self._file)}"

    @cached_property
    def _by_name(self) -> Mapping[str, Function]:
        return {function.__name__: function for function in self.functions()}

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools made from the functions."""
        return {name: tool_of(function) for name, function in self._by_name.items() if self._file}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Lines that cannot be cases."""
        return self._read[1]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self.cluster,))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The `cluster` of the case's line; if the line has none, the case is a cluster of its own."""
        return self._read[0][case_id].cluster

    def problem(self, case_id: str) -> Problem:
        """One task; all tools are candidates."""
        task, tools = self._read[0][case_id], tuple(self.tools.values())
        return Problem(
            case=Case(case_id, task.question, Plan(())),
            reference=Reference(
                task.calls,
                (list(task.calls)[-1],),
                followed=False,
                milestones=task.milestones,
                forbidden=task.forbidden,
            ),
            world=FunctionWorld(self._by_name, task.goal),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
        )

    @cached_property
    def _read(self) -> tuple[dict[str, _Task], list[Skipped]]:
        tasks, skipped = dict[str, _Task](), list[Skipped]()
        for number, record in read_jsonl(self._file, own=True):
            case_id, place = f"{self._file.stem}-{number:04d}", f"{self._file.name}:{number}"
            try:
                tasks[case_id] = self._task(_Record.model_validate(record), case_id)
            except ValidationError as error:
                skipped.append(Skipped(case_id, wrong_line(error, _Record), place))
            except (ValueError, ToolError) as error:
                skipped.append(Skipped(case_id, str(error), place))
        return tasks, skipped

    def _task(self, record: _Record, case_id: str) -> _Task:
        """Run the calls of a line; raises ValueError or ToolError if they cannot be run."""
        calls = {str(place): ToolCall(one.tool, one.arguments) for place, one in enumerate(record.calls)}
        outcomes = dict[str, Mapping[str, Json]]()
        for step, call in calls.items():
            if call.tool not in self._by_name:
                known = [*self._by_name]
                raise ValueError(
                    f"there is no tool {call.tool:.80}{nearest(call.tool, known)}; the tools are {', '.join(known)}"
                )
            if why := references.without_value(call, outcomes):
                raise ValueError(f"call {step} {why}")
            found = called(self._by_name[call.tool], references.resolve(call, outcomes))
            if found.failed:
                raise ValueError(f"call {step} fails: {found.content['error']}")
            outcomes[step] = found.content
        named = record.named([*self._by_name])
        return _Task(record.question, calls, outcome(call, found), record.cluster or case_id, *named)


# Python functions as planners see them: the signature and docstring become a tool's description.


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ARGUMENT = re.compile(r"\s*(\w+)(?: \([^)]*\))?:\s*(.*)")
_HEADING = re.compile(r"(Args|Returns|Raises|Yields|Examples?|Notes?):\s*")


def tool_of(function: Function) -> ToolSpec:
    """A function as planners see it: its name, the first paragraph of its docstring, and its annotated arguments.

    The description of an argument is its text in the docstring's `Args:`. An argument with a default may be left out.
    If the function returns a TypedDict, the tool's outcome has the TypedDict's fields; if not, it has the field
    `result`.

    Raises:
        ConfigError: the function has no docstring, or an argument has no name, no type or a type that JSON lacks.
    """
    name, text = function.__name__, inspect.getdoc(function) or ""
    if not text:
        raise ConfigError("tool", name, "a function with a docstring, because planners read the docstring")
    described = dict(_described(text))
    parameters = tuple(
        _parameter(name, one, hint, described.get(one.name, "")) for one, hint in _arguments(name, function)
    )
    returned = get_type_hints(function).get("return")
    fields = tuple(get_type_hints(returned)) if is_typeddict(returned) else ()
    return ToolSpec(name, " ".join(text.split("\n\n")[0].split()), parameters, fields or (RESULT,))


def _arguments(name: str, function: Function) -> Iterator[tuple[inspect.Parameter, Any]]:
    hints = get_type_hints(function)
    for one in inspect.signature(function).parameters.values():
        if one.kind not in _NAMED or one.name not in hints:
            raise ConfigError(
                f"tool {name}", one.name, "an argument with a name and a type, as in def add(a: int, b: int)"
            )
        yield one, hints[one.name]


def _parameter(tool: str, one: inspect.Parameter, hint: Any, description: str) -> Parameter:
    try:
        schema = TypeAdapter(hint).json_schema()
    except PydanticUserError as error:
        raise ConfigError(f"tool {tool}", one.name, f"an argument of a type that JSON has ({error.message})") from None
    choices = alternatives(schema)
    chosen = choices[0] if len(choices) == 1 else schema
    default = {} if one.default in (one.empty, None) else {"default": one.default}
    told = chosen | {"description": description} | default
    values = listed(chosen)  # native function calling needs them as `enum`
    kept = to_json(chosen) if values else whole(chosen) if len(choices) > 1 else ""
    kept = "" if "$defs" in schema else kept  # a kept schema cannot contain the $defs
    return Parameter(one.name, type_text(chosen), details(told), one.default is one.empty, values, kept)


def _described(text: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each argument in a docstring's `Args:`."""
    within, name, said = False, "", list[str]()
    for line in text.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading or not line.strip():
            within = bool(heading and heading[1] == "Args") or (within and not heading)
            continue
        begun = _ARGUMENT.fullmatch(line) if within else None
        if begun:
            yield name, " ".join(said)
            name, said = begun[1], [begun[2].strip()]
        elif within:
            said.append(line.strip())
    yield name, " ".join(said)

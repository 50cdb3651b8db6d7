"""Tasks for the tools of MCP servers, read strictly from JSON Lines, and what each task expects after an episode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from grid.core.errors import ConfigError, DataError, nearest
from grid.core.types import RESULT, Json, ToolCall, ToolSpec, to_json
from grid.core.untrusted import loads
from grid.datasets.files import read_jsonl, wrong_line
from grid.datasets.milestones import Milestones
from grid.text import references
from grid.text.objects import MAX_DEPTH
from grid.text.references import misfit

_MOST = 100_000
"""Maximum number of tasks in a file."""
_FORM = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def _said(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "it is blank")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200)]


class Call(BaseModel):
    """One of the reference's calls.

    An argument may contain `OUTPUT_FROM_STEP_i.field`, where i is the number of a call, counted from 0.
    """

    model_config = _FORM
    tool: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict, max_length=100)


class Expectation(BaseModel):
    """A call that is made after an episode, and its expected outcome: its `result`, or a text that it `contains`."""

    model_config = _FORM
    tool: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict, max_length=100)
    result: JsonValue = None
    contains: Annotated[str, Field(max_length=2_000), AfterValidator(_said)] | None = None

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        if ("result" in self.model_fields_set) == (self.contains is not None):
            raise PydanticCustomError("expect", "give either result or contains")
        return self

    @property
    def call(self) -> ToolCall:
        """The call to make, without the expected outcome."""
        return ToolCall(self.tool, self.arguments)

    def holds(self, content: Mapping[str, Json]) -> bool:
        """Whether the call's outcome is the expected one.

        If the outcome has only the field `result`, this field's value is compared.
        """
        told = content[RESULT] if [*content] == [RESULT] else dict(content)
        if self.contains is not None:
            return self.contains in (told if isinstance(told, str) else to_json(told))
        return _same(told, self.result)


def _same(told: Json, wanted: Json, depth: int = 0) -> bool:
    """Whether a value equals the wanted value. An object must have all wanted keys, and may have further keys.

    If the wanted value is a text, it is compared with the value's text or JSON, without leading and trailing spaces. If
    only the value is a text, the text is parsed as JSON. Values nested too deeply are never equal.
    """
    if depth > MAX_DEPTH:
        return False
    if isinstance(wanted, str):
        return (told if isinstance(told, str) else to_json(told)).strip() == wanted.strip()
    if isinstance(told, str):
        try:
            told = loads(told)
        except (ValueError, RecursionError):
            return False
    if isinstance(wanted, dict):
        return isinstance(told, dict) and all(
            key in told and _same(told[key], value, depth + 1) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not isinstance(told, list) or len(told) != len(wanted):
            return False
        return all(_same(one, other, depth + 1) for one, other in zip(told, wanted, strict=True))
    return isinstance(told, bool) == isinstance(wanted, bool) and told == wanted


def _one_or_more(value: object) -> object:
    return value if isinstance(value, list) else [value]


class Task(Milestones):
    """One line.

    `cluster` names the template that the task shares with others. A task without `cluster` is a cluster of its own.
    """

    model_config = _FORM
    id: Name
    query: Annotated[str, Field(max_length=20_000), AfterValidator(_said)]
    calls: list[Call] = Field(default_factory=list, max_length=100)
    answer: Annotated[str, Field(max_length=2_000), AfterValidator(_said)] | None = None
    cluster: Name | None = None
    policy: Annotated[str, Field(max_length=100_000)] = ""
    expect: Annotated[list[Expectation], Field(min_length=1, max_length=20), BeforeValidator(_one_or_more)] = Field(
        default_factory=list
    )

    def reference(self) -> dict[str, ToolCall]:
        """The calls by step."""
        return {str(place): ToolCall(call.tool, call.arguments) for place, call in enumerate(self.calls)}


def file_of(path: str | None) -> Path:
    """The file of tasks; raises ConfigError if there is none."""
    if path is None:
        raise ConfigError("dataset.path", None, "a JSON Lines file of tasks")
    file = Path(path).expanduser()
    try:
        found = file.is_file()
    except OSError as error:
        raise ConfigError("dataset.path", path, f"a file that can be read ({error.strerror})") from None
    if not found:
        raise ConfigError("dataset.path", path, "no such file; give a JSON Lines file of tasks")
    return file


def read_tasks(file: Path) -> dict[int, Task]:
    """All tasks by line number.

    Raises DataError if the file cannot be read, a line is not a task, an id is repeated, or there are too many tasks.
    """
    tasks, ids = dict[int, Task](), set[str]()
    try:
        for line, row in read_jsonl(file, own=True):
            task = _task(file, line, row)
            if task.id in ids:
                raise DataError(file, line, f"id: an earlier task has the id {task.id!r:.80}")
            tasks[line] = task
            ids.add(task.id)
            if len(tasks) > _MOST:
                raise DataError(file, line, f"more than {_MOST:,} tasks")
    except OSError as error:
        raise DataError(file, None, f"cannot be read: {error.strerror}") from None
    return tasks


def _task(file: Path, line: int, row: dict[str, Any]) -> Task:
    try:
        return Task.model_validate(row)
    except ValidationError as error:
        raise DataError(file, line, wrong_line(error, Task)) from None


def unusable(task: Task, tools: Mapping[str, ToolSpec], left_out: Mapping[str, str]) -> str | None:
    """The reason why a task cannot be a case; None if it can. `left_out` has the reasons why tools are left out."""
    if not (task.calls or task.expect) and task.answer is None:
        return "the task has no calls, answer or expect, so nothing can resolve it"
    calls = task.reference()
    for what, call in (
        *(("reference", call) for call in calls.values()),
        *(("expect", one.call) for one in task.expect),
    ):
        if call.tool not in tools:
            why = (
                f"was left out ({left_out[call.tool]})"
                if call.tool in left_out
                else f"is not a tool of the server{nearest(call.tool, [*tools])}"
            )
            return f"the {what} calls {call.tool!r:.80}, which {why}"
        if wrong := misfit(call, tools[call.tool]):
            return f"a call of the {what} does not fit its tool: {wrong:.200}"
        if what == "expect" and (found := next(references.found_in(call), None)):
            return f"expect refers to the output of step {found[0]}, but calls of expect cannot use outputs of steps"
    try:
        task.named([*tools])
    except ValueError as error:
        return str(error)
    for step, call in calls.items():
        later = [producer for producer, _ in references.found_in(call) if producer not in [*calls][: int(step)]]
        if later:
            return f"call {step} of the reference refers to the output of step {later[0]}, which is not an earlier step"
    return None

"""Tasks for the tools of an MCP server: JSON Lines, read strictly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import PydanticCustomError

from grid.core.errors import ConfigError, DataError, one_line
from grid.core.types import ToolCall, ToolSpec
from grid.datasets.files import read_jsonl
from grid.text import references
from grid.text.arguments import misfit

_MOST = 100_000
"""Tasks of a file."""
_FORM = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def _said(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "it is blank")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200)]


class Call(BaseModel):
    """A call of the reference; arguments may hold `OUTPUT_FROM_STEP_i.field`, calls counted from 0."""

    model_config = _FORM
    tool: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict, max_length=100)


class Task(BaseModel):
    """One line. `cluster` is the template that it shares with others; without one it is of its own."""

    model_config = _FORM
    id: Name
    query: Annotated[str, Field(max_length=20_000), AfterValidator(_said)]
    calls: list[Call] = Field(default_factory=list, max_length=100)
    answer: Annotated[str, Field(max_length=2_000), AfterValidator(_said)] | None = None
    cluster: Name | None = None
    policy: Annotated[str, Field(max_length=100_000)] = ""

    def reference(self) -> dict[str, ToolCall]:
        """The calls by step."""
        return {str(place): ToolCall(call.tool, call.arguments) for place, call in enumerate(self.calls)}


def file_of(path: str | None) -> Path:
    """The file of tasks; raises ConfigError where there is none."""
    if path is None:
        raise ConfigError("dataset.path", None, "a file of tasks in JSON Lines")
    file = Path(path).expanduser()
    try:
        found = file.is_file()
    except OSError as error:
        raise ConfigError("dataset.path", path, f"a file that can be read ({error.strerror})") from None
    if not found:
        raise ConfigError("dataset.path", path, "no such file; it holds tasks in JSON Lines")
    return file


def read_tasks(file: Path) -> list[Task]:
    """All tasks in the file's order; raises DataError for a line that is none, and for an id that comes twice."""
    tasks: dict[str, Task] = {}
    try:
        for line, row in read_jsonl(file, own=True):
            task = _task(file, line, row)
            if task.id in tasks:
                raise DataError(file, line, f"id: {task.id!r:.80} is the id of a task before it")
            tasks[task.id] = task
            if len(tasks) > _MOST:
                raise DataError(file, line, f"more than {_MOST:,} tasks")
    except OSError as error:
        raise DataError(file, None, f"cannot be read: {error.strerror}") from None
    return list(tasks.values())


def _task(file: Path, line: int, row: dict[str, Any]) -> Task:
    try:
        return Task.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(file, line, one_line(f"{place}: {first['msg']}", 300)) from None


def unusable(task: Task, tools: Mapping[str, ToolSpec], left_out: Sequence[str]) -> str | None:
    """Why a task cannot be a case; None where it can."""
    if not task.calls and task.answer is None:
        return "it has neither calls nor an answer, so that nothing could resolve it"
    calls = task.reference()
    for call in calls.values():
        if call.tool not in tools:
            why = "was left out" if call.tool in left_out else "is not the server's"
            return f"its reference calls {call.tool!r:.80}, which {why}"
        if wrong := misfit(call, tools[call.tool]):
            return f"its reference does not fit its tool: {wrong:.200}"
    for step, call in calls.items():
        later = [producer for producer, _ in references.found_in(call) if producer not in [*calls][: int(step)]]
        if later:
            return f"call {step} of its reference refers to the output of step {later[0]}, which is not before it"
    return None

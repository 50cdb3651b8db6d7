"""Tasks in a JSON Lines file whose tools are Python functions: what a small dataset needs besides them.

A line has a `question`, the `calls` that answer it ({"tool", "arguments"}; `OUTPUT_FROM_STEP_0.result` stands for what
the first returned) and, where tasks are made from one template, the template's name as `cluster`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, ToolError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Json, Plan, Skipped, ToolCall, ToolSpec
from grid.datasets.files import fingerprint, read_jsonl
from grid.datasets.function_tools import tool_of
from grid.datasets.sampling import Order, ordered
from grid.text import references
from grid.worlds.functions import Function, FunctionWorld, Outcome, called, outcome

ADAPTER = 1
"""Raise when the same file gives other cases, tools or outcomes."""


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class _Record(BaseModel):
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


@dataclass(config=STRICT)
class FunctionTasks(ABC):
    """A case is resolved when what its last call returns was obtained from that tool, by whatever calls before.

    Args:
        path: the file; None: the one that lies beside the class's module and has its name.
        limit: so many cases; None: all.
        order: `sampled`, so that a first part has its share of each cluster, or as the file has them.
        outline: none has a plan of its own.
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
        """All of them."""
        return {name: tool_of(function) for name, function in self._by_name.items() if self._file}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Lines that cannot be cases."""
        return self._read[1]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(list(self._read[0]), self.order, (self.cluster,))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """As its line has it; else each case is one of its own."""
        return self._read[0][case_id].cluster

    def problem(self, case_id: str) -> Problem:
        """One task. Its candidates are all tools."""
        task, tools = self._read[0][case_id], tuple(self.tools.values())
        return Problem(
            case=Case(case_id, task.question, Plan(())),
            reference=Reference(task.calls, (list(task.calls)[-1],), followed=False),
            world=FunctionWorld(self._by_name, task.goal),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
        )

    @cached_property
    def _read(self) -> tuple[dict[str, _Task], list[Skipped]]:
        tasks, skipped = dict[str, _Task](), list[Skipped]()
        for number, record in read_jsonl(self._file, own=True):
            case_id = f"{self._file.stem}-{number:04d}"
            try:
                tasks[case_id] = self._task(_Record.model_validate(record), case_id)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                skipped.append(Skipped(case_id, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"))
            except (ValueError, ToolError) as error:
                skipped.append(Skipped(case_id, str(error)))
        return tasks, skipped

    def _task(self, record: _Record, case_id: str) -> _Task:
        """Run the calls of a line; raises ValueError or ToolError where they cannot be run."""
        calls = {str(place): ToolCall(one.tool, one.arguments) for place, one in enumerate(record.calls)}
        outcomes = dict[str, Mapping[str, Json]]()
        for step, call in calls.items():
            if call.tool not in self._by_name:
                raise ValueError(f"there is no tool {call.tool}")
            concrete = references.resolve(call, outcomes)
            if any(references.found_in(concrete)):
                raise ValueError(f"call {step} refers to a result that there is not before it")
            found = called(self._by_name[call.tool], concrete)
            if found.failed:
                raise ValueError(f"call {step} fails: {found.content['error']}")
            outcomes[step] = found.content
        return _Task(record.question, calls, outcome(call, found), record.cluster or case_id)

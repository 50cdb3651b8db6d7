"""SLATE on disk: `tools.jsonl` and `cases.jsonl`, checked line by line as they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import DataError
from grid.core.problem import Reference
from grid.core.types import Json, Parameter, Plan, Substep, ToolCall, ToolSpec
from grid.datasets.files import read_jsonl
from grid.text import references
from grid.worlds.lookup import build_entries

TOOLS, CASES = "tools.jsonl", "cases.jsonl"
T = TypeVar("T", bound="_Record")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ArgumentRecord(_Record):
    """One argument of a tool."""

    name: str
    type: Literal["string", "integer", "number", "boolean", "date", "array", "object"]
    description: str


class SameFunctionRecord(_Record):
    """That a tool repeats another's function; `arguments` maps own names to the other's."""

    tool: str
    arguments: dict[str, str]


class ToolRecord(_Record):
    """One line of `tools.jsonl`."""

    name: str = Field(min_length=1)
    category: str
    description: str
    arguments: list[ArgumentRecord]
    results: list[str]
    same_function: SameFunctionRecord | None = None

    def spec(self) -> ToolSpec:
        """The tool as planners see it."""
        parameters = tuple(Parameter(a.name, a.type, a.description) for a in self.arguments)
        return ToolSpec(self.name, self.description, parameters, tuple(self.results), self.category)


class CallRecord(_Record):
    """A reference call and what it returns; arguments may hold `OUTPUT_FROM_STEP_i.j.field`."""

    tool: str
    arguments: dict[str, Any]
    outcome: dict[str, Any] = Field(min_length=1)


class SubstepRecord(_Record):
    """One substep of a plan."""

    id: str = Field(pattern=r"^\d+(\.\d+)+$")
    text: str
    call: CallRecord | None = None


class StepRecord(_Record):
    """One high-level step."""

    text: str
    substeps: list[SubstepRecord] = Field(min_length=1)


class CaseRecord(_Record):
    """One line of `cases.jsonl`; `resolution` names the substeps whose outcomes resolve the case.

    `workflow` names the template that it was made from: the cases of one are a cluster.
    """

    case_id: str = Field(min_length=1)
    user: str = Field(min_length=1)
    category: str
    complexity: Literal["simple", "moderate", "complex", "advanced"]
    workflow: str = Field(pattern=r"\S")
    query: str = Field(pattern=r"\S")
    plan: list[StepRecord] = Field(min_length=1)
    resolution: list[str] = Field(min_length=1)

    def substeps(self) -> list[SubstepRecord]:
        """All substeps in plan order."""
        return [substep for step in self.plan for substep in step.substeps]

    def visible_plan(self) -> Plan:
        """The plan without its calls."""
        return Plan(tuple(Substep(s.id, s.text, step.text) for step in self.plan for s in step.substeps))

    def reference(self) -> Reference:
        """The reference calls and the resolution."""
        calls = {s.id: ToolCall(s.call.tool, s.call.arguments) if s.call else None for s in self.substeps()}
        return Reference(calls, tuple(self.resolution))

    def outcomes(self) -> dict[str, dict[str, Json]]:
        """Substep id to the outcome of its call."""
        return {s.id: s.call.outcome for s in self.substeps() if s.call}


def read_tools(path: Path) -> dict[str, ToolRecord]:
    """The library by name; a name that comes twice must be the same tool (DataError otherwise)."""
    tools: dict[str, ToolRecord] = {}

    def check(tool: ToolRecord) -> None:
        known = tools.get(tool.name)
        if known is not None and known != tool:
            raise ValueError(
                f"tool {tool.name!r} is defined twice with different arguments: "
                f"{[a.name for a in known.arguments]} and {[a.name for a in tool.arguments]}"
            )
        tools[tool.name] = tool

    _read(path, ToolRecord, check)
    for tool in tools.values():
        same = tool.same_function
        if same and same.tool not in tools:
            raise DataError(path, None, f"tool {tool.name!r} repeats {same.tool!r}, which is not defined")
        if same and not same.arguments.items() <= {(a, b) for a in _names(tool) for b in _names(tools[same.tool])}:
            raise DataError(path, None, f"tool {tool.name!r} repeats {same.tool!r} by arguments that they do not have")
    return tools


def read_cases(path: Path, tools: dict[str, ToolRecord]) -> dict[str, CaseRecord]:
    """The cases by id, every call, reference and resolution checked (DataError with file and line)."""
    cases: dict[str, CaseRecord] = {}

    def check(case: CaseRecord) -> None:
        if case.case_id in cases:
            raise ValueError(f"case {case.case_id!r} comes twice")
        check_case(case, tools)
        cases[case.case_id] = case

    _read(path, CaseRecord, check)
    return cases


def _names(tool: ToolRecord) -> list[str]:
    return [argument.name for argument in tool.arguments]


def _read(path: Path, record: type[T], check: Callable[[T], None]) -> None:
    for line, data in read_jsonl(path, own=True):
        try:
            check(record.model_validate(data))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DataError(path, line, f"{place}={first['input']!r:.80}: {first['msg']}") from None
        except ValueError as error:
            raise DataError(path, line, str(error)) from None


def check_case(case: CaseRecord, tools: dict[str, ToolRecord]) -> None:
    """Raise ValueError where the plan cannot be run as it is written."""
    substeps = case.substeps()
    ids = [substep.id for substep in substeps]
    if len(set(ids)) != len(ids):
        raise ValueError(f"a substep id comes twice among {ids}")
    calls = {s.id: ToolCall(s.call.tool, s.call.arguments) for s in substeps if s.call}
    outcomes = case.outcomes()
    for step, call in calls.items():
        if call.tool not in tools:
            raise ValueError(f"step {step} calls {call.tool!r}, which {TOOLS} does not define")
        unknown = call.arguments.keys() - set(_names(tools[call.tool]))
        if unknown:
            raise ValueError(f"step {step} gives {call.tool} the unknown argument {sorted(unknown)[0]!r}")
    for step, call in calls.items():
        if text := references.unreadable(call):
            raise ValueError(f"step {step}: {text!r} is no reference of the form OUTPUT_FROM_STEP_i.j.field")
    references.order(calls)
    for step, call in calls.items():
        for producer, field in references.found_in(call):
            if ids.index(producer) > ids.index(step):
                raise ValueError(f"step {step} refers to step {producer}, which comes after it")
            if field not in outcomes[producer]:
                raise ValueError(
                    f"step {step} refers to {producer}.{field}, but that outcome has {list(outcomes[producer])}"
                )
    build_entries(calls, outcomes)
    for step in case.resolution:
        if step not in calls:
            raise ValueError(f"the resolution names step {step!r}, which makes no call")

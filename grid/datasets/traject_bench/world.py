"""TRAJECT-Bench's tools, played from what they returned when the trajectory was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grid.core.types import Json, Observation, ToolCall, ToolSpec, to_json
from grid.datasets.traject_bench.outputs import outcome
from grid.datasets.traject_bench.records import Recorded
from grid.worlds.lookup import Entry, LookupSimulator

ERROR, MESSAGE = "error", "message"
"""The fields of a call that matches no recorded step: which kind of error, and what it was."""
_MOST = 20  # parameters that a message names


@dataclass(frozen=True)
class RecordedTools(LookupSimulator):
    """A call that means a recorded step returns what was recorded, any other an error that tells no right value.

    What means the same is told by the lookup simulator's rules. A recorded output that is a failure is returned as one,
    and the state holds that the call was made. `tools` is the library.
    """

    tools: Mapping[str, ToolSpec] = field(default_factory=dict)

    def missed(self, call: ToolCall) -> Observation:
        """The error of a call that matches nothing: by its form, or `no_result` where that is in order."""
        kind, message = _fault(call, self.tools.get(call.tool))
        return Observation({ERROR: kind, MESSAGE: message}, failed=True)


def _fault(call: ToolCall, tool: ToolSpec | None) -> tuple[str, str]:
    if tool is None:
        return "unknown_tool", f"there is no tool {call.tool:.200}"
    known = {parameter.name for parameter in tool.parameters}
    given = {name for name, value in call.arguments.items() if value is not None and value != ""}
    missing = [one.name for one in tool.parameters if one.required and one.name not in given]
    if missing:
        return "missing_parameter", f"{tool.name} requires {', '.join(missing[:_MOST])}"
    unknown = [f"{name:.100}" for name in call.arguments if name not in known]
    if unknown:
        return "unknown_parameter", f"{tool.name} has no parameter {', '.join(unknown[:_MOST])}"
    return "no_result", f"{tool.name} has no result for these arguments"


def arguments(step: Recorded) -> dict[str, Json]:
    """A step's arguments as they were recorded."""
    return {name: given.value for name, given in step.parameters.items()}


def entries(steps: Mapping[str, Recorded], tools: Mapping[str, ToolSpec]) -> tuple[Entry, ...]:
    """The table of a case; equal calls are one entry, which returns what the first of them returned.

    Not compared are arguments that nobody could know of: those that the tool does not declare, and those that it
    requires but the record lacks. Entries with fewer of these come first, so that a call means the nearest.
    """
    found: dict[str, Entry] = {}
    for place, step in steps.items():
        given = arguments(step)
        declared = {parameter.name: parameter for parameter in tools[step.tool].parameters}
        lacking = {name for name, parameter in declared.items() if parameter.required and name not in given}
        key = to_json([step.tool, dict(sorted(given.items()))])
        first = found.get(key) or Entry(
            frozenset(),
            ToolCall(step.tool, given),
            outcome(step.output, step.failed),
            frozenset(given.keys() - declared.keys() | lacking),
            declared,
        )
        found[key] = Entry(first.substeps | {place}, first.call, first.outcome, first.open_arguments, first.parameters)
    return tuple(sorted(found.values(), key=lambda entry: len(entry.open_arguments)))


def world(steps: Mapping[str, Recorded], tools: Mapping[str, ToolSpec]) -> RecordedTools:
    """A case's tools; it is resolved when every recorded call was made."""
    return RecordedTools(entries(steps, tools), frozenset(steps), tools=tools)


def called(steps: Sequence[Recorded]) -> dict[str, Recorded]:
    """The steps by their numbers from 1."""
    return {str(number): step for number, step in enumerate(steps, 1)}

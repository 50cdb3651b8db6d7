"""m&m's metrics (Ma et al. 2024, §4; the authors' `mnms/evaluation`), a case at a time.

Their scorer writes a plan as lines of Python, reads each line again, and compares what it read. So do we, since that
decides what is equal: texts whatever their case, numbers as texts, and a call whose line cannot be read (a new line or
a backslash at the end of a value) does not count on either side. Nothing is evaluated.

Where theirs divides sums over all cases (argument names and values, edges), a case's column is of its own sums.
"""

from __future__ import annotations

import ast
import re
import string
import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grid.core.types import Json, Step, ToolCall, to_json
from grid.datasets.mnms.records import Calls, as_links
from grid.datasets.mnms.tools import TOOLS

_KINDS = {name.replace(" ", "_"): name for name in TOOLS}
_LINK = re.compile(r"<node-\d+>\.\w+")
_LONGEST = 20_000  # characters of a line that is read
_SEPARATOR = "--"


class _UnwritableError(Exception):
    """A plan that the authors' scorer cannot write as code: it counts as no calls."""


@dataclass(frozen=True)
class Labels:
    """What is compared of a plan, call by call: `tool`, `tool--names` and `tool--name=value`, names in their order."""

    tools: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[str, ...]

    @cached_property
    def edges(self) -> frozenset[str]:
        """The pairs of tools that are called one after the other."""
        return frozenset(map(_SEPARATOR.join, zip(self.tools, self.tools[1:], strict=False)))


def labels_of(plan: Sequence[ToolCall], first: int = 0) -> Labels:
    """The labels of a plan with links by place (`records.Calls`), whose first call stands at a place."""
    try:
        lines = [line for place, call in enumerate(plan, first) for line in _line(place, call).split("\n")]
    except _UnwritableError:
        lines = []
    found = [read for read in map(_read, lines) if read]
    return Labels(
        tuple(tool for tool, _ in found),
        tuple(_SEPARATOR.join([tool, *arguments]) for tool, arguments in found),
        tuple(_SEPARATOR.join([tool, *map("=".join, arguments.items())]) for tool, arguments in found),
    )


def _line(place: int, call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={_value(value)}" for name, value in call.arguments.items())
    return f"output{place} = {call.tool.replace(' ', '_')}({arguments})"


def _value(value: Json) -> str:
    """A value as code: a link as `output0['text']`, a text with links as a formatted one, all else as a text."""
    if not isinstance(value, str):
        return f'"{value}"'
    if value.startswith("<node-") and " " not in value:
        return _output(value)
    if "<node-" in value:
        return 'f"{}"'.format(_filled(value).replace('"', '\\"'))
    return '"{}"'.format(value.replace('"', '\\"'))


def _output(link: str) -> str:
    try:
        return f"output{int(link[6 : link.index('>')])}['{link[link.index('.') + 1 :]}']"
    except ValueError:
        raise _UnwritableError from None


def _filled(text: str) -> str:
    """The text with its links as `str.format` fills them in, for which braces of the text's own are fields too.

    A number in such braces is the link of that number. What says more than a number is refused, also where `format`
    would do something with it: its little language can ask for gigabytes.
    """
    links = [_output(link) for link in _LINK.findall(text)]
    filled: list[str] = []
    fields: list[str] = []
    try:
        for before, field, form, conversion in string.Formatter().parse(_LINK.sub("{}", text)):
            filled.append(before)
            if field is None:
                continue
            if form or conversion or (field and not field.isdecimal()):
                raise _UnwritableError
            fields.append(field)
            filled.append(links[int(field) if field else fields.count("") - 1])
    except (ValueError, IndexError):
        raise _UnwritableError from None
    if "" in fields and any(fields):
        raise _UnwritableError
    return "".join(filled)


def _read(line: str) -> tuple[str, dict[str, str]] | None:
    """A line's tool with its arguments in the order of their names; None where it is no call."""
    if len(line) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes that mean nothing
            tree = ast.parse(line.strip())
        assigned = next((node for node in ast.walk(tree) if isinstance(node, ast.Assign)), None)
        if assigned is None or not isinstance(assigned.targets[0], ast.Name):
            return None
        made = assigned.value
        if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name):
            return None
        arguments = {keyword.arg or "": ast.unparse(keyword.value).lower() for keyword in made.keywords}
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return made.func.id, dict(sorted(arguments.items()))


def made_plan(steps: Sequence[Step]) -> Calls:
    """The calls that were made, failed ones too, as a plan with links by place."""
    plan: list[ToolCall] = []
    places: dict[str, int] = {}
    handles: dict[str, tuple[int, str]] = {}
    for step in steps:
        if step.call is None:
            continue
        place = len(plan)
        plan.append(as_links(step.written or step.call, places, handles))
        places[step.substep.id] = place
        if step.observation and not step.observation.failed:
            for field, value in step.observation.content.items():
                handles.setdefault(str(value), (place, field))
    return tuple(plan)


def nearest(golds: Sequence[Labels], made: Labels) -> Labels:
    """Of the reference and its alternatives the one whose tools are most like those called; the first of equals."""
    return max(golds, key=lambda gold: round(100 * (_f1(set(gold.tools), set(made.tools)) or 0.0), 2))


def plan_scores(gold: Labels, made: Labels) -> dict[str, Any]:
    """The columns of one case.

    argument_name_f1, argument_value_f1, edge_f1: of the sets of labels; None where neither side has any. plan_accuracy,
    plan_names_accuracy, plan_values_accuracy: the lists are equal. edit_distance: 1 less the Levenshtein ratio of the
    lists of tools, 2 LCS / (length + length); tools outside the set are one and the same. tool_counts: of every tool
    whether it was called rightly, called at all, and in the reference; the scorer's tool F1 is the mean over the tools
    of 2 hits / (predicted + gold), each summed over the cases, 0 where both are.
    """
    return {
        "argument_name_f1": _f1(set(gold.names), set(made.names)),
        "argument_value_f1": _f1(set(gold.values), set(made.values)),
        "edge_f1": _f1(gold.edges, made.edges),
        "plan_accuracy": made.tools == gold.tools,
        "plan_names_accuracy": made.names == gold.names,
        "plan_values_accuracy": made.values == gold.values,
        "edit_distance": 1 - _ratio(gold.tools, made.tools),
        "tool_counts": _counts({_KINDS[tool] for tool in gold.tools}, {_KINDS.get(tool, "") for tool in made.tools}),
    }


def step_scores(gold: ToolCall, made: ToolCall | None) -> dict[str, Any]:
    """The columns of one step behind the reference's own, for which GTA's definitions serve.

    instruction_accuracy: a call was made. tool_accuracy: of the right tool. argument_accuracy: with equal arguments, as
    texts, whatever their case, and links to the same outputs. tool_counts: as for plans, of this step.
    """
    right = made is not None and made.tool == gold.tool
    return {
        "instruction_accuracy": float(made is not None),
        "tool_accuracy": float(right),
        "argument_accuracy": float(right and made is not None and _compared(made) == _compared(gold)),
        "tool_counts": _counts({gold.tool}, {made.tool} if made else set()),
    }


def _counts(gold: Set[str], made: Set[str]) -> str:
    """By tool of the closed set whether it is hit, predicted and gold, as JSON."""
    return to_json({name: [int(name in gold & made), int(name in made), int(name in gold)] for name in TOOLS})


def _compared(call: ToolCall) -> dict[str, str]:
    return {name: str(value).lower() for name, value in call.arguments.items()}


def _f1(gold: Set[str], made: Set[str]) -> float | None:
    return 2 * len(gold & made) / (len(gold) + len(made)) if gold or made else None


def _ratio(one: Sequence[str], other: Sequence[str]) -> float:
    """Twice the longest common subsequence by the sum of the lengths; 1 of two empty lists."""
    row = [0] * (len(other) + 1)
    for left in one:
        above = row
        row = [0]
        for place, right in enumerate(other):
            row.append(above[place] + 1 if _KINDS.get(left) == _KINDS.get(right) else max(above[place + 1], row[-1]))
    return 2 * row[-1] / (len(one) + len(other)) if one or other else 1.0

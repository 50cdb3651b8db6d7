"""The tools of a released record, in whichever of the usual forms they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT, RESULT, Parameter, ToolSpec
from grid.datasets.grounding import children, described, listed, type_of

MOST_TOOLS = 256
MOST_PARAMETERS = 128
MOST_TEXT = 4_000
"""Characters of a description that are kept."""
_TAKEN = (NO_TOOL, FINISH, GIVE_UP, REJECT)
_REAL_TYPES = {"str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean",
               "list": "array", "dict": "object"}  # fmt: skip
_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object")


class UnusableError(Exception):
    """Why a record is no case."""


def need(condition: object, reason: str) -> None:
    """Raise UnusableError where a condition does not hold."""
    if not condition:
        raise UnusableError(reason)


def tools_of(rows: Any) -> tuple[dict[str, ToolSpec], dict[str, int]]:
    """The tools by name, in their order, and the costs of those that have one. Raises UnusableError."""
    if isinstance(rows, dict):  # name to definition
        rows = [{"name": name, **row} if isinstance(row, dict) else row for name, row in rows.items()]
    need(isinstance(rows, list) and 0 < len(rows) <= MOST_TOOLS, f"it has no list of 1 to {MOST_TOOLS} tools")
    found: dict[str, ToolSpec] = {}
    costs: dict[str, int] = {}
    for row in rows:
        tool, cost = tool_of(row)
        if found.setdefault(tool.name, tool) != tool:
            raise UnusableError(f"two of its tools have the name {tool.name!r:.60}, with different definitions")
        if cost is not None:
            costs[tool.name] = cost
    return found, costs


def tool_of(row: Any) -> tuple[ToolSpec, int | None]:
    """One tool, and its cost. Raises UnusableError."""
    inner = row.get("function") if isinstance(row, dict) else None
    row = inner if isinstance(inner, dict) else row
    need(isinstance(row, dict), "a tool that is no object")
    name, cost = row.get("name"), row.get("cost")
    need(isinstance(name, str) and name.strip() and len(name) <= 200, "a tool without a name of 1 to 200 characters")
    need(name not in _TAKEN, f"a tool with the name {name}, which is an option of every choice")
    need(cost is None or (isinstance(cost, int) and not isinstance(cost, bool) and cost >= 0),
         f"the tool {name!r:.60} has a cost that is no whole number from 0")  # fmt: skip
    parameters = _parameters(row.get("parameters", row.get("inputs", row.get("arguments"))))
    need(len(parameters) <= MOST_PARAMETERS, f"a tool with more than {MOST_PARAMETERS} parameters")
    text = " ".join(str(row.get("description") or "").split())[:MOST_TEXT]
    told = text if cost is None else f"{text} (cost: {cost})".strip()
    return ToolSpec(name, told, parameters, (RESULT,)), cost


def _parameters(given: Any) -> tuple[Parameter, ...]:
    if isinstance(given, list):
        pairs = [(row.get("name"), row) for row in given if isinstance(row, dict)]
        need(len(pairs) == len(given), "a tool with a parameter that is no object")
        return tuple(_parameter(name, row, row.get("required") is not False) for name, row in pairs)
    if given is None:
        return ()
    need(isinstance(given, dict), "a tool whose parameters are neither a list nor an object")
    schema = children(given)
    if schema or given.get("type") == "object":
        required = given.get("required")
        names = required if isinstance(required, list) else []
        return tuple(_parameter(name, row, name in names) for name, row in schema.items())
    return tuple(_parameter(name, row, not isinstance(row, dict) or row.get("required") is not False)
                 for name, row in given.items())  # fmt: skip


def _parameter(name: Any, row: Any, required: bool) -> Parameter:
    need(isinstance(name, str) and name.strip() and len(name) <= 200, "a parameter without a name")
    kind = type_of(row).lower() if isinstance(row, Mapping) else "string"
    kind = _REAL_TYPES.get(kind, kind)
    text = described(row) if isinstance(row, dict) else str(row)
    text = " ".join(text.split())[:MOST_TEXT]
    return Parameter(name, kind if kind in _JSON_TYPES else "string", text, required, listed(row))

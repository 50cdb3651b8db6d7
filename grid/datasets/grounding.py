"""Outcomes for calls whose results nobody recorded: from the tool, the arguments and the result's schema."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from grid.core.types import Json, ToolCall, to_json


def ground(call: ToolCall, results: Mapping[str, Any]) -> dict[str, Json]:
    """What a reference call returns: a value for each result field, from the tool, the arguments and the field."""
    outcome: dict[str, Json] = {name: _value(call, name, spec) for name, spec in results.items()}
    outcome["receipt"] = f"R-{_digest(call, 'receipt')[:8].upper()}"
    return outcome


def _value(call: ToolCall, name: str, spec: Any) -> Json:
    digest = _digest(call, name)
    match type_of(spec):
        case "boolean":
            return True
        case "integer":
            return 1 + int(digest[:8], 16) % 500
        case "number":
            return 1 + int(digest[:8], 16) % 50_000 / 100
        case "array":
            return [f"{name}-{digest[:4]}", f"{name}-{digest[4:8]}"]
        case "object":
            return {field: _value(call, f"{name}.{field}", sub) for field, sub in children(spec).items()}
        case _:
            return f"{name}-{digest[:6]}"


def _digest(call: ToolCall, name: str) -> str:
    key = to_json([call.tool, dict(sorted(call.arguments.items())), name])
    return hashlib.sha256(key.encode()).hexdigest()


def children(spec: Any) -> dict[str, Any]:
    """The properties of a JSON schema of type object; empty for any other."""
    children = spec.get("properties") if isinstance(spec, dict) else None
    return children if isinstance(children, dict) else {}


def properties(tool: dict[str, Any], key: str) -> dict[str, Any]:
    """The properties under a tool's `arguments` or `results`."""
    return children(tool.get(key))


def required(tool: dict[str, Any], key: str) -> list[Any]:
    """What the schema under a tool's `arguments` or `results` lists as required; nothing where it lists nothing."""
    spec = tool.get(key)
    names = spec.get("required") if isinstance(spec, dict) else None
    return names if isinstance(names, list) else []


def described(spec: Any) -> str:
    """A property's description; empty where it has none."""
    return str(spec.get("description") or "") if isinstance(spec, dict) else ""


def listed(spec: Any) -> tuple[str, ...]:
    """The values that a property's schema lists as texts; none where it lists none."""
    values = spec.get("enum") if isinstance(spec, dict) else None
    return tuple(map(str, values)) if isinstance(values, list) else ()


def type_of(spec: Any) -> str:
    """A property's type; `string` where it says none."""
    return str(spec.get("type", "string")) if isinstance(spec, dict) else "string"

"""OpenAI's strict mode: a JSON schema as it takes it, and an answer under it as the schema itself has it.

Its objects have all their properties required and no others, so that what may be left out may be null instead; every
part has a type, and its root is an object (the guide "Structured model outputs").
"""

from __future__ import annotations

from typing import Any

from grid.core.types import Json, to_json
from grid.core.untrusted import loads

_NULL = {"type": "null"}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in that form; None where it cannot be said.

    Lists and objects that may hold anything are not taken, nor is a root that is no single object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except _UnsayableError:
        return None


class _UnsayableError(Exception):
    """A part of a schema that has no strict form."""


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {"anyOf": [_strict(part) for part in schema["anyOf"]]}
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        kinds = {str: "string", float: "number"}
        return {"type": kinds.get(type(values[0]), "integer"), "enum": values}
    if schema["type"] == "array":
        if "items" not in schema:
            raise _UnsayableError
        return schema | {"items": _strict(schema["items"])}
    if schema["type"] != "object":
        return schema
    if "properties" not in schema:
        raise _UnsayableError
    parts = {name: _strict(part) for name, part in schema["properties"].items()}
    given = {name: part if name in schema["required"] else _or_null(part) for name, part in parts.items()}
    return {"type": "object", "properties": given, "required": [*given], "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schema.get("anyOf", [schema]), _NULL]}


def without_nulls(text: str) -> str:
    """An answer without the arguments that are null; as it is where there are none, or where it is no JSON."""
    if "null" not in text:
        return text
    try:
        return to_json(_left_out(loads(text), arguments=False))
    except (ValueError, RecursionError):
        return text


def _left_out(value: Json, arguments: bool) -> Json:
    if isinstance(value, list):
        return [_left_out(item, arguments=False) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not (arguments and item is None)}
    return {name: item if arguments else _left_out(item, name == "arguments") for name, item in kept.items()}

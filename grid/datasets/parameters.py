"""A parameter's JSON schema in words: what of it a tool's card has no place of its own for."""

from __future__ import annotations

from typing import Any

from grid.datasets.grounding import children, described, required, type_of
from grid.types import to_json

_JSON_TYPES = {"float": "number", "dict": "object", "tuple": "array", "any": "string"}


def json_type(kind: str) -> str:
    """The JSON type of a schema's, which may be Python's."""
    return _JSON_TYPES.get(kind, kind)


def details(schema: Any) -> str:
    """What a parameter's schema says besides its type, on one line: text, form, listed values and default."""
    told = " ".join(described(schema).split())
    form = _form(schema)
    parts = [told and f"{told.rstrip('.')}.", f"Form: {form}." if form != json_type(type_of(schema)) else ""]
    if isinstance(schema, dict) and isinstance(schema.get("enum"), list):
        parts.append(f"One of: {', '.join(map(to_json, schema['enum']))}.")
    if isinstance(schema, dict) and "default" in schema:
        parts.append(f"Default: {to_json(schema['default'])}.")
    return " ".join(filter(None, parts))


def _form(schema: Any) -> str:
    """A type: `[number]` of a list, `{name*: string (details), ...}` of an object whose parts are told."""
    parts, items = children(schema), schema.get("items") if isinstance(schema, dict) else None
    if parts:
        must = required({"parameters": schema}, "parameters")
        return f"{{{', '.join(_part(key, one, key in must) for key, one in parts.items())}}}"
    return f"[{_form(items)}]" if isinstance(items, dict) else json_type(type_of(schema))


def _part(name: str, schema: Any, must: bool) -> str:
    told = details(schema)
    return f"{name}{'*' if must else ''}: {json_type(type_of(schema))}{f' ({told})' if told else ''}"

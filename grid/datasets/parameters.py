"""A parameter's JSON schema in words: what of it a tool's card has no place of its own for."""

from __future__ import annotations

from typing import Any

from grid.core.types import to_json
from grid.datasets.alternatives import alternatives, flat, type_text
from grid.datasets.grading import children, described, required


def details(schema: Any) -> str:
    """What a parameter's schema says besides its type, on one line: text, form, listed values and default."""
    (told, *more), form = _said(schema), _form(schema)
    parts = [told, f"Form: {form}." if form != type_text(schema) else "", *more]
    return " ".join(filter(None, parts))


def _said(schema: Any) -> list[str]:
    """Text, listed values and default, each empty where there is none."""
    told = " ".join(described(schema).split())
    listed = schema.get("enum") if isinstance(schema, dict) else None
    return [
        told and f"{told.rstrip('.')}.",
        f"One of: {', '.join(map(to_json, listed))}." if isinstance(listed, list) else "",
        f"Default: {to_json(schema['default'])}." if isinstance(schema, dict) and "default" in schema else "",
    ]


def _form(schema: Any) -> str:
    """A type: `[number]` of a list, `{name*: string (details), ...}` of an object whose parts are told, `a or b`."""
    if (several := alternatives(schema)) and not children(schema):
        texts = [*dict.fromkeys(map(_alternative, several))]
        return type_text(schema) if "|".join(texts) == type_text(schema) else " or ".join(texts)
    if isinstance(schema, dict) and "allOf" in schema:
        return _form(flat(schema))
    parts, items = children(schema), schema.get("items") if isinstance(schema, dict) else None
    if parts:
        must = required({"parameters": schema}, "parameters")
        return f"{{{', '.join(_part(key, one, key in must) for key, one in parts.items())}}}"
    return f"[{_form(items)}]" if isinstance(items, dict) else type_text(schema)


def _part(name: str, schema: Any, must: bool) -> str:
    told = details(schema)
    return f"{name}{'*' if must else ''}: {type_text(schema)}{f' ({told})' if told else ''}"


def _alternative(schema: Any) -> str:
    said = " ".join(filter(None, _said(schema)))
    return f"{_form(schema)}{f' ({said})' if said else ''}"

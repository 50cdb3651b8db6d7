"""Tools from JSON schemas: a parameter's description in words, and its schema if the words do not cover it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grid.core.types import to_json
from grid.datasets.grading import children, described, required


def details(schema: Any) -> str:
    """A parameter's schema in words, on one line: text, form, listed values and default; other parts are left out."""
    (told, *more), form = _said(schema), _form(schema)
    parts = [told, f"Form: {form}." if form != type_text(schema) else "", *more]
    return " ".join(filter(None, parts))


def _said(schema: Any) -> list[str]:
    """Three texts: description, listed values and default. A text is empty if the schema lacks that part."""
    told = " ".join(described(schema).split())
    listed = schema.get("enum") if isinstance(schema, dict) else None
    return [
        told and f"{told.rstrip('.')}.",
        f"One of: {', '.join(map(to_json, listed))}." if isinstance(listed, list) else "",
        f"Default: {to_json(schema['default'])}." if isinstance(schema, dict) and "default" in schema else "",
    ]


def _form(schema: Any) -> str:
    """A type.

    A list is written as `[number]`, an object with known parts as `{name*: string (details), ...}`, and alternatives as
    `a or b`.
    """
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


# JSON schemas that allow several forms of a value: their types, their parts merged, and the schema that a tool keeps.


EITHER = ("anyOf", "oneOf")
ANY_TYPE = "string"
"""The type of a value whose schema does not give one."""
_SEVERAL = "|"
_PYTHON = {"float": "number", "dict": "object", "tuple": "array", "any": ANY_TYPE}
_OF_VALUES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_SAID_ELSEWHERE = frozenset({"type", "description", "title", "default", "examples", "$schema", "$id"})
_DATA = ("default", "enum", "const", "examples")  # keys whose values are not schemas


def json_type(kind: str) -> str:
    """The JSON type for a schema's type, which may be named as in Python."""
    return _PYTHON.get(kind, kind)


def type_text(schema: Any) -> str:
    """The JSON types that a schema allows, except null: `boolean|number`; `string` if it gives none."""
    return _SEVERAL.join(dict.fromkeys(map(json_type, _kinds(schema)))) or ANY_TYPE


def alternatives(schema: Any) -> list[Any]:
    """The alternative schemas of a value, except the schema for null; empty if the schema has no alternatives."""
    given = [schema[key] for key in EITHER if isinstance(schema.get(key), list)] if _is(schema) else []
    return [one for one in given[0] if not (_is(one) and one.get("type") == "null")] if given else []


def flat(schema: Any) -> dict[str, Any]:
    """A schema merged with its `allOf` and with the properties of all its alternatives.

    A property is also required if all alternatives require it.
    """
    if not _is(schema):
        return {}
    found = {key: value for key, value in schema.items() if key != "allOf"}
    for part in map(flat, schema.get("allOf", ())):
        found = part | found | _joined(found, part)
    several = [flat(one) for one in alternatives(schema)]
    for one in several if any("properties" in one for one in several) else ():
        found["properties"] = _properties(one) | _properties(found)
    if several:
        everywhere = set.intersection(*({*map(str, one.get("required", ()))} for one in several))
        found["required"] = [*dict.fromkeys([*found.get("required", ()), *sorted(everywhere)])]
    return found


def choices(schema: Any) -> list[list[str]]:
    """The properties that each alternative of an object requires.

    Empty if an alternative requires nothing, or if all require the same properties.
    """
    several = [[*map(str, flat(one).get("required", ()))] for one in alternatives(schema)]
    return several if all(several) and len({tuple(sorted(one)) for one in several}) > 1 else []


def whole(schema: Any) -> str:
    """A parameter's schema as JSON; empty if the parameter's type and description already express all of it."""
    if not _is(schema):
        return ""
    said = {key for key in schema if key not in _SAID_ELSEWHERE}
    texts = said == {"enum"} and all(isinstance(value, str) for value in schema["enum"])
    plain = texts or not said
    return "" if plain and isinstance(schema.get("type", ANY_TYPE), str) else to_json(_with_items(schema))


def _kinds(schema: Any) -> list[str]:
    """The types that a schema allows, except null; empty if it does not give any."""
    if not _is(schema):
        return []
    given = schema.get("type")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return [str(kind) for kind in given if kind != "null"]
    values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
    if values:
        return [_OF_VALUES[type(value)] for value in values if value is not None]
    for key, kind in (("properties", "object"), ("items", "array")):
        if key in schema:
            return [kind]
    several = [kind for one in alternatives(schema) for kind in _kinds(one)]
    parts = [kinds for one in schema.get("allOf", ()) if (kinds := _kinds(one))]
    both = [kind for kind in parts[0] if all(kind in part for part in parts)] if parts else []
    return several or both or (parts[0] if parts else [])


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The `properties` and `required` of two parts of one schema, joined."""
    found: dict[str, Any] = {}
    if "properties" in first or "properties" in second:
        own, other = _properties(first), _properties(second)
        both = {key: {"allOf": [own[key], other[key]]} for key in own.keys() & other.keys() if own[key] != other[key]}
        found["properties"] = other | own | both
    if "required" in first or "required" in second:
        found["required"] = [*dict.fromkeys([*second.get("required", ()), *first.get("required", ())])]
    return found


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _with_items(schema: Any) -> Any:
    """The schema with `items` in every list, because servers refuse lists without `items`."""
    if isinstance(schema, list):
        return [_with_items(one) for one in schema]
    if not _is(schema):
        return schema
    found = {key: value if key in _DATA else _with_items(value) for key, value in schema.items()}
    lists = schema.get("type") == "array" or (isinstance(schema.get("type"), list) and "array" in schema["type"])
    return found | {"items": {}} if lists and not {"items", "prefixItems"} & found.keys() else found


def _is(schema: Any) -> bool:
    return isinstance(schema, dict)

"""The tools of an MCP server as planners see them; each argument keeps its whole schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from grid.core.errors import one_line
from grid.core.types import RESULT, Parameter, Skipped, ToolSpec, to_json
from grid.datasets.alternatives import choices, flat, type_text, whole
from grid.datasets.grading import children, listed, required
from grid.datasets.parameters import details
from grid.text.objects import MAX_DEPTH, depth

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_SCHEMA = 50_000  # characters of a schema
_DESCRIPTION = 20_000  # characters of a description
_PARTS = 10_000
_VALUES = ("default", "enum", "const", "examples")  # what stands in them is no schema
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")


class BrokenError(Exception):
    """Why a tool cannot be offered, as an unfinished sentence."""


def specs(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, ToolSpec], list[Skipped]]:
    """The tools by name, in the server's order, and those that are left out.

    Raises:
        ValueError: two tools have one name, so that nobody could tell which is called.
    """
    found, skipped, seen = dict[str, ToolSpec](), list[Skipped](), set[str]()
    for tool in tools:
        name = str(tool["name"])
        if name in seen:
            raise ValueError(f"it lists two tools of the name {name!r:.80}")
        seen.add(name)
        try:
            found[name] = _spec(name, tool)
        except BrokenError as error:
            skipped.append(Skipped(f"tool {one_line(name, 80)}", one_line(f"a tool is left out: {error}", 300)))
    return found, skipped


def _spec(name: str, tool: dict[str, Any]) -> ToolSpec:
    if not _NAME.fullmatch(name):
        raise BrokenError("its name has other characters than letters, digits and _./-, or more than 128")
    description = " ".join(str(tool.get("description") or tool.get("title") or "").split())
    if len(description) > _DESCRIPTION:
        raise BrokenError(f"its description has more than {_DESCRIPTION:,} characters")
    schema = _checked(tool["inputSchema"])
    if sets := choices(schema):
        described = f"{description.rstrip('.')}. " if description else ""
        description = f"{described}Needs {', or '.join(' and '.join(one) for one in sets)}."
    root = flat(schema)
    must = required({"arguments": root}, "arguments")
    parameters = tuple(
        Parameter(key, type_text(one), details(one), key in must, listed(flat(one)), whole(one))
        for key, one in children(root).items()
    )
    output = tool.get("outputSchema")
    returns = tuple(children(flat(_checked(output)))) if isinstance(output, dict) else ()
    return ToolSpec(name, description, parameters, returns or (RESULT,))


def _checked(schema: Any) -> Any:
    """A schema of type object with its references filled in; raises BrokenError."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if depth(schema) > MAX_DEPTH or len(to_json(schema)) > _SCHEMA:
        raise BrokenError(f"a schema of more than {_SCHEMA:,} characters, or of more than {MAX_DEPTH} levels")
    try:
        validator_for(schema).check_schema(schema)
    except (SchemaError, RecursionError) as error:
        why = error.message if isinstance(error, SchemaError) else "nested too deeply"
        raise BrokenError(f"a schema that is none: {why:.200}") from None
    plain = _Filling(schema).filled(schema)
    if type_text(plain) != "object" or len(to_json(plain)) > _SCHEMA:
        raise BrokenError("a schema of another type than object, or too large a one")
    return plain


class _Filling:
    """Puts what a schema refers to in its place; so many parts at most, as definitions may double one another."""

    def __init__(self, root: Any) -> None:
        self._defined = {**_object(root, "definitions"), **_object(root, "$defs")}
        self._left = _PARTS

    def filled(self, schema: Any, within: tuple[str, ...] = ()) -> Any:
        """A schema without references; raises BrokenError."""
        self._left -= 1
        if self._left < 0:
            raise BrokenError(f"a schema of more than {_PARTS:,} parts")
        if isinstance(schema, list):
            return [self.filled(item, within) for item in schema]
        if not isinstance(schema, dict):
            return schema
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        if "$ref" in schema:
            match = _REFERENCE.fullmatch(str(schema["$ref"]))
            if match is None or match[1] not in self._defined:
                raise BrokenError(f"a schema with a reference to nothing: {schema['$ref']!s:.80}")
            if match[1] in within:
                return {"type": "object", "description": "as above", **rest}
            rest = {**_object({"": self.filled(self._defined[match[1]], (*within, match[1]))}, ""), **rest}
        return {key: self._part(key, value, within) for key, value in rest.items()}

    def _part(self, key: str, value: Any, within: tuple[str, ...]) -> Any:
        if key in _VALUES:
            return value
        if key == "properties":
            return {name: self.filled(one, within) for name, one in value.items()}
        return self.filled(value, within)


def _object(schema: Any, key: str) -> dict[str, Any]:
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}

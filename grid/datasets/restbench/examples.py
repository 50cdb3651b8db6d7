"""What an endpoint of an OpenAPI file returns, as one example: the file's own where it has one, else by its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grid.core.types import RESULT, Json

MOST_ITEMS = 8
"""Of a list that are kept."""
_DEEPEST = 8
_MOST_FIELDS = 60  # of an object
_MOST_PARTS = 4_000  # of an example, so that references among schemas cannot multiply without end
_LONGEST = 1_000  # characters
_BY_FORMAT = {
    "date": "2021-06-15",
    "date-time": "2021-06-15T12:00:00Z",
    "uri": "https://example.com/item",
    "url": "https://example.com/item",
    "email": "someone@example.com",
}

Follow = Callable[[Mapping[str, Any]], tuple[str | None, Mapping[str, Any]]]
"""What an object with `$ref` stands for, behind all references, with the last of them; others stand for themselves."""


class Examples:
    """Makes examples. `follow` resolves references."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._parts = 0

    def response(self, media: Mapping[str, Any]) -> dict[str, Json]:
        """The fields of a response of a media type; one that is no object is the field `result`."""
        self._parts = 0
        found = self._trimmed(self._of_media(media), 0)
        return found if isinstance(found, dict) else {RESULT: found}

    def _of_media(self, media: Mapping[str, Any]) -> Any:
        if media.get("example") is not None:
            return media["example"]
        listed = media.get("examples")
        for item in listed.values() if isinstance(listed, dict) else ():
            own = self._follow(item)[1] if isinstance(item, dict) else {}
            if own.get("value") is not None:
                return own["value"]
        schema = media.get("schema")
        return self._of_schema(schema, RESULT, 0, 0, frozenset()) if isinstance(schema, dict) else {}

    def _of_schema(self, given: Mapping[str, Any], name: str, number: int, depth: int, behind: frozenset[str]) -> Any:
        """None where a schema is inside itself, too deep, or too large."""
        self._parts += 1
        ref, schema = self._follow(given)
        if depth > _DEEPEST or self._parts > _MOST_PARTS or (ref is not None and ref in behind):
            return None
        behind = behind | {ref} if ref is not None else behind
        told = self._told(schema)
        if told is not None:
            return told
        for key in ("oneOf", "anyOf"):
            if isinstance(choices := schema.get(key), list) and choices and isinstance(choices[0], dict):
                return self._of_schema(choices[0], name, number, depth + 1, behind)
        fields = self._fields(schema, depth, behind)
        kind = kind_of(schema)
        if fields or kind == "object":
            return fields
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, dict):
                return []
            made = [self._of_schema(items, name, place, depth + 1, behind) for place in (1, 2)]
            return [item for item in made if item is not None]
        return _plain(kind, schema, name, number)

    def _told(self, schema: Mapping[str, Any]) -> Any:
        """The value that a schema itself names."""
        several = schema.get("examples")
        listed = schema.get("enum")
        for found in (
            schema.get("example"),
            several[0] if isinstance(several, list) and several else None,
            schema.get("const"),
            schema.get("default"),
            listed[0] if isinstance(listed, list) and listed else None,
        ):
            if found is not None:
                return found
        return None

    def _fields(self, schema: Mapping[str, Any], depth: int, behind: frozenset[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            made = self._of_schema(part, RESULT, 0, depth + 1, behind) if isinstance(part, dict) else None
            found |= made if isinstance(made, dict) else {}
        own = schema.get("properties")
        for name, item in list(own.items())[:_MOST_FIELDS] if isinstance(own, dict) else ():
            made = self._of_schema(item, name, 0, depth + 1, behind) if isinstance(item, dict) else None
            if made is not None:
                found[name] = made
        return found

    def _trimmed(self, value: Any, depth: int) -> Json:
        if isinstance(value, dict):
            items = list(value.items())[:_MOST_FIELDS] if depth <= _DEEPEST else []
            return {str(key): self._trimmed(item, depth + 1) for key, item in items}
        if isinstance(value, list):
            return [self._trimmed(item, depth + 1) for item in value[:MOST_ITEMS]] if depth <= _DEEPEST else []
        return value[:_LONGEST] if isinstance(value, str) else value


def kind_of(schema: Mapping[str, Any]) -> str:
    """A schema's type, of several the first that is not null; told by its keys where it names none, else `string`."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = next((item for item in kinds if isinstance(item, str) and item != "null"), None)
    return found or ("object" if "properties" in schema else "array" if "items" in schema else "string")


def _plain(kind: str, schema: Mapping[str, Any], name: str, number: int) -> Json:
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        low = least if isinstance(least, int | float) and not isinstance(least, bool) else 0
        return int(low) + 1 + number if kind == "integer" else float(low) + 1.5 + number
    if kind == "boolean":
        return True
    formed = _BY_FORMAT.get(str(schema.get("format")))
    return formed or f"{name.replace('_', ' ')} {number or 1}"

"""Responses that nobody recorded: values of the kinds that an API's documentation shows, made up from the call.

The documentation has, for each field of a response, the kind of its value: `"str"`, `"int"`, `"list of str with length
5"`. Equal calls have equal responses; a field that is named as an argument has its value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from grid.core.types import Json, ToolCall, to_json
from grid.core.untrusted import loads_storable

_MOST_VALUES, _MOST_ITEMS, _DEEPEST = 24, 2, 6
_LENGTH = "_list_length"
_LIST = re.compile(r"list of (\w+) with length (\d{1,9})")
_EMPTY: Mapping[str, Json] = {"NoneType": None, "empty list": [], "empty dict": {}}


def shape_of(template: Json) -> Json:
    """A template as an object or a list; None where it is none, or a text that was cut."""
    if isinstance(template, str):
        try:
            template = loads_storable(template)
        except (ValueError, RecursionError):
            return None
    return template if isinstance(template, dict | list) and template else None


def made_up(call: ToolCall, shape: Json) -> Json:
    """A small response of a shape (`shape_of`) to a call."""
    if shape is None:
        return _Making(call).value("result", "str", ())
    return _Making(call).value("response", shape, ())


class _Making:
    """One response; `left` is how many values it may still have."""

    def __init__(self, call: ToolCall) -> None:
        self._call = to_json([call.tool, dict(sorted(call.arguments.items()))])
        self._given = {_squeezed(name): value for name, value in call.arguments.items()}
        self._left = _MOST_VALUES

    def value(self, name: str, shape: Json, place: tuple[object, ...]) -> Json:
        """The value of a field; `place` leads to it."""
        if isinstance(shape, dict) and len(place) < _DEEPEST:
            return self._object(shape, place)
        if isinstance(shape, list) and len(place) < _DEEPEST:
            return self._list(name, shape, place)
        self._left -= 1
        return self._leaf(name, shape if isinstance(shape, str) else "NoneType", place)

    def _object(self, shape: Mapping[str, Json], place: tuple[object, ...]) -> Json:
        found: dict[str, Json] = {}
        for name, inner in shape.items():
            if self._left <= 0:
                break
            if name != _LENGTH:
                found[name] = self.value(name, inner, (*place, name))
        return found

    def _list(self, name: str, shape: list[Json], place: tuple[object, ...]) -> Json:
        if not shape:
            return []
        inner, length = shape[0], 1
        if isinstance(inner, dict):
            told = inner.get(_LENGTH)
            length = told if isinstance(told, int) else 1
        elif isinstance(inner, str) and (match := _LIST.fullmatch(inner)):
            inner, length = match[1], int(match[2])
        items: list[Json] = []
        for number in range(min(length, _MOST_ITEMS)):
            if self._left <= 0:
                break
            items.append(self.value(name, inner, (*place, number)))
        return items

    def _leaf(self, name: str, kind: str, place: tuple[object, ...]) -> Json:
        if kind in _EMPTY:
            return _EMPTY[kind]
        given = self._given.get(_squeezed(name))
        if isinstance(given, str | int | float) and given != "":
            return given
        digest = hashlib.sha256(to_json([self._call, *map(str, place)]).encode("utf-8", "replace")).hexdigest()
        number = int(digest[:8], 16)
        match kind:
            case "bool":
                return number % 2 == 0
            case "int":
                return 1 + number % 500
            case "float":
                return 1 + number % 50_000 / 100
            case _:
                return f"{name}-{digest[:6]}"


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())

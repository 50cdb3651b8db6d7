"""Reading a model's answer: untrusted text, parsed with limits, never evaluated."""

from __future__ import annotations

import json
from collections.abc import Iterator

from grid.text.untrusted import DECODER
from grid.types import Json, to_json

MAX_CHARACTERS = 20_000
MAX_REREAD = 20 * MAX_CHARACTERS
MAX_ARGUMENTS = 64
MAX_STEPS = 256
MAX_DEPTH = 16


def read_call(text: str) -> tuple[str, dict[str, Json]] | None:
    """The first JSON object in `text` with a string `tool` and an object `arguments`; None where there is none.

    Text around the object (a thought, a code fence) is allowed; `arguments` may be absent.
    """
    return next((call for call in map(_as_call, _objects(text)) if call), None)


def read_plan(text: str) -> list[tuple[str, dict[str, Json]]] | None:
    """The calls of the first JSON object in `text` that has a list `plan` of them; None where there is none."""
    for found in _objects(text):
        steps = found.get("plan")
        if isinstance(steps, list) and 0 < len(steps) <= MAX_STEPS:
            calls = [call for call in map(_as_call, steps) if call]
            return calls if len(calls) == len(steps) else None
    return None


def _objects(text: str) -> Iterator[dict[str, Json]]:
    """The JSON objects in a text, outermost ones; as long as limits let it be read.

    Text that begins an object and is none is read again from its next brace on, up to MAX_REREAD characters in all.
    """
    text, reread = text[:MAX_CHARACTERS], 0
    start = text.find("{")
    while start >= 0 and reread <= MAX_REREAD:
        try:
            found, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            reread += (error.pos if isinstance(error, json.JSONDecodeError) else len(text)) - start
            start = text.find("{", start + 1)
            continue
        yield found
        start = text.find("{", end)


def _as_call(found: object) -> tuple[str, dict[str, Json]] | None:
    if not isinstance(found, dict) or not isinstance(found.get("tool"), str):
        return None
    arguments = found.get("arguments") or {}
    if not isinstance(arguments, dict) or len(arguments) > MAX_ARGUMENTS or _depth(arguments) > MAX_DEPTH:
        return None
    try:
        to_json(found).encode()  # half a surrogate pair is no text that a table can hold
    except UnicodeEncodeError:
        return None
    return found["tool"], arguments


def _depth(value: Json) -> int:
    """Levels of nesting, counted no further than one past the limit."""
    deepest, level = 0, [value]
    while level and deepest <= MAX_DEPTH:
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
        deepest += bool(inner)
    return deepest

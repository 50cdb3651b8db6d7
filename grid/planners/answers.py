"""Reading a model's answer: untrusted text, parsed with limits, never evaluated."""

from __future__ import annotations

from grid.types import Json, to_json
from grid.untrusted import DECODER

MAX_CHARACTERS = 20_000
MAX_ARGUMENTS = 64
MAX_DEPTH = 16


def read_call(text: str) -> tuple[str, dict[str, Json]] | None:
    """The first JSON object in `text` with a string `tool` and an object `arguments`; None where there is none.

    Text around the object (a thought, a code fence) is allowed; `arguments` may be absent.
    """
    text = text[:MAX_CHARACTERS]
    start = text.find("{")
    while start >= 0:
        try:
            found, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        call = _as_call(found)
        if call is not None:
            return call
        start = text.find("{", end)
    return None


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

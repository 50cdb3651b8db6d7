"""Recorded outputs: Python-like text, which is read as a literal and never run."""

from __future__ import annotations

import ast
import math

from grid.core.types import Json, Observation
from grid.core.untrusted import loads_storable

OUTPUT = "output"
"""The field of an outcome that is no object."""
_LONGEST = 100_000  # characters of what is read as a literal; the release has 2,048 at most
_DEEPEST = 32  # levels of nesting
_MOST_BITS = 1024  # of an integer: what a double can hold
_ERROR = "ERROR:"


def outcome(text: str, failed: bool = False) -> Observation:
    """What a step returned: an object's fields, or else the whole as the field `output`.

    What is no literal stays text; so does what breaks off, as the release cuts long outputs. `failed`: the record says
    so; an output that begins with `ERROR:` says so too.
    """
    value = read(text)
    content = value if isinstance(value, dict) and value else {OUTPUT: value}
    return Observation(content, failed or text.lstrip().startswith(_ERROR))


def read(text: str) -> Json:
    """A text as a Python literal, else as a JSON object or list, else as it stands."""
    if len(text) > _LONGEST:
        return text
    try:
        return _json(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    try:
        found: Json = loads_storable(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict | list) else text


def _json(value: object, depth: int = 0) -> Json:
    """The same with lists for tuples and texts as names; raises ValueError for what JSON and tables cannot hold."""
    if isinstance(value, dict) and depth < _DEEPEST:
        return {_text(str(name)): _json(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_json(item, depth + 1) for item in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and value.bit_length() < _MOST_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"a {type(value).__name__} that JSON cannot hold")


def _text(text: str) -> str:
    text.encode()  # half a surrogate pair raises UnicodeEncodeError, which is a ValueError
    return text

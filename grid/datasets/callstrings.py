"""Reading calls written as text: `tool(name='it's', count=2)`, with quotes that nobody escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grid.core.types import Json
from grid.core.untrusted import loads

MAX_CHARACTERS = 20_000
_CONSTANTS: dict[str, Json] = {"True": True, "False": False, "None": None}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.S)


def parse_call(text: str, names: Sequence[str]) -> dict[str, Json] | None:
    """The arguments of a call string; None where it is no call of the tool's own arguments.

    A value reaches to the next `, name=` whose name is one of the tool's `names`, so that quotes and commas inside
    a value do no harm.
    """
    match = _CALL.fullmatch(text[:MAX_CHARACTERS])
    if not match:
        return None
    body = match[2].strip()
    if not body:
        return {}
    choices = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    marks = list(re.finditer(rf"(?:^|,)\s*({choices})\s*=", body)) if choices else []
    if not marks or marks[0].start() != 0:
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(body)]
    arguments: dict[str, Json] = {}
    for mark, end in zip(marks, ends, strict=True):
        # The first of two equal names holds: a later one stands inside a value.
        arguments.setdefault(mark[1], _literal(body[mark.end() : end].strip().rstrip(",").strip()))
    return arguments


def completed(listed: Mapping[str, Json], parsed: Mapping[str, Json]) -> dict[str, Json]:
    """The listed arguments; one that breaks off (`Notes of March 1` for `Notes of March 18, 2023`) as parsed."""
    return {
        name: full
        if isinstance(value, str) and isinstance(full := parsed.get(name), str) and full.startswith(value)
        else value
        for name, value in listed.items()
    }


def _literal(text: str) -> Json:
    """A quoted string without its quotes, a JSON scalar or list, or the text as it stands."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        value: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    return value

"""Reading a model's answer: untrusted text, parsed with limits, never evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from grid.text.untrusted import DECODER
from grid.types import MAX_SCORE, Json, to_json

MAX_CHARACTERS = 20_000
MAX_REREAD = 20 * MAX_CHARACTERS
MAX_ARGUMENTS = 64
MAX_STEPS = 256
MAX_DEPTH = 16
_SCORE = re.compile(rf"\s*([0-9]{{1,3}}(?:\.[0-9]{{1,9}})?)\s*(?:(/|out of)\s*{MAX_SCORE}|(%))?\s*")


class Call(NamedTuple):
    """A tool and its arguments as a model wrote them, with the thought before them where there is one."""

    tool: str
    arguments: dict[str, Json]
    thought: str | None = None


def read_call(text: str) -> Call | None:
    """The first JSON object in `text` with a string `tool` and an object `arguments`; None where there is none.

    Text around the object (a code fence, say) is allowed; `arguments` may be absent.
    """
    return next((call for call in map(_as_call, _objects(text)) if call), None)


def read_plan(text: str) -> list[Call] | None:
    """The calls of the first JSON object in `text` that has a list `plan` of them; None where there is none."""
    for found in _objects(text):
        steps = found.get("plan")
        if isinstance(steps, list) and 0 < len(steps) <= MAX_STEPS:
            calls = [call for call in map(_as_call, steps) if call]
            return calls if len(calls) == len(steps) else None
    return None


def read_outline(text: str) -> list[str] | None:
    """The texts of the first JSON object in `text` that has a list `outline` of them; None where there is none."""
    for found in _objects(text):
        lines = found.get("outline")
        if isinstance(lines, list) and 0 < len(lines) <= MAX_STEPS:
            texts = [" ".join(line.split()) for line in lines if isinstance(line, str) and _storable(line)]
            return texts if len(texts) == len(lines) and all(texts) else None
    return None


def read_score(text: str) -> float | None:
    """The score of the first JSON object in `text` that has one, in [0, 1]; None where it is no number from 0 to 10.

    A text counts where it is nothing but the number, as `7`, `7/10` or `70%`. A fraction of 1 alone does not: whoever
    writes 0.7 may mean another scale.
    """
    found = next((found["score"] for found in _objects(text) if "score" in found), None)
    if isinstance(found, str):
        match = _SCORE.fullmatch(found)
        if match is None:
            return None
        number, of_ten, percent = match.groups()
        if of_ten or percent:
            share = float(number) / (100 if percent else MAX_SCORE)
            return share if share <= 1 else None
        found = float(number) if "." in number else int(number)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if not 0 <= found <= MAX_SCORE or (isinstance(found, float) and 0 < found <= 1):
        return None
    return abs(found) / MAX_SCORE


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


def _as_call(found: object) -> Call | None:
    if not isinstance(found, dict) or not isinstance(found.get("tool"), str):
        return None
    arguments = found.get("arguments") or {}
    if not isinstance(arguments, dict) or len(arguments) > MAX_ARGUMENTS or _depth(arguments) > MAX_DEPTH:
        return None
    thought = found.get("thought")
    if not _storable(to_json(found)):
        return None
    return Call(found["tool"], arguments, thought if isinstance(thought, str) else None)


def _storable(text: str) -> bool:
    """Whether a table can hold it: half a surrogate pair is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(value: Json) -> int:
    """Levels of nesting, counted no further than one past the limit."""
    deepest, level = 0, [value]
    while level and deepest <= MAX_DEPTH:
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
        deepest += bool(inner)
    return deepest

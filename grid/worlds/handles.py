"""Helpers for worlds in which calls refer to earlier results as `$n`, and the call of `finish` gives the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from grid.core.errors import GridError
from grid.core.types import BETWEEN, FINISH, ToolCall
from grid.text.references import PATTERN

ANSWER = "answer"
"""The name of `finish`'s parameter, and of the field in its observation."""
_HANDLE = re.compile(r"\$(0|[1-9][0-9]{0,5})")
_REFERENCE = re.compile(r"\$\d+")
_SHORT = 80  # maximum number of characters of a text in an error message


class CallError(GridError):
    """A call that cannot have a result; the message gives the reason in one sentence."""


def shown(text: str) -> str:
    """A text in quotes; a long text is cut off."""
    return repr(text if len(text) <= _SHORT else f"{text[:_SHORT]}...")


def handle(number: int) -> str:
    """The name of a result in later calls. Results are numbered from 0."""
    return f"${number}"


def place(parameter: str, given: str, results: int) -> int:
    """The position, from 0, of the earlier result that a parameter's value names; raises CallError if there is none."""
    found = _HANDLE.fullmatch(given)
    if found is None or int(found[1]) >= results:
        raise CallError(f"{parameter}: {shown(given)} is no result of an earlier step")
    return int(found[1])


def texts_of(call: ToolCall, wanted: Sequence[str]) -> dict[str, str]:
    """The arguments in the order of `wanted`. Raises CallError if one is missing, unknown, or not a text."""
    if call.arguments.keys() != set(wanted):
        missing = [name for name in wanted if name not in call.arguments]
        extra = [name for name in call.arguments if name not in wanted]
        wrong = f"lacks {', '.join(missing)}" if missing else f"has no parameter {shown(extra[0])}"
        raise CallError(f"the call of {call.tool} {wrong}; its parameters are {', '.join(wanted) or 'none'}")
    found = {}
    for name in wanted:
        value = call.arguments[name]
        if not isinstance(value, str):
            raise CallError(f"{name}: a text is expected, not {type(value).__name__}")
        found[name] = value
    return found


def answer_of(call: ToolCall, results: int, values: Callable[[int], Sequence[str]]) -> tuple[str, ...]:
    """The distinct values of the answer in a call of `finish`.

    The parts of the answer are separated by `; `, or are the items of a list. A part is either a text or the name of a
    result (`$n`). `values` returns the values of the result with a given number; its errors are passed on.

    Raises:
        CallError: the call gives no answer, a part is not a text, or a part names a result that does not exist.
    """
    given = call.arguments.get(ANSWER)
    parts = given if isinstance(given, list) else given.split(BETWEEN) if isinstance(given, str) else []
    if not all(isinstance(part, str) for part in parts):
        raise CallError(f"{ANSWER}: texts are expected")
    found: dict[str, None] = {}
    for part in (str(part).strip() for part in parts):
        if _REFERENCE.fullmatch(part) or PATTERN.search(part):
            found |= dict.fromkeys(values(place(ANSWER, part, results)))
        elif part:
            found[part] = None
    if not found:
        raise CallError(f"{FINISH} needs an {ANSWER}: the result of an earlier step, or words")
    return tuple(found)

"""Objects of Python classes as a world's state: each kept as a snapshot, and a call made on a copy.

A snapshot is bytes that this project pickled itself, never anything that was read from a file or a model: it is small,
has a size that can be limited, and shares nothing with any other.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from decimal import localcontext
from typing import Any, NamedTuple

from grid.core.types import RESULT, Json, Observation, to_json
from grid.core.untrusted import loads
from grid.worlds.schema import ERROR

MOST_BYTES = 250_000
"""A larger snapshot is refused."""
MOST_ARGUMENTS = 100_000
"""Characters of a call's arguments as JSON."""
MOST_SHOWN = 50_000
"""Characters of an observation; what is above is cut."""


class UncontrolledError(Exception):
    """An object that cannot be made, or that cannot be kept: too large, or nested too deeply."""


class Outcome(NamedTuple):
    """What a call left and returned: the object behind it, its result as text, and as an observation."""

    snapshot: bytes
    text: str
    observation: Observation


def taken(make: Callable[[], object]) -> bytes:
    """A snapshot of what a function makes.

    Raises:
        UncontrolledError: it breaks, or the object is too large.
    """
    try:
        return _kept(make())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others, which may raise anything
        raise UncontrolledError(f"{type(error).__name__}: {error}"[:MOST_SHOWN]) from None


def invoke(snapshot: bytes, method: str, arguments: Mapping[str, Json]) -> Outcome:
    """Call a method of a copy of an object.

    An exception is a failed observation with `error`, and what the method did before it stays, as it would in the
    object itself. Where the object cannot be kept behind the call, it is as it was before.
    """
    written = to_json(dict(arguments))
    if len(written) > MOST_ARGUMENTS:
        return refused(snapshot, f"the arguments have more than {MOST_ARGUMENTS:,} characters")
    instance = _copy(snapshot)
    with _own_precision():
        try:
            result = getattr(instance, method)(**json.loads(written))
            text, failed = _text(result), _failed(result)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others, which may raise anything
            text, failed = f"Error during execution: {error}", True
            result = {ERROR: text}
        try:
            after = _kept(instance)
        except (UncontrolledError, RecursionError) as error:
            return refused(snapshot, str(error))
        if failed and after == _kept(_copy(snapshot)):
            after = snapshot
        return Outcome(after, text, Observation(_content(result, text), failed))


def refused(snapshot: bytes, why: str) -> Outcome:
    """A call that is not made."""
    text = f"Error during execution: {why}"
    return Outcome(snapshot, text, Observation({ERROR: text[:MOST_SHOWN]}, failed=True))


def same_public_state(one: bytes, other: bytes) -> bool:
    """Whether all public attributes of the second are equal to those of the first; not where that cannot be told."""
    first, second = _copy(one), _copy(other)
    try:
        return all(getattr(first, name) == value for name, value in vars(second).items() if not name.startswith("_"))
    except (AttributeError, RecursionError):
        return False


def _kept(instance: object) -> bytes:
    snapshot = pickle.dumps(instance, pickle.HIGHEST_PROTOCOL)
    if len(snapshot) > MOST_BYTES:
        raise UncontrolledError(f"a state of more than {MOST_BYTES:,} bytes")
    return snapshot


def _copy(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301 - made by `_kept` above


def _own_precision() -> AbstractContextManager[object]:
    """What a method sets for all decimal numbers of the process is set back behind it."""
    stack = ExitStack()
    stack.enter_context(localcontext())
    if mpmath := sys.modules.get("mpmath"):
        stack.enter_context(mpmath.workdps(mpmath.mp.dps))
    return stack


def _text(result: object) -> str:
    """A result as BFCL has it: texts as they are, objects as JSON where possible, all else as Python shows it."""
    if type(result) is str:
        return result
    if type(result) is dict:
        try:
            return json.dumps(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


def _failed(result: object) -> bool:
    """Whether a result is an error, or a list of nothing but one."""
    if isinstance(result, list) and len(result) == 1:
        return _failed(result[0])
    return isinstance(result, dict) and ERROR in result


def _content(result: object, text: str) -> dict[str, Json]:
    """A result as an observation: an object's own fields, other values as `result`, and text where it is no JSON."""
    try:
        value = loads(json.dumps(result, default=str))
    except (TypeError, ValueError, RecursionError):
        value = text
    content: dict[str, Json] = value if isinstance(value, dict) else {RESULT: value}
    return content if len(to_json(content)) <= MOST_SHOWN else {RESULT: f"{text[:MOST_SHOWN]}..."}

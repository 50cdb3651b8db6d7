"""Tools that are Python code: pure functions of JSON values, and methods of objects that are stored as snapshots."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from decimal import localcontext
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pydantic import ValidationError, validate_call

from grid.core.errors import ToolError, one_line
from grid.core.types import RESULT, Json, Observation, ToolCall, to_json
from grid.core.untrusted import loads
from grid.core.world import State, own_state
from grid.worlds.schema import ERROR

Function: TypeAlias = Callable[..., Any]
Outcome: TypeAlias = tuple[str, str]
"""A tool, and its result as JSON."""


def called(function: Function, call: ToolCall) -> Observation:
    """A function's result for a call; a failure if the arguments do not fit or the function rejects them.

    A function rejects its arguments by raising ValueError, LookupError or ArithmeticError.

    Raises:
        ToolError: the function raises any other error, or returns a value that is not JSON.
    """
    try:
        found = _checked(function)(**call.arguments)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return _failure(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    except (ValueError, LookupError, ArithmeticError) as error:
        return _failure(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever somebody's function raises
        raise ToolError(one_line(f"{call.tool} raised {type(error).__name__}: {error}")) from None
    try:
        return Observation({RESULT: json.loads(json.dumps(found, allow_nan=False))})
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(one_line(f"{call.tool} returned a value that JSON does not have ({error})")) from None


@dataclass(frozen=True)
class FunctionWorld:
    """Tools that are functions.

    The state is the set of outcomes so far; a state that contains `goal` resolves the case.
    """

    functions: Mapping[str, Function]
    goal: Outcome
    branches: ClassVar[bool] = True

    def start(self) -> frozenset[Outcome]:
        """The empty set, since no outcome has been obtained yet."""
        return frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state with the function's outcome added unless the call failed, and the observation.

        Raises the same errors as `called`.
        """
        obtained = own_state(state, frozenset)
        function = self.functions.get(call.tool)
        observation = called(function, call) if function else _failure(f"there is no tool {call.tool}")
        return (obtained if observation.failed else obtained | {outcome(call, observation)}), observation

    def resolved(self, state: State) -> bool:
        """Whether any calls have obtained the goal."""
        return self.goal in own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None, because the goal is an outcome and not an answer."""
        return None


def outcome(call: ToolCall, observation: Observation) -> Outcome:
    """The outcome of a successful call: its tool, and its result as JSON."""
    return call.tool, json.dumps(observation.content[RESULT], sort_keys=True)


def _failure(why: str) -> Observation:
    return Observation({"error": one_line(why, 400)}, failed=True)


@lru_cache(maxsize=1024)
def _checked(function: Function) -> Function:
    return validate_call(function)


# Objects of Python classes as a world's state: each is stored as a snapshot, and a call runs on a copy.
#
# A snapshot consists of bytes that this project pickled itself, never of data read from a file or a model. A snapshot
# is small, its size can be limited, and it shares nothing with other snapshots.


MOST_BYTES = 250_000
"""The maximum size of a snapshot, in bytes; larger snapshots are refused."""
MOST_ARGUMENTS = 100_000
"""The maximum length of a call's arguments as JSON, in characters."""
MOST_SHOWN = 50_000
"""The maximum length of an observation, in characters; the rest is cut off."""


class UncontrolledError(Exception):
    """An object cannot be created, or cannot be stored because it is too large or too deeply nested."""


class Invoked(NamedTuple):
    """A call's outcome: a snapshot of the object after the call, and the result as text and as an observation."""

    snapshot: bytes
    text: str
    observation: Observation


def taken(make: Callable[[], object]) -> bytes:
    """A snapshot of the object that a function creates.

    Raises:
        UncontrolledError: the function raises an error, or the object cannot be stored, for example if it is too large.
    """
    try:
        return _kept(make())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others, which may raise anything
        raise UncontrolledError(f"{type(error).__name__}: {error}"[:MOST_SHOWN]) from None


def invoke(snapshot: bytes, method: str, arguments: Mapping[str, Json]) -> Invoked:
    """Call a method on a copy of an object.

    If the method raises an exception, the observation counts as failed and has the field `error`. It also counts as
    failed if the method returns an object with this field. Changes that the method made to the object before the
    exception are kept, as in ordinary Python. If the changed object cannot be stored, the snapshot from before the call
    is kept, and the call fails. Arguments that are too long (`MOST_ARGUMENTS`) are refused.
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
        except (Exception, SystemExit) as error:  # noqa: BLE001 - pickling also runs code of others
            return refused(snapshot, str(error))
        if failed and after == _kept(_copy(snapshot)):
            after = snapshot
        return Invoked(after, text, Observation(_content(result, text), failed))


def refused(snapshot: bytes, why: str) -> Invoked:
    """The outcome of a refused call: the object stays unchanged, and the observation gives the reason."""
    text = f"Error during execution: {why}"
    return Invoked(snapshot, text, Observation({ERROR: text[:MOST_SHOWN]}, failed=True))


def same_public_state(one: bytes, other: bytes) -> bool:
    """Whether each public attribute of the second object has the same value in the first; False if undecidable."""
    first, second = _copy(one), _copy(other)
    try:
        return all(getattr(first, name) == value for name, value in vars(second).items() if not name.startswith("_"))
    except Exception:  # noqa: BLE001 - comparing runs code of others
        return False


def _kept(instance: object) -> bytes:
    snapshot = pickle.dumps(instance, pickle.HIGHEST_PROTOCOL)
    if len(snapshot) > MOST_BYTES:
        raise UncontrolledError(f"a state of more than {MOST_BYTES:,} bytes")
    return snapshot


def _copy(snapshot: bytes) -> Any:
    return pickle.loads(snapshot)  # noqa: S301 - made by `_kept` above


def _own_precision() -> AbstractContextManager[object]:
    """A context that, at its end, restores the process's decimal precision if a method has changed it."""
    stack = ExitStack()
    stack.enter_context(localcontext())
    if mpmath := sys.modules.get("mpmath"):
        stack.enter_context(mpmath.workdps(mpmath.mp.dps))
    return stack


def _text(result: object) -> str:
    """A result as text, as in BFCL: texts are unchanged, dicts become JSON if possible, and `str` converts the rest."""
    if type(result) is str:
        return result
    if type(result) is dict:
        try:
            return json.dumps(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


def _failed(result: object) -> bool:
    """Whether a result is an error (an object with the field `error`), or a list whose only item is an error."""
    if isinstance(result, list) and len(result) == 1:
        return _failed(result[0])
    return isinstance(result, dict) and ERROR in result


def _content(result: object, text: str) -> dict[str, Json]:
    """The fields of a result's observation; if the result is an object, its own fields.

    A result that is not an object becomes the field `result`, as its JSON value or, if it has none, as text.
    """
    try:
        value = loads(json.dumps(result, default=str))
    except Exception:  # noqa: BLE001 - `str` runs code of others
        value = text
    content: dict[str, Json] = value if isinstance(value, dict) else {RESULT: value}
    return content if len(to_json(content)) <= MOST_SHOWN else {RESULT: f"{text[:MOST_SHOWN]}..."}

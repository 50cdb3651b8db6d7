"""Tools that are pure Python functions: of JSON values, with a JSON value as their result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from pydantic import ValidationError, validate_call

from grid.core.errors import ToolError, one_line
from grid.core.types import RESULT, Observation, ToolCall
from grid.core.world import State, own_state

Function: TypeAlias = Callable[..., Any]
Outcome: TypeAlias = tuple[str, str]
"""A tool, and what it returned as JSON."""


def called(function: Function, call: ToolCall) -> Observation:
    """What a function returns for a call; a failure where the arguments do not fit, or it refuses them.

    It refuses them by ValueError, LookupError or ArithmeticError.

    Raises:
        ToolError: it raises anything else, or returns what is no JSON.
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
        raise ToolError(one_line(f"{call.tool} returned what is no JSON ({error})")) from None


@dataclass(frozen=True)
class FunctionWorld:
    """Tools that are functions. The state is what was obtained; the case is resolved once `goal` is among it."""

    functions: Mapping[str, Function]
    goal: Outcome
    branches: ClassVar[bool] = True

    def start(self) -> frozenset[Outcome]:
        """Nothing is obtained."""
        return frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """What the function returns, which is then obtained; raises as `called`."""
        obtained = own_state(state, frozenset)
        function = self.functions.get(call.tool)
        observation = called(function, call) if function else _failure(f"there is no tool {call.tool}")
        return (obtained if observation.failed else obtained | {outcome(call, observation)}), observation

    def resolved(self, state: State) -> bool:
        """Whether the goal was obtained, by whatever calls."""
        return self.goal in own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None: what is asked for is an outcome."""
        return None


def outcome(call: ToolCall, observation: Observation) -> Outcome:
    """What a call obtained."""
    return call.tool, json.dumps(observation.content[RESULT], sort_keys=True)


def _failure(why: str) -> Observation:
    return Observation({"error": one_line(why, 400)}, failed=True)


@lru_cache(maxsize=1024)
def _checked(function: Function) -> Function:
    return validate_call(function)

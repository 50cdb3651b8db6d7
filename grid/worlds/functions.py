"""Tools that are pure Python functions: of JSON values, with a JSON value as their result."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError, validate_call

from grid.errors import ConfigError, ToolError, one_line
from grid.types import RESULT, Json, Observation, Parameter, ToolCall, ToolSpec
from grid.worlds.base import State, own_state

Function: TypeAlias = Callable[..., Any]
Outcome: TypeAlias = tuple[str, str]
"""A tool, and what it returned as JSON."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ARGUMENT = re.compile(r"\s*(\w+)(?: \([^)]*\))?:\s*(.*)")
_HEADING = re.compile(r"(Args|Returns|Raises|Yields|Examples?|Notes?):\s*")


def tool_of(function: Function) -> ToolSpec:
    """A function as planners see it: its name, the first paragraph of its docstring, its arguments as annotated.

    What the docstring's `Args:` says of an argument is its description; one with a default may be left out.

    Raises:
        ConfigError: a function without a docstring, or with an argument that has no name or no type JSON knows.
    """
    name, text = function.__name__, inspect.getdoc(function) or ""
    if not text:
        raise ConfigError("tool", name, "a function with a docstring: planners read what it does")
    described = dict(_described(text))
    parameters = tuple(
        _parameter(name, one, hint, described.get(one.name, "")) for one, hint in _arguments(name, function)
    )
    return ToolSpec(name, " ".join(text.split("\n\n")[0].split()), parameters, (RESULT,))


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


def _arguments(name: str, function: Function) -> Iterator[tuple[inspect.Parameter, Any]]:
    hints = get_type_hints(function)
    for one in inspect.signature(function).parameters.values():
        if one.kind not in _NAMED or one.name not in hints:
            raise ConfigError(f"tool {name}", one.name, "an argument with a name and a type: def add(a: int, b: int)")
        yield one, hints[one.name]


def _parameter(tool: str, one: inspect.Parameter, hint: Any, description: str) -> Parameter:
    try:
        schema = TypeAdapter(hint).json_schema()
    except PydanticUserError as error:
        raise ConfigError(f"tool {tool}", one.name, f"an argument of a type that JSON has ({error.message})") from None
    choices = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    kind = choices[0].get("type", "string") if len(choices) == 1 else "string"
    values: list[Json] = schema.get("enum", [])
    listed = tuple(str(value) for value in values if isinstance(value, str))
    return Parameter(one.name, kind, description, one.default is one.empty, listed)


def _described(text: str) -> Iterator[tuple[str, str]]:
    """What a docstring's `Args:` says of each argument."""
    within, name, said = False, "", list[str]()
    for line in text.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading or not line.strip():
            within = bool(heading and heading[1] == "Args") or (within and not heading)
            continue
        begun = _ARGUMENT.fullmatch(line) if within else None
        if begun:
            yield name, " ".join(said)
            name, said = begun[1], [begun[2].strip()]
        elif within:
            said.append(line.strip())
    yield name, " ".join(said)

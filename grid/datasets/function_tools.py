"""Python functions as planners see them: signature and docstring become a tool's card."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter

from grid.core.errors import ConfigError
from grid.core.types import RESULT, Parameter, ToolSpec
from grid.datasets.alternatives import alternatives, type_text, whole
from grid.datasets.grounding import listed
from grid.datasets.parameters import details
from grid.worlds.functions import Function

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
    choices = alternatives(schema)
    chosen = choices[0] if len(choices) == 1 else schema
    default = {} if one.default in (one.empty, None) else {"default": one.default}
    told = chosen | {"description": description} | default
    kept = whole(chosen) if len(choices) > 1 and "$defs" not in schema else ""  # what it refers to has no place there
    return Parameter(one.name, type_text(chosen), details(told), one.default is one.empty, listed(chosen), kept)


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

"""A call's arguments held against its tool: put into the form that is asked for, and why they do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from grid.text.references import found_in, reference
from grid.types import FINISH, RESULT, Json, Parameter, ToolCall, ToolSpec, to_json

RESULT_REFERENCE = rf"OUTPUT_FROM_STEP_[0-9]{{1,4}}(\.[0-9]{{1,4}}){{0,3}}\.{RESULT}"
"""The texts that an argument of type RESULT takes, as a regular expression."""
_RESULT = re.compile(RESULT_REFERENCE)
# `$1`, `$1.x`, `OUTPUT_FROM_STEP_1`, `OUTPUT_FROM_STEP_1.value`: the ways in which models name a step's result.
_MEANT = re.compile(r"\s*(?:\$|OUTPUT_FROM_STEP_)([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})(?:\.[A-Za-z_][\w.]*)?\s*")
_KINDS: dict[str, type | tuple[type, ...]] = {
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def allowed(tool: ToolSpec, parameter: Parameter) -> tuple[str, ...]:
    """The only values that an argument may have; none where it may have others.

    Tools that take results keep to what their schemas list. Elsewhere not even the benchmarks' own calls do (4 of 6
    listed arguments of 100 UltraTool cases have another value), and a reference may stand for a value.
    """
    return parameter.values if tool.takes_results else ()


def normalised(arguments: Mapping[str, Json], tool: ToolSpec, offered: Iterable[ToolSpec]) -> dict[str, Json]:
    """The arguments in the form asked for, where the tools `offered` take results; else as they are.

    Numbers become texts. What names a step's result (`$1`, `OUTPUT_FROM_STEP_1`) becomes `OUTPUT_FROM_STEP_1.result`
    where a result is taken, or where it is all of the answer to a question. Elsewhere `$1` may be a price.
    """
    if not any(tool.takes_results for tool in offered):
        return dict(arguments)
    results = {parameter.name for parameter in tool.parameters if parameter.type == RESULT or tool.name == FINISH}
    return {name: _normal(value, name in results) for name, value in arguments.items()}


def _normal(value: Json, result: bool) -> Json:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return to_json(value)
    meant = _MEANT.fullmatch(value) if result and isinstance(value, str) else None
    return reference(meant[1], RESULT) if meant else value


def misfit(call: ToolCall, tool: ToolSpec, exact: bool = False) -> str | None:
    """Why a call does not fit its tool; None where it does.

    All required arguments must be there and no others than the tool has. A value is of the argument's type or a text:
    what an earlier step returned is referred to in a text, and models write numbers as texts. Tools that take results,
    and all where `exact`, are told exactly: such an argument is a reference to one, a text is nothing but a text, and
    of listed values it is one.
    """
    known = {parameter.name: parameter for parameter in tool.parameters}
    for name, value in call.arguments.items():
        if name not in known:
            return f"{tool.name} has no argument {name!r:.80}"
        if why := _wrong(value, known[name], tool, exact or tool.takes_results):
            return f"{name} {why}"
    missing = [name for name, one in known.items() if one.required and call.arguments.get(name) in (None, "")]
    return f"{tool.name} without {', '.join(missing)}" if missing else None


def _wrong(value: Json, parameter: Parameter, tool: ToolSpec, exact: bool) -> str | None:
    if exact and parameter.type not in _KINDS and not isinstance(value, str):
        return f"is no text: {to_json(value):.80}"
    if not _fits(value, parameter.type):
        return f"is no {parameter.type}"
    if parameter.type == RESULT and not (isinstance(value, str) and _RESULT.fullmatch(value)):
        return f"is {value!r:.80}, which is no earlier step's result: {reference('i', RESULT)} is"
    listed = allowed(tool, parameter)
    return f"is {value!r:.80}, which is none of {', '.join(listed)}" if listed and value not in listed else None


def _fits(value: Json, kind: str) -> bool:
    wanted = _KINDS.get(kind)
    if wanted is None or isinstance(value, str) or value is None:
        return True
    return isinstance(value, wanted) and (kind == "boolean" or not isinstance(value, bool))


def misplaced(call: ToolCall, before: Mapping[str, bool]) -> str | None:
    """A reference of a call that cannot be filled in, and why; None where all can.

    Args:
        call: with its references.
        before: the steps that come before it, by id: whether it may have a result.
    """
    for step, _ in found_in(call):
        if step not in before:
            return f"it refers to step {step}, which does not come before it"
        if not before[step]:
            return f"it refers to step {step}, which has no result"
    return None

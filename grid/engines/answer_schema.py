"""The JSON schema of an answer, for engines that can sample under one."""

from __future__ import annotations

from typing import Any

from grid.engines.base import ToolCallAnswer
from grid.types import NO_TOOL, ToolSpec

MAX_CHARACTERS = 120  # of a thought or a string argument: a model that rambles still comes to its end
_TYPES = ("number", "integer", "boolean", "array", "object")
_TEXT = {"$ref": "#/$defs/text"}  # one definition, so that it is compiled once
# A pattern, since under `maxLength` xgrammar 0.2.8 lets control characters through, which are no JSON, and takes up to
# 55 ms for a token; past some 200 characters its patterns fail.
_DEFINITIONS = {"text": {"type": "string", "pattern": f"^.{{0,{MAX_CHARACTERS}}}$"}}


def answer_schema(answer: ToolCallAnswer) -> dict[str, Any]:
    """One object: a thought where one is asked for, then a tool of those offered and its own arguments only."""
    calls = [_call(answer, tool.name, _arguments(tool)) for tool in answer.tools]
    if answer.may_decline:
        calls.append(_call(answer, NO_TOOL, _object({}, [])))
    return (calls[0] if len(calls) == 1 else {"anyOf": calls}) | {"$defs": _DEFINITIONS}


def _call(answer: ToolCallAnswer, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    thought = {"thought": _TEXT} if answer.thought else {}
    properties = thought | {"tool": {"const": name}, "arguments": arguments}
    return _object(properties, list(properties))


def _arguments(tool: ToolSpec) -> dict[str, Any]:
    """Every argument optional, of its type or a string (a reference to an earlier output is one)."""
    return _object({parameter.name: _value(parameter.type) for parameter in tool.parameters}, [])


def _value(kind: str) -> dict[str, Any]:
    return {"anyOf": [{"type": kind}, _TEXT]} if kind in _TYPES else _TEXT


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

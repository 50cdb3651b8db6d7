"""The JSON schema of an answer, for engines that can sample under one."""

from __future__ import annotations

from typing import Any

from grid.engines.base import JsonAnswer, PlanAnswer, ToolCallAnswer
from grid.types import NO_TOOL, ToolSpec

MAX_CHARACTERS = 120  # of a thought or a string argument: a model that rambles still comes to its end
_TYPES = ("number", "integer", "boolean", "array", "object")
_TEXT = {"$ref": "#/$defs/text"}  # one definition, so that it is compiled once
# A pattern, since under `maxLength` xgrammar 0.2.8 lets control characters through, which are no JSON, and takes up to
# 55 ms for a token; past some 200 characters its patterns fail.
_DEFINITIONS = {"text": {"type": "string", "pattern": f"^.{{0,{MAX_CHARACTERS}}}$"}}


def answer_schema(answer: JsonAnswer) -> dict[str, Any]:
    """One object: a call (a thought first where one is asked for), or a plan of calls.

    Each call has a tool of those offered and its own arguments only (planning_horizon B.2: `anyOf`).
    """
    thought = isinstance(answer, ToolCallAnswer) and answer.thought
    calls = [_call(tool.name, _arguments(tool), thought) for tool in answer.tools]
    if isinstance(answer, ToolCallAnswer) and answer.may_decline:
        calls.append(_call(NO_TOOL, _object({}, []), thought))
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if isinstance(answer, PlanAnswer):
        plan = {"type": "array", "items": call, "minItems": 1, "maxItems": answer.most}
        call = _object({"plan": plan}, ["plan"])
    return call | {"$defs": _DEFINITIONS}


def _call(name: str, arguments: dict[str, Any], thought: bool) -> dict[str, Any]:
    properties = ({"thought": _TEXT} if thought else {}) | {"tool": {"const": name}, "arguments": arguments}
    return _object(properties, list(properties))


def _arguments(tool: ToolSpec) -> dict[str, Any]:
    """Every argument optional, of its type or a string (a reference to an earlier output is one)."""
    return _object({parameter.name: _value(parameter.type) for parameter in tool.parameters}, [])


def _value(kind: str) -> dict[str, Any]:
    return {"anyOf": [{"type": kind}, _TEXT]} if kind in _TYPES else _TEXT


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

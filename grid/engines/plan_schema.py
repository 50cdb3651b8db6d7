"""The JSON schemas of predicted plans (`plan_answers`), for engines that can sample under one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from grid.core.plan_answers import ChainAnswer, MessagesAnswer
from grid.core.types import NO_TOOL, ToolSpec

Text: TypeAlias = Callable[[int], dict[str, Any]]
Arguments: TypeAlias = Callable[[ToolSpec], dict[str, Any]]
_PLAN, _REASON = 1200, 300  # characters of the summary, and of a reason
_ANY_NAME = {"type": "string"}
_ANY_ARGUMENTS = {"type": "object"}


def plan_schema(answer: ChainAnswer | MessagesAnswer, text: Text, arguments: Arguments) -> dict[str, Any]:
    """An object or, of several messages, an array; a refusal is another object, so that the root has alternatives.

    A plan that is `free` has any names and arguments: which it has is what is diagnosed. Otherwise each call has a tool
    of those offered and that tool's `arguments`. `text` makes the schema of a text of so many characters.
    """
    wanted = _chain(answer, text, arguments) if isinstance(answer, ChainAnswer) else _messages(answer, text, arguments)
    if not answer.may_refuse:
        return wanted
    refusal = _object({"status": {"const": "REJECT"}, "reason": text(_REASON)})
    return {"anyOf": [wanted, refusal]}


def _chain(answer: ChainAnswer, text: Text, arguments: Arguments) -> dict[str, Any]:
    reason = text(_REASON)

    def call(name: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return _object({"name": name, "parameter_description": given, "reason": reason})

    calls = _calls(answer.tools, answer.free, call, arguments)
    if answer.may_decline and not answer.free:
        calls.append(call({"const": NO_TOOL}, _object({})))
    entries = {"type": "array", "items": _either(calls), "minItems": answer.least, "maxItems": answer.most}
    return _object({"plan": text(_PLAN), "tool_chain": entries})


def _messages(answer: MessagesAnswer, text: Text, arguments: Arguments) -> dict[str, Any]:
    def call(name: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        function = _object({"name": name, "arguments": given})
        return _object({"type": {"const": "function"}, "function": function})

    calls = {"type": "array", "items": _either(_calls(answer.tools, answer.free, call, arguments)), "maxItems": 1}
    message = _object({"role": {"const": "assistant"}, "thought": text(_REASON), "tool_calls": calls})
    if answer.count == 1:
        return message
    return {"type": "array", "items": message, "minItems": answer.count, "maxItems": answer.count}


def _calls(
    tools: Sequence[ToolSpec],
    free: bool,
    call: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
    arguments: Arguments,
) -> list[dict[str, Any]]:
    return [call(_ANY_NAME, _ANY_ARGUMENTS)] if free else [call({"const": one.name}, arguments(one)) for one in tools]


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}

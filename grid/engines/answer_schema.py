"""The JSON schema of an answer, for engines that can sample under a schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from grid.core.engine import (
    ChainAnswer,
    JsonAnswer,
    MessagesAnswer,
    OutlineAnswer,
    PlanAnswer,
    SchemaAnswer,
    ScoreAnswer,
    VerdictAnswer,
    VoteAnswer,
    verdict_properties,
)
from grid.core.types import MAX_SCORE, NO_TOOL, RESULT, ToolSpec
from grid.text.references import RESULT_REFERENCE, allowed

SEPARATORS = (", ", ": ")
"""The separators between entries and after keys, as in the calls that prompts show.

No other white space is allowed, because a model may otherwise write white space endlessly.
"""
LINE = 120  # maximum characters of an outline's line
EXPLANATION = 240  # maximum characters of a judge's explanation of its score
REASONING = 600  # maximum characters of the reasoning in a verdict on a plan
_BLOCK = 100  # maximum characters in one repetition; xgrammar 0.2.8 fails above 128
_TYPES = ("number", "integer", "boolean", "array", "object")
# The schema of an argument's text. This schema allows any text; if a model rambles, the completion's `max_tokens` stops
# it. With a pattern, xgrammar 0.2.8 would accept no escapes, so no value could contain a double quote, a backslash or a
# newline.
_TEXT = {"type": "string"}


def answer_schema(answer: JsonAnswer) -> dict[str, Any]:
    """The schema of an answer that is one object: a call, a plan of calls, an outline, a score, a vote or a verdict.

    If a thought is asked for, it comes before the call or plan. The schema of a predicted plan may be an array, or a
    choice between a plan and a refusal. A SchemaAnswer contains its own schema, which is returned unchanged.

    Each call has one of the offered tools and only that tool's arguments (planning_horizon B.2: `anyOf`), or no tool if
    the answer may decline. A single call is the value of `action`, because OpenAI's strict mode refuses alternatives at
    the root. If the available results are known, every argument that takes a result must be one of these results. If no
    results are available, tools that take a result cannot be called.
    """
    if isinstance(answer, SchemaAnswer):
        asked: dict[str, Any] = json.loads(answer.schema)
        return asked
    if isinstance(answer, OutlineAnswer):
        lines = {"type": "array", "items": text_schema(LINE), "minItems": 1, "maxItems": answer.most}
        return object_schema({"outline": lines}, ["outline"])
    if isinstance(answer, ScoreAnswer):
        score = {"enum": list(range(MAX_SCORE + 1))}
        return object_schema({"score": score, "explanation": text_schema(EXPLANATION)}, ["score", "explanation"])
    if isinstance(answer, VoteAnswer):
        best = {"enum": list(range(answer.candidates))}
        return object_schema({"best": best, "explanation": text_schema(EXPLANATION)}, ["best", "explanation"])
    if isinstance(answer, VerdictAnswer):
        said = verdict_properties(answer, text_schema(REASONING))
        return object_schema(said, [*said])
    if isinstance(answer, ChainAnswer | MessagesAnswer):
        return plan_schema(answer, text_schema, lambda tool: _arguments(tool, None))
    results = None if isinstance(answer, PlanAnswer) else answer.results
    tools = [tool for tool in answer.tools if results != () or not tool.takes_results]
    calls = [_call(tool.name, _arguments(tool, results)) for tool in tools]
    if answer.may_decline:
        calls.append(_call(NO_TOOL, object_schema({}, [])))
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    wanted = {"action": call}
    if isinstance(answer, PlanAnswer):
        wanted = {"plan": {"type": "array", "items": call, "minItems": answer.least, "maxItems": answer.most}}
    before = {"thought": text_schema(answer.thought)} if answer.thought else {}
    return object_schema(before | wanted, [*before, *wanted])


def text_schema(most: int) -> dict[str, Any]:
    """The schema of a text of limited length; the limit is `most` characters or slightly higher.

    The pattern consists of equal blocks of at most a hundred characters, so the limit is rounded up by less than the
    number of blocks.

    The schema is a pattern because with `maxLength`, xgrammar 0.2.8 lets control characters through, which are not
    valid JSON, and takes up to 41 ms per token. The blocks have equal size so that a text can match in at most two
    ways. Other forms of the same pattern take minutes to compile.
    """
    blocks = math.ceil(most / _BLOCK)
    size = math.ceil(most / blocks)
    pattern = f".{{0,{most}}}" if blocks == 1 else f"(.{{{size}}}){{0,{blocks - 1}}}.{{0,{size}}}"
    return {"type": "string", "pattern": f"^{pattern}$"}


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return object_schema({"tool": {"const": name}, "arguments": arguments}, ["tool", "arguments"])


def _arguments(tool: ToolSpec, results: tuple[str, ...] | None) -> dict[str, Any]:
    """The schema of a tool's arguments, by the same rules as `misfit`.

    An argument for a result must be a reference to a result (one of `results`, unless None), and an argument with
    binding values (`allowed`) must have one of them. Any other value has its argument's type or is a string, such as a
    reference to an earlier output.
    """
    required = [parameter.name for parameter in tool.parameters if parameter.required]
    return object_schema({one.name: _value(one.type, allowed(tool, one), results) for one in tool.parameters}, required)


def _value(kind: str, values: tuple[str, ...], results: tuple[str, ...] | None) -> dict[str, Any]:
    if kind == RESULT and results:
        return {"enum": [*results]}
    if kind == RESULT:
        return {"type": "string", "pattern": f"^{RESULT_REFERENCE}$"}
    if values:
        return {"enum": [*values]}
    typed = [{"type": one} for one in kind.split("|") if one in _TYPES]
    return {"anyOf": [*typed, _TEXT]} if typed else _TEXT


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# The JSON schemas of predicted plans, for engines that can sample under a schema.


Text: TypeAlias = Callable[[int], dict[str, Any]]
Arguments: TypeAlias = Callable[[ToolSpec], dict[str, Any]]
_PLAN, _REASON = 1200, 300  # maximum characters of the summary, and of a reason
_ANY_NAME = {"type": "string"}
_ANY_ARGUMENTS = {"type": "object"}


def plan_schema(answer: ChainAnswer | MessagesAnswer, text: Text, arguments: Arguments) -> dict[str, Any]:
    """The schema of a predicted plan: an object or, for several messages, an array.

    If the case allows a refusal, the root of the schema is a choice between a plan and a refusal.

    A `free` plan may have any tool names and arguments, since its mistakes are diagnosed later. Otherwise each call has
    one of the offered tools and that tool's `arguments`, or no tool if a chain may decline. `text(n)` returns the
    schema of a text of about n characters at most.
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

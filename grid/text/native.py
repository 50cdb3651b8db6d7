"""Answers that may call several functions, in the formats in which models write calls.

The formats are: `<tool_call>{"name", "arguments"}</tool_call>` (Hermes, Qwen), `[TOOL_CALLS][...]` (Mistral), bare
objects (Llama), possibly in a Markdown fence, a server's message with `tool_calls`, and calls that a server left in the
text (`left_calls.py`). Each call is read separately, and is as untrusted as any answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from grid.core.types import FINISH, Json, ToolSpec, to_json
from grid.text.answers import MAX_STEPS, NO_CALL
from grid.text.calls import Call, calls_in
from grid.text.left_calls import blocks, expressions, looks_like_a_call, named_before, spoken
from grid.text.objects import Found, UnreadableError, objects, whole_object

NO_FUNCTION = "arguments without a function's name"
_MESSAGE = '{"content": '
_MARK = re.compile(r"<tool_call>|\[TOOL_CALLS\]")
_LISTS = ("tool_calls", "plan", "calls")
_NAMES = frozenset({"tool", "name"})  # next to one of these keys, such a list is an argument
_OPENING = re.compile(
    r"(?:```\w*|<[^<>]{1,60}>|\[TOOL_CALLS\]|<\|start\|>\s*assistant|<\|channel\|>\s*commentary|^tool_code)\s*\Z"
)


class Native(NamedTuple):
    """The text before the first call (the whole text if there is no call), and each call or the error in reading it."""

    words: str
    calls: tuple[Call | UnreadableError, ...]


def read_native(text: str, tools: Mapping[str, ToolSpec]) -> Native:
    """The text and the calls in an answer, in order.

    If calls are marked, only the text after the first mark is searched for calls; otherwise every object that is a call
    counts. All calls count, whatever the text between them says, since a server that parses the model's calls would
    pass on all of them.

    Args:
        text: the answer; the thought before `</think>` is left out.
        tools: the offered tools, by the names of their functions.

    Raises:
        UnreadableError: the answer contains an unfinished thought, is too long, contains more than MAX_STEPS calls, or
            begins like a server's message (`as_message`) but is not one.
    """
    if text.startswith(_MESSAGE):
        return _message(text, tools)
    _, end, answer = text.rpartition("</think>")
    if not end and answer.lstrip().startswith("<think>"):
        raise UnreadableError("a thought and no answer")
    answer = spoken(answer)
    if tagged := [*blocks(answer, tools)]:
        return _bounded(_words(answer[: tagged[0][0]]), [call for _, call in tagged])
    mark = _MARK.search(answer)
    body = answer[mark.start() :] if mark else answer
    found = _named(objects(body), body, tools)
    calls = _calls(found, tools, marked=mark is not None)
    if calls and not _unnamed(calls):
        return _bounded(_words(answer[: mark.start()] if mark else body[: found[0].start]), calls)
    if mark is None and (written := expressions(answer, tools)):
        return _bounded(_words(answer[: written[0]]), written[1])
    if not calls and (seen := looks_like_a_call(answer, tools)):
        calls = [UnreadableError(f"what looks like a call, in a form that is not known: {seen!r}")]
    return _bounded(answer, calls)


def _words(text: str) -> str:
    """A text with the marks that open a call removed from its end."""
    while opening := _OPENING.search(text):
        text = text[: opening.start()]
    return text


def _named(found: list[Found], body: str, tools: Mapping[str, ToolSpec]) -> list[Found]:
    """The objects.

    An object that has only arguments and follows a tool's name becomes a call that starts at the name.
    """
    named, end = list[Found](), 0
    for one in found:
        front = named_before(body[end : one.start], tools) if isinstance(one.value, dict) else None
        end, began = one.end, end
        if front and not _is_call(one.value, tools):
            one = one._replace(value={"tool": front[0], "arguments": one.value}, start=began + front[1])
        named.append(one)
    return named


def _is_call(value: Json, tools: Mapping[str, ToolSpec]) -> bool:
    return _read(value, tools) is not None or any(name in value for name in _LISTS if isinstance(value, dict))


def _unnamed(calls: list[Call | UnreadableError]) -> bool:
    """Whether all entries are arguments without a function name."""
    return all(isinstance(call, UnreadableError) and str(call) == NO_FUNCTION for call in calls)


def as_message(content: str, tool_calls: Any) -> str:
    """The text of an answer made from a server's message with calls: the message's text, and its calls unchanged."""
    return to_json({"content": content, "tool_calls": tool_calls})


def _message(text: str, tools: Mapping[str, ToolSpec]) -> Native:
    message = whole_object(text)
    calls = _calls([Found({"tool_calls": message.get("tool_calls")}, 0, len(text), closed=True)], tools, marked=True)
    return _bounded(str(message.get("content") or ""), calls)


def _bounded(words: str, calls: list[Call | UnreadableError]) -> Native:
    if len(calls) > MAX_STEPS:
        raise UnreadableError(f"{len(calls)} calls, {MAX_STEPS} at most")
    return Native(words.strip(), tuple(calls))


def _calls(found: list[Found], tools: Mapping[str, ToolSpec], marked: bool) -> list[Call | UnreadableError]:
    calls: list[Call | UnreadableError] = []
    for one in found:
        if one.why:
            calls.append(UnreadableError(one.why))
            continue
        entries, listed = _entries(one.value)
        read = [_read(entry, tools) for entry in entries]
        if marked or listed or any(read):
            calls += [call or UnreadableError(NO_CALL) for call in read]
    if not calls and marked:
        return [UnreadableError(NO_CALL)]
    return calls or [UnreadableError(NO_FUNCTION) for one in found if _are_arguments(one.value, tools)]


def _are_arguments(value: Json, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether an object contains only arguments of one function, so that it is a call without the function name."""
    if not isinstance(value, dict) or not value:
        return False
    others = (tool for name, tool in tools.items() if name != FINISH)
    return any(value.keys() <= {parameter.name for parameter in tool.parameters} for tool in others)


def _entries(value: Json) -> tuple[list[Json], bool]:
    """The values that may be calls, and whether all of them must be calls because an object lists them as calls."""
    if isinstance(value, list):
        return value, False
    key = next((key for key in _LISTS if isinstance(value, dict) and key in value), None)
    if not isinstance(value, dict) or key is None or not _NAMES.isdisjoint(value):
        return [value], False
    inner = value[key]
    return (inner if isinstance(inner, list) else [inner]), True


def _read(value: Json, tools: Mapping[str, ToolSpec]) -> Call | UnreadableError | None:
    """The call, or the error that explains why it cannot be read; None for an object that is not a call."""
    try:
        found = calls_in(value, tools) if isinstance(value, dict) else None
    except UnreadableError as error:
        return error
    return found[0] if found and len(found) == 1 else None

"""Reads an object as a tool call, in the forms that models use: `tool`/`arguments`, `name`/`parameters`, or wrapped.

No name or argument is ever dropped silently: a name or argument that fits nowhere makes the object unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from grid.core.types import NO_TOOL, Json, ToolCall, ToolSpec
from grid.core.untrusted import loads
from grid.text import references
from grid.text.objects import UnreadableError, whole_object

MAX_ARGUMENTS = 64
_NAMES = ("tool", "tool_name", "function_name", "recipient_name", "function", "name", "action")
_ARGUMENTS = (
    *("arguments", "parameters", "args", "params", "kwargs"),
    *("tool_input", "action_input", "tool_arguments", "tool_args", "input"),
)
_WRAPPERS = ("function", "tool_call", "function_call", "tool", "action", "call")
_LISTS = ("tool_calls", "function_calls", "calls")
_ENVELOPE = frozenset({"id", "call_id", "tool_call_id", "type", "index"})
_REMARKS = frozenset(
    {"thought", "thoughts", "thinking", "reasoning", "reason", "rationale", "explanation", "comment", "confidence"}
)
_AROUND = re.compile(r"\A(?:functions\.|default_api\.|<function=)|(?::\d+|\(\))\Z")
_NONE = frozenset({"none", "null", "n/a", "no_tool", "no-tool", "no tool", "no tool required", "no tool needed"})


@dataclass(frozen=True)
class Call:
    """A tool and its arguments as a model wrote them, with the preceding thought if there is one.

    Thoughts are ignored when calls are compared.
    """

    tool: str
    arguments: dict[str, Json]
    thought: str | None = field(default=None, compare=False)


def calls_in(value: Json, tools: Mapping[str, ToolSpec]) -> list[Call] | None:
    """The calls in an object: one call, or several in a list; None if the object is not a call.

    An object with an empty list of calls, such as `tool_calls`, is a call to NO_TOOL.

    Args:
        value: an object, or a list of objects.
        tools: the offered tools, by name; may be empty.

    Raises:
        UnreadableError: the object is meant as a call, but the intended call cannot be determined.
    """
    if isinstance(value, list):
        found = [calls_in(item, tools) for item in value]
        if not any(found):
            return None
        if not all(found):
            raise UnreadableError("a list of which only some entries are calls")
        return [call for calls in found for call in calls or ()]
    if not isinstance(value, dict):
        return None
    for key in _LISTS:
        if key in value and isinstance(inner := value[key], list):
            calls = [Call(NO_TOOL, {})] if not inner else calls_in(inner, tools)
            return [replace(call, thought=call.thought or _thought(value)) for call in calls or ()] or None
    if not isinstance(value.get("tool"), str):
        for key in _WRAPPERS:
            if isinstance(inner := value.get(key), dict):
                around = {name: item for name, item in value.items() if name in (*_ARGUMENTS, "thought")}
                return calls_in({**around, **inner}, tools)
    call = _call(value, tools)
    return [call] if call else None


def _call(found: dict[str, Json], tools: Mapping[str, ToolSpec]) -> Call | None:
    key = next((key for key in _NAMES if _names(found, key, tools)), None)
    if key is None:
        keys = [key for key in found if key not in _REMARKS]
        if len(keys) == 1 and keys[0] in tools and isinstance(arguments := found[keys[0]], dict):
            return _made(keys[0], arguments, found)
        return None
    tool = tool_meant(found[key], tools)
    parameters = {parameter.name for parameter in tools[tool].parameters} if tool in tools else set()
    places = [place for place in _ARGUMENTS if place in found and place not in parameters and place != key]
    if places:
        arguments = _agreed(found, places)
        if arguments.get("type") == "object" and "properties" in arguments and "properties" not in parameters:
            raise UnreadableError(f"the definition of {tool:.80} instead of a call")
        beside = [
            name
            for name in found
            if name in parameters and name not in (key, *places) and name not in arguments and name not in _ENVELOPE
        ]
        if beside:
            raise UnreadableError(f"{beside[0]!r:.80} beside the arguments of {tool:.80}")
    else:
        arguments = {
            name: value
            for name, value in found.items()
            if name != key and (name in parameters or name not in _REMARKS | _ENVELOPE)
        }
        strange = [name for name in arguments if name not in parameters]
        if strange and tool != NO_TOOL:
            raise UnreadableError(f"{strange[0]!r:.80}, which is not an argument of {tool:.80}")
    if tool == NO_TOOL:
        if places and arguments and found[key] != NO_TOOL:
            raise UnreadableError("arguments without a tool")
        arguments = {}
    return _made(tool, arguments, found)


def _made(tool: str, arguments: dict[str, Json], found: dict[str, Json]) -> Call:
    if len(arguments) > MAX_ARGUMENTS:
        raise UnreadableError(f"{len(arguments)} arguments, {MAX_ARGUMENTS} at most")
    return Call(tool, arguments, _thought(found))


def _names(found: dict[str, Json], key: str, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether the value under `key` in an object is a tool's name.

    Keys that are also used in other kinds of objects count only if the value names an offered tool or no tool, or if
    the object has arguments.
    """
    if key not in found:
        return False
    name = found[key]
    if key == "tool":
        return name is None or isinstance(name, str)
    return isinstance(name, str) and (
        tool_meant(name, tools) in (*tools, NO_TOOL) or any(at in found for at in _ARGUMENTS)
    )


def tool_meant(name: Json, tools: Mapping[str, ToolSpec]) -> str:
    """The tool that a name stands for; NO_TOOL if the name stands for no tool; otherwise the name itself.

    Servers and models may write a name with additions: `functions.x:0`, `default_api.x`, `mcp__server__x`, `x()` and
    channel marks. An exact tool name takes precedence; a name that could stand for two tools stands for neither.
    """
    written = name.strip() if isinstance(name, str) else ""
    if written in tools:
        return written
    bare = _AROUND.sub("", written.partition("<|")[0].strip())
    if bare in tools:
        return bare
    served = [tool for tool in tools if bare.startswith("mcp__") and bare.endswith(f"__{tool}")]
    if len(served) == 1:
        return served[0]
    if name is None or written.rstrip(".").casefold() in _NONE:
        return NO_TOOL
    return written


def _agreed(found: dict[str, Json], places: list[str]) -> dict[str, Json]:
    """The arguments of an object; if the object gives arguments in two places, both must be equal."""
    first, *others = [_arguments(found[place]) for place in places]
    if any(other != first for other in others):
        raise UnreadableError(f"both {places[0]!r} and {places[1]!r}, which differ")
    return first


def _arguments(value: Json) -> dict[str, Json]:
    """Arguments as an object; the model may have written the object as a string."""
    if isinstance(value, dict):
        return value
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        return {}
    if isinstance(value, str):
        try:
            return whole_object(_unquoted(value))
        except UnreadableError as error:
            raise UnreadableError(f"arguments that are {error}") from None
    raise UnreadableError("arguments that are no object")


def _unquoted(text: str) -> str:
    """The text of arguments, without a second JSON encoding and without empty strings after the object (`{}""`)."""
    try:
        inner = loads(text)
    except (ValueError, RecursionError):
        inner = None
    return inner if isinstance(inner, str) else re.sub(r'(?<=\})\s*(?:"")+\s*\Z', "", text)


def _thought(found: dict[str, Json]) -> str | None:
    thought = found.get("thought")
    return thought if isinstance(thought, str) else None


# Misspells a name in a call, as if the name were remembered inexactly.


_WORD = re.compile(r"[^\W\d_]{4,}")


def misspelt(call: ToolCall, choices: Collection[str] = ()) -> ToolCall | None:
    """The call with one name misspelt, in the first argument whose text contains a word of at least four letters.

    In the longest word, the second and third letters are swapped; if they are equal, a later pair is swapped. Arguments
    whose values are listed in the schema (`choices`) and references to results do not count as names. Returns None if
    the call contains no name.
    """
    for name, value in call.arguments.items():
        if name in choices or not isinstance(value, str) or references.PATTERN.search(value):
            continue
        written = _misspelt(value)
        if written != value:
            return replace(call, arguments={**call.arguments, name: written})
    return None


def listed(tool: ToolSpec | None) -> frozenset[str]:
    """The names of the parameters whose values are listed in the tool's schema; empty if there is no tool."""
    return frozenset(one.name for one in tool.parameters if one.values) if tool else frozenset()


def _misspelt(text: str) -> str:
    words = sorted(_WORD.finditer(text), key=lambda word: -len(word[0]))
    for word in words:
        for place in range(word.start() + 1, word.end() - 1):
            if text[place] != text[place + 1]:
                return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text

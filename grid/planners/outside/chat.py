"""The supported part of OpenAI's chat completions: parses requests and formats answers.

It stands apart from `session` because that module deals with an episode and not with this format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import one_line
from grid.core.types import Json, Parameter, ToolSpec, Usage, to_json
from grid.core.untrusted import loads_storable

MODEL = "agent-grid"
"""The name under which agents ask the acting model; agents do not learn the model's real name."""
_MOST_N = 128
_MOST = 4096  # for messages and for tools


class RefusedError(Exception):
    """A request that is not answered; the error has OpenAI's status and code."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        self.message, self.status, self.code = message, status, code
        super().__init__(message)

    def body(self) -> dict[str, Json]:
        """The body of the response that reports the error to the agent."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


class Loose(BaseModel):
    """A part of a request, in which unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class _Called(Loose):
    name: str
    arguments: str = "{}"


class _ToolCall(Loose):
    id: str
    function: _Called


class _Part(Loose):
    type: str
    text: str = ""


class _Message(Loose):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _Function(Loose):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(Loose):
    type: Literal["function"]
    function: _Function


class _Streaming(Loose):
    include_usage: bool | None = None


class _Body(Loose):
    model: str
    messages: Annotated[list[_Message], Field(min_length=1, max_length=_MOST)]
    tools: Annotated[list[_Tool], Field(max_length=_MOST)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    n: Annotated[int, Field(ge=1, le=_MOST_N)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _Streaming | None = None
    logprobs: bool | None = None
    response_format: dict[str, Any] | None = None


@dataclass(frozen=True)
class Asked:
    """A parsed request to the acting model.

    `system` contains the system messages at the start; `conversation` contains all other messages, in the form of a
    prompt section that holds a conversation. `tools` are the definitions of the request's functions, or only those that
    `tool_choice` allows. If `temperature` or `max_tokens` is None, the planner's value applies. `several`: whether one
    answer may contain several calls.
    """

    system: str
    conversation: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    n: int = 1
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    several: bool = True
    stream: bool = False
    usage_in_stream: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the request's functions."""
        return tuple(tool["function"]["name"] for tool in self.tools)


Model = TypeVar("Model", bound=Loose)


def validated(kind: type[Model], told: object) -> Model:
    """A value parsed as an object of the class `kind`; raises RefusedError if the value does not have that form."""
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RefusedError(one_line(f"{place}: {first['msg']}", 300)) from None


def loaded(body: bytes) -> Any:
    """A request's body, read as JSON; raises RefusedError if it is not JSON."""
    try:
        return loads_storable(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(one_line(f"the body is not JSON: {error}", 300)) from None


def read(told: object) -> Asked:
    """Read a request from its JSON; raises RefusedError if it is malformed or needs a feature that is not supported."""
    found = validated(_Body, told)
    if found.model != MODEL:
        told = f"there is no model {one_line(found.model, 80)!r}; the setting's model is {MODEL!r}"
        raise RefusedError(told, 404, "model_not_found")
    if found.logprobs:
        raise RefusedError("logprobs: they are not available here")
    if found.response_format and found.response_format.get("type") != "text":
        raise RefusedError("response_format: only text is supported")
    front = next((place for place, one in enumerate(found.messages) if not _of_system(one)), len(found.messages))
    limits = [most for most in (found.max_tokens, found.max_completion_tokens) if most is not None]
    return Asked(
        system="\n\n".join(map(_text, found.messages[:front])),
        conversation=tuple(map(_message, found.messages[front:])),
        tools=_tools(found),
        n=found.n or 1,
        temperature=found.temperature,
        max_tokens=min(limits, default=None),
        stop=tuple([found.stop] if isinstance(found.stop, str) else found.stop or ()),
        several=found.parallel_tool_calls is not False,
        stream=bool(found.stream),
        usage_in_stream=bool(found.stream_options and found.stream_options.include_usage),
    )


def _told(function: _Function) -> dict[str, Any]:
    """A function as a mapping, in which keys with null values are left out.

    Pydantic's `model_dump` would take ten times as long, and a request may have fifty functions.
    """
    parts = (("name", function.name), ("description", function.description), ("parameters", function.parameters))
    return {name: value for name, value in parts if value is not None}


def _of_system(message: _Message) -> bool:
    return message.role in ("system", "developer")


def _tools(body: _Body) -> tuple[dict[str, Any], ...]:
    """The functions that may be called: all functions, the function named by `tool_choice`, or no function."""
    choice, tools = body.tool_choice, body.tools or []
    if choice == "none":
        return ()
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        tools = [tool for tool in tools if tool.function.name == name]
        if not tools:
            raise RefusedError(f"tool_choice: {one_line(name, 80)!r} is not one of the tools")
    if len({tool.function.name for tool in tools}) < len(tools):
        raise RefusedError("tools: two tools have the same name")
    return tuple({"type": "function", "function": _told(tool.function)} for tool in tools)


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        if other := next((part.type for part in message.content if part.type not in ("text", "refusal")), None):
            raise RefusedError(f"messages: content of type {one_line(other, 40)!r} is not supported, only text")
        return "\n".join(part.text for part in message.content)
    return message.content or ""


def _message(message: _Message) -> dict[str, Any]:
    """A message as one line of a conversation (`episode.conversation`)."""
    found: dict[str, Any] = {"role": "user" if _of_system(message) else message.role, "content": _text(message)}
    if message.role == "tool":
        if message.tool_call_id is None:
            raise RefusedError("messages: a tool's message has no tool_call_id")
        found["id"] = message.tool_call_id
    if message.tool_calls:
        found["calls"] = [_call(call) for call in message.tool_calls]
    return found


def _call(call: _ToolCall) -> dict[str, Any]:
    try:
        arguments = loads_storable(call.function.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise RefusedError(f"messages: the arguments of {one_line(call.id, 80)!r} are not a JSON object")
    return {"id": call.id, "name": call.function.name, "arguments": arguments}


def spec_of(definition: Mapping[str, Any]) -> ToolSpec:
    """The tool that stands for a function defined by the agent, so that answers that call it can be parsed."""
    function = definition["function"]
    schema = function.get("parameters") or {}
    properties, required = schema.get("properties"), schema.get("required")
    parameters = tuple(
        Parameter(str(name), _type(one), "", isinstance(required, list) and name in required)
        for name, one in (properties if isinstance(properties, dict) else {}).items()
    )
    return ToolSpec(function["name"], str(function.get("description") or ""), parameters)


def _type(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else "string"


# The answer.


@dataclass(frozen=True)
class Said:
    """One completion: its text, and its calls as (function name, arguments); `cut`: whether it reached the token limit.

    `reasoning`: the thought's key in the message and the thought itself, if the model's server returns thoughts
    separately.
    """

    words: str
    calls: Sequence[tuple[str, Mapping[str, Json]]] = ()
    cut: bool = False
    reasoning: tuple[str, str] | None = None


def completion(said: Sequence[Said], usage: Usage, number: int) -> dict[str, Any]:
    """The answer to the request with this `number` in an episode.

    Ids are derived from the number, so that cells can be reproduced.
    """
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [_choice(one, place, number) for place, one in enumerate(said)],
        "usage": _usage(usage),
    }


def _choice(said: Said, place: int, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.words or (None if said.calls else "")}
    if said.reasoning:
        message |= dict([said.reasoning])
    if said.calls:
        message["tool_calls"] = [
            {
                "id": f"call{number:04}x{place:02}x{index:02}",
                "type": "function",
                "function": {"name": name, "arguments": to_json(dict(arguments))},
            }
            for index, (name, arguments) in enumerate(said.calls)
        ]
    reason = "tool_calls" if said.calls else "length" if said.cut else "stop"
    return {"index": place, "message": message, "finish_reason": reason, "logprobs": None}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def events(answer: Mapping[str, Any], with_usage: bool) -> Iterator[str]:
    """A complete answer as server-sent events."""
    head = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    for choice in answer["choices"]:
        message = dict(choice["message"])
        if calls := message.pop("tool_calls", None):
            message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        whole = {"index": choice["index"], "delta": message, "finish_reason": None}
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        yield from (_event(head | {"choices": [part]}) for part in (whole, end))
    if with_usage:
        yield _event(head | {"choices": [], "usage": answer["usage"]})
    yield "data: [DONE]\n\n"


def _event(chunk: Mapping[str, Any]) -> str:
    return f"data: {to_json(dict(chunk))}\n\n"

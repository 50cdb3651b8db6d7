"""Translates the supported part of OpenAI's Responses API: requests to chat requests, completions to responses.

It stands apart from `chat` because `chat` contains the only format that the session reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from grid.core.types import to_json
from grid.planners.outside import chat
from grid.planners.outside.chat import Asked, Loose

_MOST = 4096  # items
_WORDS = ("input_text", "output_text")


class _Item(Loose):
    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: str | None = None
    content: str | list[dict[str, Any]] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[dict[str, Any]] | None = None


class _Tool(Loose):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Body(Loose):
    input: Annotated[list[_Item], Field(min_length=1, max_length=_MOST)]
    instructions: str | None = None
    tools: Annotated[list[_Tool], Field(max_length=_MOST)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None
    previous_response_id: None = None
    conversation: None = None
    background: Literal[False] | None = None


_PASSED = ("model", "temperature", "parallel_tool_calls", "stream")


def read(told: Any) -> Asked:
    """Read a request from its JSON; raises RefusedError if it is malformed or needs a feature that is not supported."""
    if isinstance(told, dict) and isinstance(told.get("input"), str):
        told = told | {"input": [{"role": "user", "content": told["input"]}]}
    found = chat.validated(_Body, told)
    front = [{"role": "system", "content": found.instructions}] if found.instructions else []
    choice, tools = found.tool_choice, [tool.model_dump(exclude={"type"}) for tool in found.tools or ()]
    return chat.read(
        {name: told.get(name) for name in _PASSED}
        | {
            "messages": [*front, *_messages(found.input)],
            "tools": [{"type": "function", "function": tool} for tool in tools],
            "tool_choice": {"function": choice} if isinstance(choice, dict) else choice,
            "max_tokens": found.max_output_tokens,
            "response_format": (found.text or {}).get("format"),
        }
    )


def _messages(items: list[_Item]) -> list[dict[str, Any]]:
    """A request's items as messages: calls are added to the preceding assistant message, and thoughts are left out."""
    found: list[dict[str, Any]] = []
    for item in items:
        if item.type == "message":
            found.append({"role": item.role, "content": _words(item.content)})
        elif item.type == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item.call_id, "content": _words(item.output)})
        elif item.type == "function_call":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            call = {"id": item.call_id, "function": {"name": item.name, "arguments": item.arguments}}
            found[-1].setdefault("tool_calls", []).append(call)
    return found


def _words(content: str | list[dict[str, Any]] | None) -> Any:
    if not isinstance(content, list):
        return content
    return [part | {"type": "text"} if part.get("type") in _WORDS else part for part in content]


# The answer.


def response(answer: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """A chat completion, translated into a response."""
    (choice,), number = answer["choices"], answer["id"].rpartition("-")[2]
    message, usage, cut = choice["message"], answer["usage"], choice["finish_reason"] == "length"
    status = "incomplete" if cut else "completed"
    output = [_call(call) for call in message.get("tool_calls", ())]
    if message["content"] or not output:
        text: dict[str, Any] = {"type": "output_text", "text": message["content"] or "", "annotations": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": status, "content": [text]}
        output.insert(0, said)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": answer["model"],
        "output": output,
        "parallel_tool_calls": asked.several,
        "temperature": asked.temperature,
        "tool_choice": "auto",
        "tools": [{"type": "function", "strict": False, **tool["function"]} for tool in asked.tools],
        "top_p": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": usage["completion_tokens_details"],
            "total_tokens": usage["total_tokens"],
        },
    }


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    own = {"id": f"fc_{call['id']}", "call_id": call["id"], "status": "completed"}
    return {"type": "function_call", **own, **call["function"]}


def events(found: Mapping[str, Any]) -> Iterator[str]:
    """A complete response as server-sent events, with each item in one piece."""
    for number, (kind, told) in enumerate(_events(found)):
        yield f"event: {kind}\ndata: {to_json({'type': kind, 'sequence_number': number, **told})}\n\n"


def _events(found: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": {**found, "status": "in_progress", "output": [], "usage": None}}
    for index, item in enumerate(found["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            (part,) = item["content"]
            begun, at = {**item, "content": []}, {**at, "content_index": 0}
            parts: list[tuple[str, dict[str, Any]]] = [
                ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
                ("response.output_text.delta", {**at, "delta": part["text"], "logprobs": []}),
                ("response.output_text.done", {**at, "text": part["text"], "logprobs": []}),
                ("response.content_part.done", {**at, "part": part}),
            ]
        else:
            begun, arguments = {**item, "arguments": ""}, item["arguments"]
            parts = [
                ("response.function_call_arguments.delta", {**at, "delta": arguments}),
                ("response.function_call_arguments.done", {**at, "name": item["name"], "arguments": arguments}),
            ]
        yield "response.output_item.added", {"output_index": index, "item": {**begun, "status": "in_progress"}}
        yield from parts
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield f"response.{found['status']}", {"response": found}

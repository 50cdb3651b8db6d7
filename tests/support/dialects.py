"""Anthropic's messages and Gemini's generateContent on this machine: a request's form is checked, what is told is kept.

Each answers with the first tool that it is offered, all its required arguments filled in, and tells tokens of which
some are cached and some are thought. What is not in its dialect's form is refused, as the provider does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import Asked, Reply

CLAUDE, GEMINI = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"
BOTH = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
_LISTED = re.compile(r"^\d+\. (\w+)\((.*?)\)", re.MULTILINE)
_REQUIRED = re.compile(r"(\w+)\*: (\w+)")
_FILLED: Mapping[str, Any] = {"integer": 3, "number": 2.5, "boolean": True, "array": [], "object": {}}


class WrongFormError(Exception):
    """A request that the provider would refuse."""


@dataclass(frozen=True)
class Told:
    """The tokens that a server told of an answer, as OpenAI has it: cached in the input, thought in the output."""

    input: int
    cached: int
    output: int
    thought: int


@dataclass
class Dialect:
    """A server of one provider: `told` has the tokens of each answer, `native` how many had calls of tools."""

    key: str
    refuses: Callable[[Any], str | None] = lambda body: None
    told: list[Told] = field(default_factory=list)
    native: int = 0
    results: int = 0

    def __call__(self, asked: Asked) -> Reply:
        """OpenAI's own, without tokens."""
        self.told.append(Told(0, 0, 0, 0))
        return Reply(body={"choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]})

    def expect(self, holds: object, what: str) -> None:
        """Raise what is answered with status 400."""
        if not holds:
            raise WrongFormError(what)

    def tokens(self, asked: Asked, output: int, thought: int = 0) -> Told:
        """So many as the request is long; a third of a second and later one is cached."""
        read = len(json.dumps(asked.body)) // 4
        self.told.append(Told(read, read // 3 if len(self.told) else 0, output + thought, thought))
        return self.told[-1]

    def sums(self, since: int) -> Told:
        """Of all answers from one on."""
        parts = self.told[since:]
        return Told(*(sum(getattr(one, name) for one in parts) for name in ("input", "cached", "output", "thought")))


def in_words(text: str) -> str:
    """A call of the first tool that a text lists, as the JSON object that it asks for."""
    name, parameters = found.groups() if (found := _LISTED.search(text)) else ("no_tool", "")
    arguments = {key: _FILLED.get(kind, "2024-05-05") for key, kind in _REQUIRED.findall(parameters)}
    return json.dumps({"thought": "It is the first.", "action": {"tool": name, "arguments": arguments}})


def filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The required arguments of a function."""
    kinds = ((name, schema["properties"][name]) for name in schema.get("required", ()))
    return {name: one["enum"][0] if "enum" in one else _FILLED.get(one["type"], "2024-05-05") for name, one in kinds}


class Anthropic(Dialect):
    """POST /v1/messages."""

    def __call__(self, asked: Asked) -> Reply:
        try:
            self.expect(asked.path == "/v1/messages", f"path {asked.path}")
            if asked.headers.get("x-api-key") != self.key:
                return self._error(401, "authentication_error", "invalid x-api-key")
            self._check(asked.headers, asked.body)
        except WrongFormError as error:
            return self._error(400, "invalid_request_error", str(error))
        if said := self.refuses(asked.body):
            return self._error(400, "invalid_request_error", said)
        return self._answer(asked)

    def _error(self, status: int, kind: str, said: str) -> Reply:
        return Reply(status, {"type": "error", "error": {"type": kind, "message": said}})

    def _check(self, headers: Mapping[str, str], body: Any) -> None:
        self.expect(headers.get("anthropic-version"), "anthropic-version: header is required")
        self.expect(body.get("model") == CLAUDE.partition("/")[2], f"model: {body.get('model')}")
        self.expect(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
        self.expect(not {"seed", "n", "response_format"} & set(body), "seed: Extra inputs are not permitted")
        self.expect(not {"temperature", "top_p"} <= set(body), BOTH)
        roles = [message["role"] for message in body["messages"]]
        wanted = ["user", "assistant"] * len(roles)
        self.expect(roles == wanted[: len(roles)] and roles[-1] == "user", f"messages: roles {roles}")
        for tool in body.get("tools", ()):
            self.expect(tool.keys() >= {"name", "input_schema"}, "tools: name and input_schema are required")
            self.expect(tool["input_schema"]["type"] == "object", "tools: input_schema.type")
        waiting: list[str] = []
        for message in body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            self.expect(given == waiting, f"tool_use ids without tool_result blocks: {waiting}, {given}")
            self.expect(all(block.get("text", "x") for block in blocks), "text content blocks must be non-empty")
            thought = blocks[0]["type"] == "thinking" and blocks[0].get("signature") if blocks else None
            free = message["role"] == "user" or not any(block["type"] == "tool_use" for block in blocks)
            self.expect(free or thought or "thinking" not in body, "Expected `thinking`, but found `tool_use`")
            self.results += len(given) if message is body["messages"][-1] else 0
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]

    def _answer(self, asked: Asked) -> Reply:
        body = asked.body
        if body.get("tools"):
            tool = body["tools"][0]
            self.native += 1
            block = {"type": "tool_use", "id": "toolu_01", "name": tool["name"], "input": filled(tool["input_schema"])}
        else:
            block = {"type": "text", "text": in_words(_last_text(body["messages"][-1]["content"]))}
        told = self.tokens(asked, 12)
        usage = {"input_tokens": told.input - told.cached, "cache_read_input_tokens": told.cached}
        reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
        thought = {"type": "thinking", "thinking": "Which is first?", "signature": "c2ln"}
        blocks = [thought, block] if "thinking" in body else [block]
        answer = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929"}
        usage |= {"cache_creation_input_tokens": 0, "output_tokens": told.output}
        return Reply(body={**answer, "content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage})


class Gemini(Dialect):
    """POST /v1beta/models/NAME:generateContent."""

    def __call__(self, asked: Asked) -> Reply:
        try:
            name = GEMINI.partition("/")[2]
            self.expect(asked.path == f"/v1beta/models/{name}:generateContent", f"path {asked.path}")
            if asked.headers.get("x-goog-api-key") != self.key:
                return self._error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
            self._check(asked.body)
        except WrongFormError as error:
            return self._error(400, "INVALID_ARGUMENT", str(error))
        if said := self.refuses(asked.body):
            return self._error(400, "INVALID_ARGUMENT", said)
        return self._answer(asked)

    def _error(self, status: int, kind: str, said: str) -> Reply:
        return Reply(status, {"error": {"code": status, "message": said, "status": kind}})

    def _check(self, body: Any) -> None:
        known = {"contents", "tools", "toolConfig", "generationConfig", "system_instruction", "systemInstruction"}
        self.expect(set(body) <= known, f"unknown names {set(body) - known}")
        roles = [content["role"] for content in body["contents"]]
        turns = [
            role for place, role in enumerate(roles) if role != roles[place - 1] or not place
        ]  # two of one are taken
        self.expect(turns == ["user", *["model", "user"] * (len(turns) // 2)], f"contents: roles {roles}")
        self.expect(isinstance(body["generationConfig"].get("seed"), int), "the seed is taken here")
        waiting: list[str] = []
        for content in body["contents"]:
            given = [part["function_response"]["name"] for part in content["parts"] if "function_response" in part]
            self.expect(given == waiting, f"function responses of {given} for calls of {waiting}")
            self.expect(all(part.get("text", "x") for part in content["parts"]), "a part must not be empty")
            self.results += len(given) if content in body["contents"][-2:] else 0
            waiting = [part["function_call"]["name"] for part in content["parts"] if "function_call" in part]

    def _answer(self, asked: Asked) -> Reply:
        body = asked.body
        part: dict[str, Any]
        if body.get("tools"):
            function = body["tools"][0]["function_declarations"][0]
            self.native += 1
            part = {"functionCall": {"name": function["name"], "args": filled(function.get("parameters") or {})}}
        else:
            part = {"text": in_words(_last_text(body["contents"][-1]["parts"]))}
        told = self.tokens(asked, 8, thought=5)
        usage = {"promptTokenCount": told.input, "candidatesTokenCount": told.output - told.thought}
        usage |= {"thoughtsTokenCount": told.thought, "totalTokenCount": told.input + told.output}
        usage |= {"cachedContentTokenCount": told.cached} if told.cached else {}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return Reply(body={"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"})


def _last_text(parts: str | Sequence[Mapping[str, Any]]) -> str:
    return parts if isinstance(parts, str) else "\n".join(part["text"] for part in parts if "text" in part)

"""OpenAI's chat interface: a prompt as messages, and what comes back."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from grid.core.engine import FunctionsAnswer, JsonAnswer, Prompt
from grid.core.types import Json, to_json
from grid.core.untrusted import loads
from grid.engines.answer_schema import answer_schema
from grid.engines.http.beside import Beside
from grid.engines.http.content import Content, read_content
from grid.text.native import as_message
from grid.text.objects import whole

# Control tokens as common chat templates write them.
_CONTROL = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>")
_CUT = frozenset({"length", "model_length", "max_tokens", "max_output_tokens", "content_filter"})
OWN = frozenset(
    {"model", "messages", "temperature", "seed", "n", "stream", "max_tokens", "max_completion_tokens"}
    | {"response_format", "tools", "tool_choice"}
)
"""A request's keys that the engine sets itself."""


class Model(BaseModel):
    """One model of a server's list."""

    id: str
    owned_by: str | None = None


class Models(BaseModel):
    """A server's list of models."""

    data: list[Model]


class _Message(BaseModel):
    content: Annotated[Content, BeforeValidator(read_content)] = Content(None)
    tool_calls: Any = None
    function_call: Any = None  # as servers had it before tool_calls
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None

    @property
    def calls(self) -> Any:
        """Its calls as the server wrote them; nothing where there are none."""
        return self.tool_calls or (self.function_call and [{"function": self.function_call}])

    @property
    def thought(self) -> str:
        """What the server tells of a thought, apart from the answer."""
        apart = self.reasoning_content or self.reasoning
        return apart if isinstance(apart, str) else self.content.thought

    @property
    def misplaced(self) -> str:
        """Of a message without content and calls, the call or object that its server took for the end of a thought."""
        thought = self.thought
        if (self.content.text or "").strip() or self.calls:
            return ""
        mark = thought.rfind("<tool_call>")
        answer = thought[max(mark, 0) :]
        return answer if whole(answer) and answer.rstrip().endswith(("</tool_call>", "}")) else ""


class Answer(BaseModel):
    """One completion."""

    message: _Message
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The answer, without what was thought first where the server leaves that in it."""
        text = self.message.content.text or self.message.misplaced
        _, end, answer = text.rpartition("</think>")
        if end:
            return answer
        return "" if text.lstrip().startswith("<think>") else text

    @property
    def with_calls(self) -> str:
        """The answer to a request with tools: its text or, with calls, both as JSON, calls as the server wrote them."""
        if not self.message.calls:
            return self.text
        return as_message(self.text, self.message.calls)

    @property
    def said(self) -> tuple[str, str]:
        """All that took tokens: what was thought; and the text, with calls as JSON, or a refusal."""
        message = self.message
        text = message.content.text or message.content.refusal
        if message.calls:
            return message.thought, as_message(text, message.calls)
        return message.thought, text or (message.refusal if isinstance(message.refusal, str) else "")

    @property
    def cut(self) -> bool:
        """Whether it ended before the model had ended it: at the limit on tokens, or since a filter came between."""
        return (self.finish_reason or "").lower() in _CUT

    @property
    def cut_off(self) -> bool:
        """Whether that came before the answer's first word: all went into thinking."""
        return self.cut and not self.with_calls.strip()


class Chat(Beside):
    """What a server answers to a chat."""

    choices: Annotated[list[Answer], Field(min_length=1)]


def question(prompt: Prompt, structured: bool, padded: bool = False, strict: bool = False) -> dict[str, Any]:
    """What a request says of a prompt: its messages, and its functions or, where `structured`, its answer's schema.

    `strict`: in OpenAI's strict mode, where the schema can be said in it.
    """
    asked: dict[str, Any] = {"messages": messages(prompt, padded)}
    if functions := prompt.functions():
        return asked | {"tools": functions, "tool_choice": "auto"}
    if structured and isinstance(prompt.answer, JsonAnswer):
        schema = answer_schema(prompt.answer)
        exact = strict_schema(schema) if strict else None
        wanted = {"name": "tool_call", "schema": exact or schema} | ({"strict": True} if exact else {})
        asked["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return asked


def told(prompt: Prompt, answer: Answer, strict: bool = False) -> str:
    """What a completion says in answer to a prompt: its text or, for functions, its calls too."""
    if isinstance(prompt.answer, FunctionsAnswer):
        return answer.with_calls
    return without_nulls(answer.text) if strict and isinstance(prompt.answer, JsonAnswer) else answer.text


def messages(prompt: Prompt, padded: bool = False) -> list[dict[str, str]]:
    """The prompt as a chat, as rendering.py has it: role as the system's message, all else as the user's.

    Control tokens that are written out in the prompt's own words are broken up: they are data. `padded`: options have
    numbers of equal width.
    """
    texts: dict[str, list[str]] = {"system": [], "user": []}
    for section in prompt.sections:
        if section.kind == "functions":
            continue
        texts["system" if section.kind == "role" else "user"].append("\n".join(section.lines(padded)))
    joined = {role: "\n\n".join(parts) for role, parts in texts.items() if parts}
    return [{"role": role, "content": plain(text)} for role, text in joined.items()]


def plain(text: str) -> str:
    """The text, what looks like a control token broken up."""
    return _CONTROL.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)


# OpenAI's strict mode: a JSON schema as it takes it, and an answer under it as the schema itself has it.
#
# Its objects have all their properties required and no others, so that what may be left out may be null instead; every
# part has a type, and its root is an object (the guide "Structured model outputs").


_NULL = {"type": "null"}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in that form; None where it cannot be said.

    Lists and objects that may hold anything are not taken, nor is a root that is no single object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except _UnsayableError:
        return None


class _UnsayableError(Exception):
    """A part of a schema that has no strict form."""


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {"anyOf": [_strict(part) for part in schema["anyOf"]]}
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        kinds = {str: "string", float: "number"}
        return {"type": kinds.get(type(values[0]), "integer"), "enum": values}
    if schema["type"] == "array":
        if "items" not in schema:
            raise _UnsayableError
        return schema | {"items": _strict(schema["items"])}
    if schema["type"] != "object":
        return schema
    if "properties" not in schema:
        raise _UnsayableError
    parts = {name: _strict(part) for name, part in schema["properties"].items()}
    given = {name: part if name in schema["required"] else _or_null(part) for name, part in parts.items()}
    return {"type": "object", "properties": given, "required": [*given], "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schema.get("anyOf", [schema]), _NULL]}


def without_nulls(text: str) -> str:
    """An answer without the arguments that are null; as it is where there are none, or where it is no JSON."""
    if "null" not in text:
        return text
    try:
        return to_json(_left_out(loads(text), arguments=False))
    except (ValueError, RecursionError):
        return text


def _left_out(value: Json, arguments: bool) -> Json:
    if isinstance(value, list):
        return [_left_out(item, arguments=False) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not (arguments and item is None)}
    return {name: item if arguments else _left_out(item, name == "arguments") for name, item in kept.items()}

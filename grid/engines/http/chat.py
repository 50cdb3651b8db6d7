"""OpenAI's chat interface: a prompt as messages, and what comes back."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field

from grid.engines.answer_schema import answer_schema
from grid.engines.base import FunctionsAnswer, JsonAnswer, Prompt
from grid.engines.http.strict import strict_schema, without_nulls
from grid.engines.http.token_server import Spent
from grid.text.native import as_message

# Control tokens as common chat templates write them.
_CONTROL = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>")
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
    content: str | None = None  # what was thought has a field of its own, which is not read
    tool_calls: Any = None


class Answer(BaseModel):
    """One completion."""

    message: _Message
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The answer, without what was thought first where the server leaves that in it."""
        text = self.message.content or ""
        _, end, answer = text.rpartition("</think>")
        if end:
            return answer
        return "" if text.lstrip().startswith("<think>") else text

    @property
    def with_calls(self) -> str:
        """The answer to a request with tools: its text or, with calls, both as JSON, calls as the server wrote them."""
        if not self.message.tool_calls:
            return self.text
        return as_message(self.text, self.message.tool_calls)

    @property
    def cut_off(self) -> bool:
        """Whether the limit on tokens came before the answer's first word: all went into thinking."""
        return self.finish_reason == "length" and not self.with_calls.strip()


class Chat(BaseModel):
    """What a server answers to a chat."""

    choices: Annotated[list[Answer], Field(min_length=1)]
    usage: Spent


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

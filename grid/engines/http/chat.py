"""OpenAI's chat interface: a prompt as messages, and what comes back."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from grid.core.engine import FunctionsAnswer, JsonAnswer, Prompt
from grid.engines.answer_schema import answer_schema
from grid.engines.http.beside import Beside
from grid.engines.http.content import Content, read_content
from grid.engines.http.strict import strict_schema, without_nulls
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

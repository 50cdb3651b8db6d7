"""OpenAI's chat interface: a prompt as messages, and what comes back."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, Field

from grid.engines.base import Prompt
from grid.engines.http.token_server import Spent

# Control tokens as common chat templates write them.
_CONTROL = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>")


class Model(BaseModel):
    """One model of a server's list."""

    id: str
    owned_by: str | None = None


class Models(BaseModel):
    """A server's list of models."""

    data: list[Model]


class _Message(BaseModel):
    content: str | None = None  # what was thought has a field of its own, which is not read


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
    def cut_off(self) -> bool:
        """Whether the limit on tokens came before the answer's first word: all went into thinking."""
        return self.finish_reason == "length" and not self.text.strip()


class Chat(BaseModel):
    """What a server answers to a chat."""

    choices: Annotated[list[Answer], Field(min_length=1)]
    usage: Spent


def messages(prompt: Prompt, padded: bool = False) -> list[dict[str, str]]:
    """The prompt as a chat, as rendering.py has it: role as the system's message, all else as the user's.

    Control tokens that are written out in the prompt's own words are broken up: they are data. `padded`: options have
    numbers of equal width.
    """
    texts: dict[str, list[str]] = {"system": [], "user": []}
    for section in prompt.sections:
        texts["system" if section.kind == "role" else "user"].append("\n".join(section.lines(padded)))
    joined = {role: "\n\n".join(parts) for role, parts in texts.items() if parts}
    return [{"role": role, "content": plain(text)} for role, text in joined.items()]


def plain(text: str) -> str:
    """The text, what looks like a control token broken up."""
    return _CONTROL.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)

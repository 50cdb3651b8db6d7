"""Asking engines for one case: what was sent and answered, word for word, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from grid.engines.base import NATIVE, Choice, Engine, Prompt
from grid.engines.functions import handed_over
from grid.engines.roles import Role
from grid.seeds import derive_seed
from grid.types import Usage


@dataclass
class Message:
    """One request as the engine got it and what it answered, verbatim.

    `decision` names what it was for. `answers` are the `n` completions asked for, `probabilities` those of a choice's
    options; without either the engine did not answer. `unreadable` has, by the completion's place, why it could not be
    used.
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


class Answers(NamedTuple):
    """Completions, what they cost, and the message that keeps them."""

    texts: tuple[str, ...]
    usage: Usage
    message: Message


class Requests:
    """Engines by role, asked under one seed.

    Every request derives its own seed from `seed` and the names of the decision, so that results do not depend on the
    order in which requests are answered. `messages` are all that was asked and answered, `spent` is what each role did.
    """

    def __init__(
        self,
        engines: Mapping[Role, Engine],
        seed: int,
        allow: Callable[[Prompt, int], None] = lambda prompt, calls: None,
    ) -> None:
        """`allow` raises where a prompt for so many completions is too much."""
        self.messages: list[Message] = []
        self.spent = {role: Usage() for role in engines}
        self._engines, self._seed, self._allow = engines, seed, allow

    async def sample(
        self, role: Role, prompt: Prompt, *key: object, n: int, temperature: float, max_tokens: int
    ) -> Answers:
        """`n` completions and what they cost; `key` names the decision.

        An engine with native tool calls is handed the prompt's tools as functions; the message keeps what it got.
        """
        if NATIVE in self._engines[role].provides:
            prompt = handed_over(prompt)
        self._allow(prompt, n)
        message = self._message(role, prompt, key, n, temperature, max_tokens)
        sampled = await self._engines[role].sample(
            prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=message.seed
        )
        self.spent[role] += sampled.usage
        message.answers = sampled.completions
        return Answers(sampled.completions, sampled.usage, message)

    async def choose(self, role: Role, prompt: Prompt, *key: object) -> Choice:
        """The exact distribution over the prompt's numbered options; `key` names the decision."""
        self._allow(prompt, 1)
        message = self._message(role, prompt, key)
        choice = await self._engines[role].choose(prompt, seed=message.seed)
        self.spent[role] += choice.usage
        message.probabilities = choice.probabilities
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

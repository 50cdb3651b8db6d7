"""A model that plays the user to whom planners talk (τ²-bench's user simulator)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import partial

from grid.core.engine import USER, Engine, Prompt, Section, TextAnswer
from grid.core.errors import ContextError, ModelError
from grid.core.types import to_json
from grid.core.untrusted import shown_lines
from grid.episode.judging import Retries, readable
from grid.episode.requests import Requests
from grid.roles.simulation import AskedOnce, Simulating
from grid.text.objects import UnreadableError
from grid.worlds.simulated import Said

ASK = Section("instruction", ("You play the customer. Write the customer's next message, and nothing else.",))
NOTHING_SAID = "Nothing was said yet."
AGENT, CUSTOMER = "Agent", "Customer"
_LABEL = re.compile(r"(?:user|customer|you|me)\s*:\s*", re.IGNORECASE)
_OTHER = re.compile(r"^[^\S\n]*(?:agent|assistant|representative)\s*:", re.IGNORECASE | re.MULTILINE)
_MOST_CHARACTERS = 20_000
_MAX_TOKENS = 1024
_DIGITS = 12  # number of digits of a digest


class Customer:
    """The user of one cell's conversation: a `grid.worlds.simulated.User`.

    `requests` records the user's requests and their usage, which no budget limits. `failures` counts unreadable
    messages, and conversations that are too long for the model. The model is asked once for each state of the
    conversation, so that all branches that reach this state get the same message. `seed` is the same for all planners.
    """

    def __init__(self, engine: Engine, how: Simulating, seed: int) -> None:
        self.requests = Requests({USER: engine}, seed)
        self.failures = 0
        self._how = how
        self._replies = AskedOnce[str, str | None]()

    async def reply(self, scenario: Sequence[str], said: Sequence[Said]) -> str | None:
        """The user's next message, including stop tokens.

        None if no answer can be read even after all retries, or if the conversation does not fit the model's context.

        Raises:
            EngineError: the model does not answer.
        """
        heard = to_json([list(scenario), [list(one) for one in said]])
        return await self._replies(heard, partial(self._asked, scenario, said, heard))

    async def _asked(self, scenario: Sequence[str], said: Sequence[Said], heard: str) -> str | None:
        digest = hashlib.sha256(heard.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
        how = Retries(self._how.temperature, self._how.max_retries, _MAX_TOKENS)
        try:
            (found,) = await readable(
                self.requests, USER, prompt_of(scenario, said), read_message, ("reply", len(said), digest), how
            )
        except (ModelError, ContextError):
            self.failures += 1
            return None
        return found


def prompt_of(scenario: Sequence[str], said: Sequence[Said]) -> Prompt:
    """The prompt for the next message: the guidelines and the scenario from the data, and the conversation."""
    lines = [f"{CUSTOMER if one.by_user else AGENT}: {shown_lines(one.text)}" for one in said]
    history = Section("history", ("The conversation so far:", *(lines or (NOTHING_SAID,))))
    return Prompt((Section("role", tuple(scenario)), history, ASK), TextAnswer())


def read_message(text: str) -> str:
    """The message in an answer; a label before it and invented messages from the agent after it are removed.

    A message of more than 20,000 characters is cut.

    Raises:
        UnreadableError: the message is empty.
    """
    text = text.strip()
    if label := _LABEL.match(text):
        text = text[label.end() :]
    if other := _OTHER.search(text):
        text = text[: other.start()]
    if not text.strip():
        raise UnreadableError("no message of the customer's")
    return text.strip()[:_MOST_CHARACTERS]

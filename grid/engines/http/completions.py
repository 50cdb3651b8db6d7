"""The common part of engines that get a model's answers in OpenAI's form, over HTTP or through a library.

This module stands apart from `http/engine` because `providers` also uses it: both engines have the same requests,
answers, usage and probes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import ACTOR, CHOOSE, MESSAGES, NATIVE, SAMPLE, History, Home, Prompt, Sampled, Tools, shown_as
from grid.core.errors import ConfigError, ContextError
from grid.core.types import Usage
from grid.core.util import STRICT, derive_seed
from grid.engines.functions import handed_over
from grid.engines.hosted import Occupancy, Probe, conversation_probe, covered
from grid.engines.http import client as http_sampler
from grid.engines.http.chat import OWN, Chat, Counts, counts, question, told
from grid.engines.http.client import Answered, Client, RefusedError, Serving, WithheldError, gathered

_SEED_BITS = 31  # the maximum that servers accept


@dataclass(config=STRICT, kw_only=True)
class Completions:
    """A model that answers chats in OpenAI's form; a subclass's `load` sets the `Client` that sends the requests.

    Args:
        base_url: the server's address.
        model: the model's name on the server.
        identity: distinguishes models that have the same name on different servers; it is not part of any request.
        max_tokens: the maximum number of tokens in a completion, even if a planner asks for more.
        reasoning_tokens: tokens for thinking, added to the limit since servers count a thought as part of the answer.
        limit_key: the name of the key for the token limit in requests; OpenAI's reasoning models accept only
            `max_completion_tokens`, older servers only `max_tokens`.
        tools: `prompt` lists tools in the prompt; `native` sends them as the request's `tools`, with `tool_choice`
            auto.
        history: how earlier steps are shown: as lines of the prompt (`text`), or as the `messages` of a conversation
            (answers with their calls, and the result of each call). If the server returns thoughts and accepts them
            back, the answers in a conversation include their thoughts. With null, `messages` is used if tools are
            native, else `text`.
        structured: whether the answer's schema restricts the sampling of JSON answers; a schema is never used for
            choices or native tool calls.
        strict: use OpenAI's strict mode, in which omitted arguments are null; without this mode, OpenAI treats the
            schema only as a hint.
        sampling: the sampler's keys in requests. `plain` switches off top_p, top_k, min_p and the repetition penalty,
            which vLLM's server would otherwise fill in from the model's generation config. `top_p` switches off only
            top_p, since OpenAI refuses the other keys. `server` sends none of these keys. With null, `plain` is used if
            `exact_choice` is set, else `top_p`.
        extra: further keys of chat requests, such as `reasoning_effort`, `top_p` or `chat_template_kwargs`.
        omit: keys that chat requests leave out because the server refuses them; the server then uses its own values.
            Without `temperature`, the temperatures of planners and judges do not reach the server; without `seed`,
            trials cannot be repeated.
        serving: how requests are sent.

    Raises:
        ConfigError: `omit` has a key that cannot be left out or that `extra` sets, `extra` has a key that the engine
            sets itself, `strict` is set without `structured`, or the name of the API key's variable is not in capital
            letters (it may be the key itself).
    """

    base_url: str
    model: Annotated[str, Field(min_length=1)]
    identity: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    reasoning_tokens: Annotated[int, Field(ge=0)] = 0
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tools: Tools = "prompt"
    history: History | None = None
    structured: bool = True
    strict: bool = False
    sampling: http_sampler.Sampling | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    omit: list[str] = Field(default_factory=list)
    serving: Serving = Field(default_factory=Serving)
    home: ClassVar[Home] = "gateway"
    gpus: ClassVar[int] = 0

    def __post_init__(self) -> None:
        env = self.serving.api_key_env
        if env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", env):
            # The value may be the key itself, so it is not shown.
            allowed = "the name of an environment variable in capital letters, never the key itself"
            raise ConfigError("model.serving.api_key_env", "(not shown)", allowed)
        taken = sorted(set(self.extra) & OWN)
        if taken:
            raise ConfigError("model.extra", taken, "keys that the engine does not set itself")
        http_sampler.check_omitted(self.omit, self.extra)
        self._keys = http_sampler.keys(self.sampling, CHOOSE in self.provides, self.extra, self.omit)
        if self.strict and not self.structured:
            raise ConfigError("model.strict", True, "false, because model.structured is false")
        self._client: Client | None = None
        self._tried = set[Probe]()
        self._padded, self._takes_reasoning = False, True
        self.counts = True

    @property
    def provides(self) -> frozenset[str]:
        """Sampling, and native calls and conversations if they are configured."""
        converses = shown_as(self.history, self.tools) == "messages"
        can = {NATIVE: self.tools == "native", MESSAGES: converses}
        return frozenset({SAMPLE, *(what for what, whether in can.items() if whether)})

    @property
    def sampler(self) -> str:
        """The sampler's keys that requests set or leave out; for all other keys, the server uses its own defaults."""
        return http_sampler.told(self._keys, self.omit)

    @property
    def environment(self) -> tuple[str, ...]:
        """The name of the variable that holds the key; empty without a key."""
        return (self.serving.api_key_env,) if self.serving.api_key_env else ()

    async def probe(self, probes: Sequence[Probe]) -> None:
        """Try requests like those of the sweep, so that refused requests are found before the first cell.

        Raises:
            ConfigError: the server refuses a request, or the model's context has no room for `max_tokens`; the error
                names the config key to change.
            EngineError: the server does not answer.
        """
        for probe in probes:
            if probe not in self._tried:
                await self._probed(probe)

    async def _try_out(self) -> None:
        """Try a short completion, and a conversation if later prompts have one.

        Raises the same errors as `probe`, and also ConfigError if thinking uses all tokens.
        """
        probed = await self._probed(Probe(ACTOR, 1.0))
        self.counts = not probed.usage.uncounted_answers
        if probed.usage.empty_answers:
            allowed = (
                f"more: all {self.max_tokens + self.reasoning_tokens} tokens were used before the answer's first word; "
            )
            allowed += "or turn thinking off with chat_template_kwargs or reasoning_effort in model.extra"
            raise ConfigError("model.reasoning_tokens", self.reasoning_tokens, allowed)
        if MESSAGES in self.provides:
            await self._converse(probed.reasoning.get(0))

    async def _probed(self, probe: Probe) -> Sampled:
        asked = handed_over(probe.prompt) if self.tools == "native" else probe.prompt
        how = {"n": 1, "max_tokens": self.max_tokens, "seed": 0}
        try:
            found = await self.sample(asked, temperature=probe.temperature, **how)
        except RefusedError as error:
            raise self._refused(error, probe.told) from None
        except ContextError as error:
            raise self._too_long(error) from None
        self._tried.add(probe)
        return found

    async def _converse(self, reasoning: tuple[str, str] | None) -> None:
        """Try a conversation; if the server refuses its thought, later requests have no thoughts.

        Raises the same errors as `probe`.
        """
        asked = conversation_probe(self.tools == "native", reasoning)
        asked = handed_over(asked) if self.tools == "native" else asked
        for self._takes_reasoning in (True, False) if reasoning else (True,):
            try:
                await self.sample(asked, n=1, temperature=1.0, max_tokens=self.max_tokens, seed=0)
                return
            except RefusedError as error:
                refused = error
            except ContextError as error:
                raise self._too_long(error) from None
        allowed = f"text, because the server refuses messages with an earlier answer and its result ({refused})"
        raise ConfigError(
            "model.history", self.history or "null (which means messages, because tools are native)", allowed
        )

    def _too_long(self, error: ContextError) -> ConfigError:
        return ConfigError("model.max_tokens", self.max_tokens, f"less than the model's context ({error})")

    def _refused(self, error: RefusedError, told: str) -> ConfigError:
        """The error for a refused request, which says what to change; `told` describes the request."""
        if error.status in (401, 403):
            allowed = f"the name of an environment variable with a key that the server accepts ({error})"
            return ConfigError("model.serving.api_key_env", self.serving.api_key_env, allowed)
        named = [key for key in sorted(http_sampler.OMITTED) if re.search(rf"\b{key}\b", str(error))]
        if {"temperature", "top_p"} <= set(named):
            named.remove("temperature")  # the server accepts one of these two keys
        if named and not set(named) <= {*self.omit, *self.extra}:
            omit = ", ".join(dict.fromkeys([*self.omit, *named]))
            allowed = f"[{omit}], because this server refuses requests with these keys; {told} ({error})"
            return ConfigError("model.omit", self.omit, allowed)
        allowed = f"a server that accepts requests made by model.structured, tools, limit_key, extra and omit ({error})"
        return ConfigError("model.base_url", self.base_url, allowed)

    @property
    def capacity(self) -> int:
        """The number of cases that keep one replica busy: its maximum number of requests in flight."""
        return self.serving.max_in_flight

    async def check(self) -> None:
        """Check nothing, because a server that is down may come back, and restarting this process would not help."""

    def occupancy(self) -> Occupancy:
        """The numbers of requests in flight, including those waiting for a retry, and of requests not yet sent."""
        return Occupancy(self._client.running, self._client.waiting) if self._client else Occupancy(0, 0)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions, each from a request with its own seed; a refusal is an empty completion.

        If the server withholds a completion, because the server cannot read the model's answer or a filter stopped the
        answer, the completion is also empty. A withheld completion counts as an unreadable answer of the model, and its
        number of tokens is unknown.

        The completions are not requested with the key `n` in one request, for two reasons: vLLM would seed completion i
        with seed + i, so that neighbouring seeds would have completions in common, and some servers refuse `n`.

        Raises:
            ContextError: the prompt does not fit the model's context.
            EngineError: the server refuses a request or does not answer.
        """
        client = self._loaded()
        body = {
            **self._keys,
            "model": self.model,
            **question(prompt, self.structured, self._padded, self.strict, self._takes_reasoning),
            "temperature": temperature,
            self.limit_key: min(max_tokens, self.max_tokens) + self.reasoning_tokens,
        }
        seeds = [derive_seed(seed, index) % 2**_SEED_BITS for index in range(n)]
        bodies = [{k: v for k, v in {**body, "seed": part}.items() if k not in self.omit} for part in seeds]
        try:
            came = await gathered(_asked(client, self._url, one) for one in bodies)
        except ContextError as error:
            room = None if error.room is None else error.room - self.reasoning_tokens
            raise ContextError(error.message, room) from None
        withheld = {place: str(answer) for place, answer in enumerate(came) if isinstance(answer, WithheldError)}
        answers = [answer for answer in came if not isinstance(answer, WithheldError)]
        chats = [answer.value for answer in answers]
        places = [place for place in range(n) if place not in withheld]
        found = dict(zip(places, (chat.choices[0] for chat in chats), strict=True))
        cut = frozenset(place for place, answer in found.items() if answer.cut)
        usage = Usage(
            llm_calls=n,
            resent_requests=sum(answer.again for answer in answers),
            empty_answers=sum(answer.cut_off for answer in found.values()),
            cut_answers=len(cut),
            uncounted_answers=len(withheld),
        )
        usage = sum(await gathered(self._spent(body, chat) for chat in chats), usage)
        texts = tuple(told(prompt, found[place], self.strict) if place in found else "" for place in range(n))
        sources = frozenset(chat.source for chat in chats)
        span = covered(answer.span for answer in answers)
        reasoning = {place: given for place in found if (given := found[place].message.reasoning_given)}
        return Sampled(texts, usage, span, cut, sources, withheld, reasoning)

    async def _spent(self, body: Mapping[str, Any], chat: Chat) -> Usage:
        """An answer's usage: as the server reports it or, if the server reports no plausible usage, as we count it."""
        said = chat.choices[0].said
        found = counts(chat.usage, any(said)) or await self._counted(body, said)
        return found.usage() if found else Usage(uncounted_answers=1)

    async def _counted(self, body: Mapping[str, Any], said: Sequence[str]) -> Counts | None:
        """The numbers of tokens in a request and in its answer; None if the tokens cannot be counted."""
        return None

    @property
    def _url(self) -> str:
        return f"{self.base_url}/chat/completions"

    def _loaded(self) -> Client:
        if self._client is None:
            raise RuntimeError("load() comes first")
        return self._client


async def _asked(client: Client, url: str, body: dict[str, Any]) -> Answered[Chat] | WithheldError:
    """One completion; if the server withholds it, the error is returned, not raised, so other requests continue."""
    try:
        return await client.ask(url, body, Chat)
    except WithheldError as error:
        return error

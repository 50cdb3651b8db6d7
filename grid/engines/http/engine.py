"""The engine `openai_http`: any server or provider with OpenAI's HTTP interface.

Sampling works with all of them. An exact choice needs log-probabilities of tokens given by their ids, and the server's
own tokenizer: `logprob_token_ids` of /completions, and /tokenize and /detokenize, as vLLM's server has them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from grid.engines import names
from grid.engines.base import CHOOSE, NATIVE, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Sampled, Tools, option_numbers
from grid.engines.choice import ChoiceSearch, Prefix
from grid.engines.functions import handed_over
from grid.engines.hosted import Occupancy
from grid.engines.http import sampler as http_sampler
from grid.engines.http.chat import OWN, Chat, Models, messages, plain, question, told
from grid.engines.http.client import HTTPClient, RefusedError, checked_url, gathered, read_key
from grid.engines.http.token_server import TokenServer
from grid.engines.language_model import Labels, check_labels, number_search
from grid.engines.probe import CALL_PROBE, CHOICE_PROBE, CLOCK
from grid.engines.spans import Span, covered
from grid.errors import ConfigError, ContextError, ModelError
from grid.seeds import derive_seed
from grid.strict import STRICT
from grid.text.http import is_loopback
from grid.types import Usage

_SEED_BITS = 31  # servers take no more
_LABELS = 100  # of which load() asks the tokens


class Serving(BaseModel):
    """How requests are sent: no result depends on it.

    `api_key_env` names, in capital letters, the environment variable that holds the key; null: no key.
    `max_wait_seconds`: a server that asks to wait longer (Retry-After) is given up.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    api_key_env: str | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = 16
    request_seconds: Annotated[float, Field(gt=0)] = 300.0
    tries: Annotated[int, Field(ge=1, le=20)] = 6
    max_wait_seconds: Annotated[float, Field(ge=0)] = 600.0


@dataclass(config=STRICT, kw_only=True)
class OpenAIHTTP:
    """A model at a server with OpenAI's interface.

    Args:
        base_url: up to and including the version, as in `http://127.0.0.1:8000/v1`.
        model: the server's name of the model.
        max_tokens: the longest completion, whatever a planner asks for.
        reasoning_tokens: room for thinking besides: servers count it with the answer.
        limit_key: what that limit is called: OpenAI's reasoning models take `max_completion_tokens` only, older
            servers `max_tokens` only.
        tools: `prompt` lists them in the prompt; `native` sends them as the request's `tools`, `tool_choice` is auto.
        structured: JSON answers are sampled under their schema; a choice and native tool calls never are.
        strict: in OpenAI's strict mode: without it the schema is a hint there. Arguments left out are null in it.
        exact_choice: the server returns what exact choices need; load() asks it.
        answer_prefix: put in front of every choice's answer, for models that begin with a channel or empty thought.
        mass_bound: of an exact choice, nodes below this share of the mass are left out; 0 is exact.
        printed_form: algorithm 3 as printed: no number that begins another gets any mass.
        sampling: what requests say of the sampler: `plain` switches off top_p, top_k, min_p and the repetition penalty,
            which vLLM's server fills in from the model's generation config else; `top_p` that one alone, since
            OpenAI refuses the others; `server` says nothing. Null: plain with exact_choice, else top_p.
        labels: of numbered options: `natural`, `terminated` or `padded`, as for a model held here.
        extra: further keys of chat requests, such as `reasoning_effort`, `top_p` or `chat_template_kwargs`.

    Raises:
        ConfigError: a URL that is none, or over which a key would be seen.
    """

    base_url: str
    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] = 1024
    reasoning_tokens: Annotated[int, Field(ge=0)] = 0
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tools: Tools = "prompt"
    structured: bool = True
    strict: bool = False
    exact_choice: bool = False
    answer_prefix: str = ""
    mass_bound: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    printed_form: bool = False
    sampling: http_sampler.Sampling | None = None
    labels: Labels = "natural"
    extra: dict[str, Any] = Field(default_factory=dict)
    serving: Serving = Field(default_factory=Serving)
    name: ClassVar[str] = "openai_http"
    home: ClassVar[Home] = "gateway"
    gpus: ClassVar[int] = 0

    def __post_init__(self) -> None:
        env = self.serving.api_key_env
        if env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", env):
            # It may be the key itself, so it is not shown.
            allowed = "the name of an environment variable in capital letters, never the key itself"
            raise ConfigError("model.serving.api_key_env", "(not shown)", allowed)
        self.base_url = checked_url(self.base_url, env is not None)
        taken = sorted(set(self.extra) & OWN)
        if taken:
            raise ConfigError("model.extra", taken, "keys that the engine does not set itself")
        self._keys = http_sampler.keys(self.sampling, self.exact_choice, self.extra)
        check_labels(self.printed_form, self.labels)
        if self.strict and not self.structured:
            raise ConfigError("model.strict", True, "false where model.structured is")
        self._server: tuple[HTTPClient, TokenServer] | None = None

    @property
    def provides(self) -> frozenset[str]:
        """Choices only where the server returns what they need."""
        native = [NATIVE] if self.tools == "native" else []
        return frozenset({SAMPLE, *([CHOOSE] if self.exact_choice else []), *native})

    @property
    def version(self) -> str:
        """The model's name and the server's."""
        return f"{self.model}@{urlsplit(self.base_url).netloc}"

    @property
    def sampler(self) -> str:
        """The keys of the sampler that requests carry; a server's own defaults hold for the others."""
        return http_sampler.told(self._keys)

    @property
    def environment(self) -> tuple[str, ...]:
        """The variable that holds the key."""
        return (self.serving.api_key_env,) if self.serving.api_key_env else ()

    async def load(self) -> None:
        """Ask the server whether it can do what is configured: its models, one short completion, one choice.

        Raises:
            ConfigError: a missing or refused key, a model that is not there, a server that cannot do it.
            EngineError: a server that does not answer.
        """
        client = HTTPClient(
            read_key(self.serving.api_key_env),
            proxies=not is_loopback(self.base_url),
            in_flight=self.serving.max_in_flight,
            request_seconds=self.serving.request_seconds,
            tries=self.serving.tries,
            longest_wait=self.serving.max_wait_seconds,
        )
        chat = {key: value for key, value in self.extra.items() if key == "chat_template_kwargs"}
        self._server = client, TokenServer(client, self.base_url, self.model, self.answer_prefix, chat)
        try:
            await self._check_model(client)
            probe = handed_over(CALL_PROBE) if self.tools == "native" else CALL_PROBE
            probed = await self.sample(probe, n=1, temperature=1.0, max_tokens=self.max_tokens, seed=0)
        except RefusedError as error:
            if error.status in (401, 403):
                allowed = f"an environment variable with a key that the server takes ({error})"
                raise ConfigError("model.serving.api_key_env", self.serving.api_key_env, allowed) from None
            allowed = (
                f"a server that takes requests as model.structured, tools, limit_key and extra make them ({error})"
            )
            raise ConfigError("model.base_url", self.base_url, allowed) from None
        except ContextError as error:
            raise ConfigError("model.max_tokens", self.max_tokens, f"less than the model's context ({error})") from None
        if probed.usage.empty_answers:
            allowed = (
                f"more, for {self.max_tokens + self.reasoning_tokens} tokens ended before the answer's first word; "
            )
            allowed += "or no thinking first: model.extra.chat_template_kwargs or reasoning_effort"
            raise ConfigError("model.reasoning_tokens", self.reasoning_tokens, allowed)
        if self.exact_choice:
            try:
                await self._server[1].labels(self._numbers(_LABELS))
                await self.choose(CHOICE_PROBE, seed=0)
                await self._server[1].names([CLOCK.name])
            except RefusedError as error:
                allowed = f"false, or a server that returns what exact choices need ({error}); see planners that sample"
                raise ConfigError("model.exact_choice", True, allowed) from None

    @property
    def capacity(self) -> int:
        """As many as the server may have in hand."""
        return self.serving.max_in_flight

    async def check(self) -> None:
        """A server that is gone may come back: requests are tried again, and a new process here would not help."""

    def occupancy(self) -> Occupancy:
        """Requests at the server or about to be tried again, and those that wait for `max_in_flight`."""
        client = self._server[0] if self._server else None
        return Occupancy(client.running, client.waiting) if client else Occupancy(0, 0)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions, each a request with a seed of its own; a refusal is an empty one.

        With `n` in one request vLLM seeds completion i with seed + i, so that neighbouring seeds overlap, and some
        servers refuse it.

        Raises:
            ContextError: the prompt does not fit the model's context.
            EngineError: the server refuses or does not answer.
        """
        client, _ = self._loaded()
        body = {
            **self._keys,
            "model": self.model,
            **question(prompt, self.structured, self.labels == "padded", self.strict),
            "temperature": temperature,
            self.limit_key: min(max_tokens, self.max_tokens) + self.reasoning_tokens,
        }
        seeds = [derive_seed(seed, index) % 2**_SEED_BITS for index in range(n)]
        url = f"{self.base_url}/chat/completions"
        answers = await gathered(client.ask(url, body | {"seed": part}, Chat) for part in seeds)
        chats = [answer.value for answer in answers]
        found = [chat.choices[0] for chat in chats]
        usage = Usage(
            llm_calls=n,
            input_tokens=sum(chat.usage.prompt_tokens for chat in chats),
            cached_input_tokens=sum(chat.usage.cached for chat in chats),
            output_tokens=sum(chat.usage.completion_tokens for chat in chats),
            resent_requests=sum(answer.again for answer in answers),
            empty_answers=sum(answer.cut_off for answer in found),
        )
        texts = tuple(told(prompt, answer, self.strict) for answer in found)
        return Sampled(texts, usage, covered(answer.span for answer in answers))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options, level by level of their labels' trie, on the server's own tokens.

        Raises:
            ContextError: the prompt does not fit the model's context.
            EngineError: the server refuses or does not answer.
            ModelError: no option has any mass.
        """
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        _, server = self._loaded()
        search, stem, longest = await self._search(server, prompt.answer)
        tokens, usage = [*await server.encode(self._messages(prompt), longest), *stem], Usage()
        spans: list[Span] = []
        try:
            while wanted := search.wanted:
                asked = search.tokens
                rows = await gathered(server.log_probabilities([*tokens, *node], asked) for node in wanted)
                usage = sum((spent for _, spent, _ in rows), usage)
                spans += [span for *_, asked_at in rows for span in asked_at]
                search.feed(np.array([logs for logs, *_ in rows]))
            found = search.result()
        except ValueError as error:
            raise ModelError(str(error)) from None
        return Choice(found.probabilities, usage, found.unassigned, found.error_bound, covered(spans))

    async def _search(self, server: TokenServer, answer: ChoiceAnswer) -> tuple[ChoiceSearch, Prefix, int]:
        """A fresh search for the options, the tokens in front of its root, and the most that a label has."""
        if answer.names:
            named = await server.names(list(map(plain, answer.names)))
            return *names.search(named, self.mass_bound), max(len(label) for ways in named for label in ways)
        labels = await server.labels(self._numbers(len(answer.options)))
        return number_search(self, labels, await server.digits()), (), max(map(len, labels))

    async def _check_model(self, client: HTTPClient) -> None:
        """Raise ConfigError where the server does not list the model, or would choose its sampler."""
        try:
            listed = (await client.ask(f"{self.base_url}/models", None, Models)).value
        except RefusedError as error:
            if error.status in (404, 405, 501):
                return  # not every provider has a list; the first completion will show
            raise
        found = [model.id for model in listed.data]
        if self.model not in found:
            some = client.shown(", ".join(found)) or "none"
            raise ConfigError("model.model", self.model, f"a model that {self.base_url} lists: {some}")
        http_sampler.check(self.sampling, self.exact_choice, (model.owned_by for model in listed.data))

    def _numbers(self, count: int) -> tuple[str, ...]:
        return option_numbers(count, self.labels == "padded")

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        return messages(prompt, self.labels == "padded")

    def _loaded(self) -> tuple[HTTPClient, TokenServer]:
        if self._server is None:
            raise RuntimeError("load() comes first")
        return self._server

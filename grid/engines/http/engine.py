"""The engine `openai_http`: any server or provider with OpenAI's HTTP interface.

Sampling works with every such server. Exact choices need a server that returns log-probabilities of tokens by id
(`logprob_token_ids` of /completions) and gives access to its tokenizer (/tokenize and /detokenize), as vLLM does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, Choice, ChoiceAnswer, Prompt, Source, option_numbers
from grid.core.errors import ConfigError, ContextError, EngineError, ModelError
from grid.core.types import Usage
from grid.core.util import STRICT
from grid.engines import choice
from grid.engines.choice import ChoiceSearch, Prefix
from grid.engines.hosted import CHOICE_PROBE, CLOCK, Span, covered
from grid.engines.http import client as http_sampler
from grid.engines.http.chat import Beside, Counts, Models, counts, messages, plain
from grid.engines.http.client import Client, HTTPClient, RefusedError, checked_url, gathered, read_key
from grid.engines.http.completions import Completions
from grid.engines.language_model import Labels, check_labels, number_search
from grid.engines.messages import Message
from grid.text.http import is_loopback

_LABELS = 100  # number of labels whose tokens load() requests


@dataclass(config=STRICT, kw_only=True)
class OpenAIHTTP(Completions):
    """A model at a server with OpenAI's interface.

    Args:
        base_url: the URL up to and including the version, such as `http://127.0.0.1:8000/v1`.
        model: the server's name for the model.
        exact_choice: whether the server returns the data that exact choices need; load() checks this.
        answer_prefix: a text put before the answer in every choice, for models whose answers begin with a channel or an
            empty thought.
        mass_bound: exact choices leave out nodes that have less than this share of the mass; with 0 no node is
            left out.
        printed_form: use algorithm 3 as printed. In this form, no one-digit number gets any mass, so there must be at
            least eleven options.
        labels: how options are numbered: `natural`, `terminated` or `padded`, as in `LanguageModel`.

    All other keys are those of `Completions`.

    Raises:
        ConfigError: as for `Completions`; also if the URL is invalid or would reveal an API key, or if `printed_form`
            is set with other labels than `natural`.
    """

    exact_choice: bool = False
    answer_prefix: str = ""
    mass_bound: Annotated[float, Field(ge=0, lt=1)] = 1e-6
    printed_form: bool = False
    labels: Labels = "natural"
    name: ClassVar[str] = "openai_http"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_url = checked_url(self.base_url, self.serving.api_key_env is not None)
        check_labels(self.printed_form, self.labels)
        self._padded = self.labels == "padded"
        self._server: TokenServer | None = None

    @property
    def provides(self) -> frozenset[str]:
        """The abilities of `Completions`, and choices if `exact_choice` is set."""
        return super().provides | ({CHOOSE} if self.exact_choice else set())

    @property
    def version(self) -> str:
        """The model's name and the server's name."""
        return f"{self.model}@{urlsplit(self.base_url).netloc}"

    async def load(self) -> None:
        """Check the configuration: request the server's list of models and a short completion.

        If configured, a conversation and a choice are requested as well.

        `probe` tries more requests, with the sweep's kinds of answer and temperatures.

        Raises:
            ConfigError: the API key is missing or refused, the server does not have the model, or the server does not
                support what is configured.
            EngineError: the server does not answer.
        """
        key = read_key(self.serving.api_key_env)
        client = HTTPClient(key, proxies=not is_loopback(self.base_url), serving=self.serving)
        chat = {key: value for key, value in self.extra.items() if key == "chat_template_kwargs"}
        self._client = client
        self._server = server = TokenServer(client, self.base_url, self.model, self.answer_prefix, chat)
        try:
            await self._check_model(client)
        except RefusedError as error:
            raise self._refused(error, "") from None
        await self._try_out()
        if self.exact_choice:
            try:
                await server.labels(self._numbers(_LABELS))
                await self.choose(CHOICE_PROBE, seed=0)
                await server.names([CLOCK.name])
            except (RefusedError, ContextError, ModelError) as error:
                allowed = (
                    f"false, or a server that can do exact choices ({error}); without them, use a planner that samples"
                )
                raise ConfigError("model.exact_choice", True, allowed) from None

    async def _counted(self, body: Mapping[str, Any], said: Sequence[str]) -> Counts | None:
        """The token counts from the server's tokenizer, if exact choices use it; None otherwise, or if it fails."""
        if self.exact_choice:
            asked = {key: body[key] for key in ("messages", "tools") if key in body}
            with suppress(EngineError, ContextError):
                return await self._tokenizer().count(asked, said)
        return None

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options, computed level by level in the trie of the labels' tokens.

        Raises:
            ConfigError: as for `number_search`.
            ContextError: the prompt does not fit the model's context.
            EngineError: the server refuses a request or does not answer.
            ModelError: no option has any mass.
        """
        if not isinstance(prompt.answer, ChoiceAnswer):
            raise TypeError("choose() needs a ChoiceAnswer")
        server = self._tokenizer()
        search, stem = await self._search(server, prompt.answer)
        tokens = [*await server.encode(self._messages(prompt), len(stem) + search.room), *stem]
        usage = Usage()
        spans, sources = list[Span](), set[Source]()
        try:
            while wanted := search.wanted:
                asked = search.tokens
                rows = await gathered(server.log_probabilities([*tokens, *node], asked) for node in wanted)
                usage = sum((row.usage for row in rows), usage)
                spans += [span for row in rows for span in row.spans]
                sources.update(*(row.sources for row in rows))
                search.feed(np.array([row.logs for row in rows]))
            found = search.result()
        except ValueError as error:
            raise ModelError(str(error)) from None
        how = covered(spans), frozenset(sources)
        return Choice(found.probabilities, usage, found.unassigned, found.error_bound, *how)

    async def _search(self, server: TokenServer, answer: ChoiceAnswer) -> tuple[ChoiceSearch, Prefix]:
        """A new search for the options, and the tokens between the prompt and the search's root."""
        if answer.names:
            return choice.search(await server.names(list(map(plain, answer.names))), self.mass_bound)
        labels = await server.labels(self._numbers(len(answer.options)))
        return number_search(self, labels, await server.digits()), ()

    async def _check_model(self, client: Client) -> None:
        """Raise ConfigError if the server does not list the model, or would fill in its own sampler."""
        try:
            listed = (await client.ask(f"{self.base_url}/models", None, Models)).value
        except RefusedError as error:
            if error.status in (404, 405, 501):
                return  # not every provider has a list; the first completion will show if the model exists
            raise
        found = [model.id for model in listed.data]
        if self.model not in found:
            some = client.shown(", ".join(found)) or "none"
            raise ConfigError("model.model", self.model, f"one of the models that {self.base_url} lists: {some}")
        http_sampler.check(self.sampling, self.exact_choice, (model.owned_by for model in listed.data))

    def _numbers(self, count: int) -> tuple[str, ...]:
        return option_numbers(count, self._padded)

    def _messages(self, prompt: Prompt) -> list[Message]:
        return messages(prompt, self._padded, self._takes_reasoning)

    def _tokenizer(self) -> TokenServer:
        if self._server is None:
            raise RuntimeError("load() comes first")
        return self._server


# The parts of a server on which exact choices depend, and which vLLM's server has: a tokenizer, and log-probabilities
# by token id.


_BLOCK, _MAX_VOCABULARY = 2048, 2**20  # maximum token ids in one request to /detokenize, and in all requests
_BREAK = "\n@~|~@\n"  # between two tokens' texts; no token contains this text
MAX_IDS = 128  # the maximum number that vLLM accepts in `logprob_token_ids`

Messages = Sequence[Message]


class _Logs(BaseModel):
    top_logprobs: list[dict[str, Annotated[float, Field(le=1e-3)]]] = []


class _Completion(BaseModel):
    logprobs: _Logs | None = None


class _Completions(Beside):
    choices: Annotated[list[_Completion], Field(min_length=1)]


class _Tokens(BaseModel):
    tokens: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
    max_model_len: int | None = None


class _Text(BaseModel):
    prompt: str


class Scored(NamedTuple):
    """The log-probabilities of tokens, with the requests' usage and time spans and the answers' sources."""

    logs: list[float]
    usage: Usage
    spans: list[Span]
    sources: frozenset[Source]


class TokenServer:
    """Turns prompts and labels into the server's tokens; asks the server for properties of its tokenizer only once.

    Args:
        client: sends requests to the server.
        base_url: the URL of OpenAI's interface; the tokenizer's URL is the same without `/v1`.
        model: the model's name on the server.
        answer_prefix: the text between the chat template's opening of the answer and the answer itself.
        chat: further keys for requests that render a chat.

    Every method raises RefusedError if the server or its tokenizer is unsuitable.
    """

    def __init__(self, client: Client, base_url: str, model: str, answer_prefix: str, chat: Mapping[str, Any]) -> None:
        self._client, self._base_url, self._model = client, base_url, model
        self._answer_prefix, self._chat = answer_prefix, chat
        self._reading = asyncio.Lock()
        self._opening, self._front, self._prefix = "", list[int](), list[int]()
        self._labels: dict[str, Prefix] = {}
        self._digits: list[int] = []

    async def encode(self, messages: Messages, room: int) -> list[int]:
        """A chat's tokens up to the start of the answer.

        Raises ContextError if these tokens and `room` further tokens do not fit into the context.
        """
        await self._read()
        found = await self._rendered(messages)
        tokens, context = [*found.tokens, *self._prefix], found.max_model_len
        if context is not None and len(tokens) + room > context:
            raise ContextError(f"{len(tokens):,} prompt tokens and {room} to answer exceed the context of {context:,}")
        return tokens

    async def count(self, chat: Mapping[str, Any], said: Sequence[str]) -> Counts:
        """The numbers of tokens in a request (its messages and tools) and its answer `said` (a thought and a text)."""
        found = await self._ids({"add_generation_prompt": True, **chat, **self._chat})
        thought, text = [len(await self._tokens(part)) if part else 0 for part in said]
        return Counts(len(found.tokens), 0, thought + text, thought)

    async def labels(self, numbers: Sequence[str]) -> list[Prefix]:
        """The tokens of these numbers at the start of the answer."""
        return await self._answers(numbers, [f"the number {number}" for number in numbers])

    async def names(self, wanted: Sequence[str]) -> list[tuple[Prefix, ...]]:
        """The labels of each option's name; a label starts at the beginning of the answer (`choice.beginnings`)."""
        texts = [(text, f"the name {name}") for name in wanted for text in choice.beginnings(name)]
        rows = await self._answers(*zip(*texts, strict=True))
        each = len(rows) // len(wanted)
        return [choice.ways(rows[start : start + each]) for start in range(0, len(rows), each)]

    async def _answers(self, texts: Sequence[str], called: Sequence[str]) -> list[Prefix]:
        """The tokens of these texts at the start of an answer; in error messages, `called` names the texts."""
        await self._read()
        async with self._reading:
            fresh = {text: what for text, what in zip(texts, called, strict=True) if text not in self._labels}
            rows = await gathered(self._tokens(self._opening + text) for text in fresh)
            size = len(self._front)
            for (text, what), row in zip(fresh.items(), rows, strict=True):
                if row[:size] != self._front or len(row) == size:
                    raise self._unfit(f"gives {what} no tokens of its own at the start of an answer")
                self._labels[text] = tuple(row[size:])
        return [self._labels[text] for text in texts]

    async def digits(self) -> list[int]:
        """All tokens that would continue a number, which are the tokens whose text begins with a digit."""
        await self._read()
        async with self._reading:
            if not self._digits:
                self._digits = await self._find_digits()
        return self._digits

    async def log_probabilities(self, tokens: list[int], wanted: Sequence[int]) -> Scored:
        """The raw log-probability of each token in `wanted`, as the next token after the sequence `tokens`.

        If more than MAX_IDS tokens are wanted, several requests are sent, each of which costs a forward pass.
        """
        body = {"model": self._model, "prompt": tokens, "max_tokens": 1, "logprobs": 1}
        body["return_tokens_as_token_ids"] = True
        parts = [wanted[start : start + MAX_IDS] for start in range(0, len(wanted), MAX_IDS)]
        url = f"{self._base_url}/completions"
        answers = await gathered(
            self._client.ask(url, body | {"logprob_token_ids": part}, _Completions) for part in parts
        )
        logs: dict[str, float] = {}
        usage = Usage()
        for answer, again, _ in answers:
            given = answer.choices[0].logprobs
            logs |= given.top_logprobs[0] if given and given.top_logprobs else {}
            told = counts(answer.usage, said=False)
            if told and told.input != len(tokens):
                raise RefusedError(f"{url}: {len(tokens)} tokens were sent, but the server counts {told.input}", 200)
            usage += Usage(0, 1, len(tokens), told.cached if told else 0, 0, again)  # known even without usage
        names = [f"token_id:{token}" for token in wanted]
        missing = sum(name not in logs for name in names)
        if missing:
            what = f"{missing} of {len(names)} tokens that were given by their ids (logprob_token_ids)"
            raise RefusedError(f"{url}: no log-probability came back for {what}", 200)
        sources = frozenset(answer.value.source for answer in answers)
        return Scored([logs[name] for name in names], usage, [answer.span for answer in answers], sources)

    async def _read(self) -> None:
        """Get the text and the tokens that precede an answer, unless they are already known."""
        async with self._reading:
            if self._opening:
                return
            chat = (await self._rendered([{"role": "user", "content": "x"}])).tokens
            opening = await self._detokenized(chat) + self._answer_prefix
            front = await self._tokens(opening)
            if front[: len(chat)] != chat:
                raise self._unfit("turns the text of a chat into other tokens than the chat's own")
            self._opening, self._front, self._prefix = opening, front, front[len(chat) :]

    async def _find_digits(self) -> list[int]:
        separator = await self._tokens(_BREAK)
        digits: list[int] = []
        start, size = 0, _BLOCK
        while size and start < _MAX_VOCABULARY:
            ids = [token for place in range(start, start + size) for token in (*separator, place)]
            try:
                text = await self._detokenized([*ids, *separator])
            except RefusedError:
                size //= 2  # some servers refuse ids beyond the vocabulary's end
                continue
            texts = text.split(_BREAK)[1:-1]
            if len(texts) != size:
                raise self._unfit("does not return a text for each single token")
            if not any(texts):
                break
            digits += [start + index for index, found in enumerate(texts) if "0" <= found[:1] <= "9"]
            start += size
        if not digits:
            raise self._unfit("has no tokens that begin with a digit")
        return digits

    async def _rendered(self, messages: Messages) -> _Tokens:
        return await self._ids({"messages": list(messages), "add_generation_prompt": True, **self._chat})

    async def _tokens(self, text: str) -> list[int]:
        return (await self._ids({"prompt": text})).tokens

    async def _ids(self, body: Mapping[str, Any]) -> _Tokens:
        body = {"model": self._model, "add_special_tokens": False, **body}
        return (await self._client.ask(self._beside("tokenize"), body, _Tokens)).value

    async def _detokenized(self, tokens: Sequence[int]) -> str:
        body = {"model": self._model, "tokens": list(tokens)}
        return (await self._client.ask(self._beside("detokenize"), body, _Text)).value.prompt

    def _beside(self, name: str) -> str:
        return f"{self._base_url.removesuffix('/v1')}/{name}"

    def _unfit(self, what: str) -> RefusedError:
        return RefusedError(f"{self._base_url}: the tokenizer of {self._model} {what}", 200)

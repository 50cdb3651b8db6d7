"""JSON over HTTP from one untrusted server, with size and time limits and retries; no message shows the key."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.errors import ConfigError, ContextError, EngineError, ModelError
from grid.core.types import to_json
from grid.core.untrusted import loads
from grid.engines.hosted import Span
from grid.engines.http.chat import Complaint, complaint, read_content, room, whose
from grid.text.http import PASSING, is_loopback, plain_url, retry_after

MAX_BYTES = 16 * 2**20  # maximum size of an answer
_MAX_MESSAGE, _MAX_READ = 200, 2000  # maximum characters of a server's message shown in an error, and read
_SPENT = frozenset({"insufficient_quota", "credit_balance_exhausted"})  # with status 429, but waiting does not help
_DIED = frozenset({"error", "abort", "aborted", "insufficient_system_resource", "engine_overloaded"})
"""Finish reasons which mean that the server failed, not that the model ended its answer."""
_SAID = ("tool_calls", "function_call", "reasoning_content", "reasoning", "refusal")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds of backoff: the first wait, and the limit of doubling

Shape = TypeVar("Shape", bound=BaseModel)
T = TypeVar("T")


class Answered(NamedTuple, Generic[Shape]):
    """A server's answer, the number of retries, and the time span of the last attempt."""

    value: Shape
    again: int
    span: Span


class RefusedError(EngineError):
    """The server would refuse the request every time; `status` is the HTTP status (200 if an answer cannot be used)."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, int]]:
        """Let the error be pickled, so that it can pass between processes."""
        return type(self), (str(self), self.status)


class WithheldError(ModelError):
    """The server did not pass on the model's answer: the server could not read it, or a filter stopped it."""


class TryAgainError(Exception):
    """A failure that may be temporary; `wait` is the number of seconds that the server asks to wait."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(message)


class Serving(BaseModel):
    """How requests are sent; no result depends on these keys.

    `api_key_env` names, in capital letters, the environment variable that holds the key; null: no key.
    `max_wait_seconds`: a request is abandoned if the server asks for a longer wait than this (Retry-After).
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    api_key_env: str | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = 16
    request_seconds: Annotated[float, Field(gt=0)] = 300.0
    tries: Annotated[int, Field(ge=1, le=20)] = 6
    max_wait_seconds: Annotated[float, Field(ge=0)] = 600.0


class Client(ABC):
    """Requests JSON in OpenAI's form, and retries after failures that may be temporary; a subclass sends the requests.

    A request that waits for a retry still counts as in flight, so that a rate limit slows down all requests.

    Args:
        serving: sets the maximum number of requests in flight, the time limit of one attempt (including the body), and
            the maximum number of attempts per request.
        secrets: texts that no message may show.
    """

    sleep = staticmethod(asyncio.sleep)
    now = staticmethod(time.time)

    def __init__(self, serving: Serving, secrets: Collection[str] = ()) -> None:
        self._seconds, self._tries, self._longest_wait = (
            serving.request_seconds,
            serving.tries,
            serving.max_wait_seconds,
        )
        self._secrets = secrets
        self._places = asyncio.Semaphore(serving.max_in_flight)
        self.running = self.waiting = 0

    @abstractmethod
    async def _exchange(self, url: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send once; returns status, headers (which are looked up by their names in lower case) and body.

        Raises TryAgainError if no answer comes.
        """

    async def ask(self, url: str, body: Mapping[str, Any] | None, shape: type[Shape]) -> Answered[Shape]:
        """Send `body` by POST, or send a GET request if `body` is None, and check the shape of the answer.

        Raises:
            ContextError: the prompt does not fit the model's context.
            WithheldError: the server could not read the model's answer, or a filter stopped it.
            RefusedError: a permanent failure.
            EngineError: a failure that persisted through `tries` attempts, or after which the server asks for a longer
                wait than `max_wait_seconds`.
        """
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            return await self._ask(url, body, shape)
        finally:
            self.running -= 1
            self._places.release()

    async def _ask(self, url: str, body: Mapping[str, Any] | None, shape: type[Shape]) -> Answered[Shape]:
        content = None if body is None else json.dumps(body).encode()
        for again in range(self._tries):
            began = time.monotonic()
            try:
                value = await self._once(url, content, shape, _limit(body))
                return Answered(value, again, (began, time.monotonic()))
            except TryAgainError as error:
                last = error
            if last.wait > self._longest_wait:
                asked = f"the server asks to wait {last.wait:,.0f} s, more than the {self._longest_wait:,.0f} s allowed"
                raise EngineError(f"{url}: {last}; {asked}")
            if again + 1 < self._tries:
                backoff = min(_FIRST_WAIT * 2**again, _LONGEST_WAIT)
                await self.sleep(last.wait + backoff * random.uniform(0.5, 1.0))
        raise EngineError(f"{url}: {last} (tried {self._tries} times)")

    async def _once(self, url: str, content: bytes | None, shape: type[Shape], limit: int) -> Shape:
        """Send the request once; raises TryAgainError for failures that may be temporary, and other errors as `ask`."""
        try:
            async with asyncio.timeout(self._seconds):
                status, headers, data = await self._exchange(url, content)
        except TimeoutError:
            raise TryAgainError(f"no answer within {self._seconds:g} s") from None
        if status in range(200, 300):
            value = self._loaded(data)
            if (failed := _failed_inside(value)) is None:
                return self._shaped(value, shape)
            status, said = failed
            text = f"HTTP 200, but the upstream server failed: {self.shown(said.message)}"
        else:
            said = _complaint(data)
            text = f"HTTP {status}: {self.shown(said.message)}"
        if of := whose(status, said.words):
            raise ContextError(f"{url}: {text}", room(said.words, limit)) if of == "context" else WithheldError(text)
        if status in PASSING and said.code not in _SPENT:
            raise TryAgainError(text, retry_after(headers.get("retry-after"), self.now()))
        if status in range(300, 400):
            text = f"HTTP {status}: redirects are not followed; this one leads to {self.shown(headers.get('location'))}"
        raise RefusedError(f"{url}: {text}", status)

    def _loaded(self, data: bytes) -> Any:
        try:
            return loads(data)
        except (ValueError, RecursionError):
            raise TryAgainError(f"the answer is not JSON: {self.shown(data.decode(errors='replace'))}") from None

    def _shaped(self, value: Any, shape: type[Shape]) -> Shape:
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            shown = self.shown(f"{place}: {first['msg']}")
            raise TryAgainError(f"the answer does not have the expected form: {shown}") from None

    def shown(self, text: str | None) -> str:
        """The part of a server's text that an error message may show: one short line, without a key."""
        text = text or ""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(text[:_MAX_READ].split())[:_MAX_MESSAGE]


class HTTPClient(Client):
    """Sends requests to one server, at any of its URLs.

    Args:
        key: sent as a bearer token; None: no token is sent.
        proxies: whether the environment's proxies are used.
        serving: as for `Client`.
    """

    def __init__(self, key: str | None, *, proxies: bool, serving: Serving) -> None:
        import httpx

        super().__init__(serving, (key,) if key else ())
        # A compressed answer could exceed the size limit once it is unpacked.
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        self._http = httpx.AsyncClient(
            headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
            timeout=None,  # noqa: S113 - asyncio's holds for the whole request
            # Idle connections are closed before servers close them, as they often do after 5 s; otherwise a request
            # could be lost.
            limits=httpx.Limits(max_connections=serving.max_in_flight, keepalive_expiry=2.0),
            follow_redirects=False,  # a redirect would send the key to another server
            trust_env=proxies,
        )

    async def _exchange(self, url: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """As in `Client`; a body of more than MAX_BYTES raises TryAgainError."""
        import httpx

        data = bytearray()
        try:
            async with self._http.stream("GET" if content is None else "POST", url, content=content) as response:
                async for part in response.aiter_raw():
                    data += part
                    if len(data) > MAX_BYTES:
                        raise TryAgainError(
                            f"HTTP {response.status_code}: the answer has more than {MAX_BYTES:,} bytes"
                        )
                return response.status_code, response.headers, bytes(data)
        except httpx.HTTPError as error:
            raise TryAgainError(self.shown(f"{type(error).__name__} {error}")) from None


async def gathered(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of jobs that run concurrently; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _complaint(data: bytes) -> Complaint:
    """The error in a response body; if the body is not JSON, the whole text is the error."""
    text = data.decode(errors="replace")
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return complaint(text, text)
    return complaint(found.get("error", found) if isinstance(found, dict) else found, text)


def _failed_inside(value: Any) -> tuple[int, Complaint] | None:
    """The status and text of an upstream server's failure that was sent with HTTP 200; None if there was no failure.

    If the upstream server dies after the answer has begun, a gateway sends one of these: an error as the body, an error
    in the choice, a finish reason that no model gives, or an empty answer of 0 tokens.
    """
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    if error := value.get("error") or choice.get("error"):
        given = error.get("code") if isinstance(error, dict) else None
        status = given if isinstance(given, int) and 400 <= given < 600 else 500
        return status, complaint(error, to_json(error))
    reason, message, usage = choice.get("finish_reason"), choice.get("message"), value.get("usage")
    if isinstance(reason, str) and (reason.lower() in _DIED or (whose(500, reason) and not _says(message))):
        own = choice.get("native_finish_reason")  # the upstream server's finish reason
        told = f"finish_reason {reason!r}" + (f" ({own})" if isinstance(own, str) and own != reason else "")
        return 500, complaint(told, told)
    counted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if reason in ("stop", None) and counted == 0 and isinstance(message, dict) and not _says(message):
        return 500, complaint(told := "an empty answer of 0 tokens", told)
    return None


def _says(message: Any) -> bool:
    """Whether an answer's message has a text, a call, a thought or a refusal."""
    if not isinstance(message, dict):
        return False
    try:
        return any(read_content(message.get("content"))) or any(map(message.get, _SAID))
    except ValueError:
        return True  # its content has an unknown form


def _limit(body: Mapping[str, Any] | None) -> int:
    """The maximum number of tokens that a request allows; 0 if the request sets no limit."""
    asked = body or {}
    return int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 0)


def checked_url(url: str, key: bool) -> str:
    """The URL without a slash at its end.

    Raises:
        ConfigError: the URL is invalid, has a password, or would cause a key to be sent unencrypted.
    """
    found = plain_url("model.base_url", url, "http://127.0.0.1:8000/v1")
    if urlsplit(url).scheme == "http" and key and not is_loopback(url):
        allowed = "a URL with https, because plain http would send the key of model.serving.api_key_env unencrypted"
        raise ConfigError("model.base_url", url, allowed)
    return found


def read_key(name: str | None) -> str | None:
    """The key in an environment variable; None if no variable is named.

    Raises ConfigError, without showing the value, if the variable is not set or its value cannot be a key.
    """
    if name is None:
        return None
    key = os.environ.get(name)
    if not key or not re.fullmatch(r"[!-~]+", key):
        what = "has characters that no key has, such as blanks or line ends" if key else "is not set"
        raise ConfigError(
            "model.serving.api_key_env", name, f"the name of an environment variable that holds a key; this one {what}"
        )
    return key


# The sampler's keys in a request to a server, sent so that no server default shapes the distribution.


Sampling = Literal["plain", "top_p", "server"]
_KEYS: Mapping[str, dict[str, float]] = {
    "plain": {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "top_p": {"top_p": 1.0},
    "server": {},
}
OMITTED = frozenset({"temperature", "seed", "tool_choice", "max_tokens", "max_completion_tokens", *_KEYS["plain"]})
"""The keys that a chat request can do without."""
_SHAPING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")
_FILLING = ("vllm", "sglang")  # servers that fill in the sampler of the model's generation config


def keys(
    sampling: Sampling | None, exact_choice: bool, extra: Mapping[str, Any], omit: Collection[str]
) -> dict[str, Any]:
    """A request's keys: the sampler's keys except those in `omit`, and the keys in `extra`, which take precedence."""
    own = _KEYS[sampling or ("plain" if exact_choice else "top_p")]
    return {**{key: value for key, value in own.items() if key not in omit}, **extra}


def told(sent: Mapping[str, Any], omit: Collection[str]) -> str:
    """The sampler as shown in result rows: `_SHAPING` keys sent, keys left out, and that the server sets all others.

    If `temperature` is left out, no planner's temperature reaches the server.
    """
    shown = {key: value for key, value in sent.items() if key in _SHAPING}
    return to_json(shown | ({"omitted": sorted(set(omit))} if omit else {}) | {"others": "server"})


def check_omitted(omit: Sequence[str], extra: Mapping[str, Any]) -> None:
    """Raise ConfigError for an omitted key that requests cannot do without or that `extra` sets."""
    unknown = [key for key in omit if key not in OMITTED]
    if unknown:
        raise ConfigError(
            "model.omit", list(omit), f"keys from {', '.join(sorted(OMITTED))} (not {', '.join(unknown)})"
        )
    both = [key for key in omit if key in extra]
    if both:
        raise ConfigError("model.omit", list(omit), f"keys that model.extra does not set (not {', '.join(both)})")


def check(sampling: Sampling | None, exact_choice: bool, owners: Iterable[str | None]) -> None:
    """Raise ConfigError if no sampler is set and `owners` show that the server would use its own sampler."""
    filling = sorted(set(_FILLING).intersection(filter(None, owners)))
    if sampling is None and not exact_choice and filling:
        allowed = f"plain or server; if null, {filling[0]}'s server uses the sampler of the model's generation config"
        raise ConfigError("model.sampling", None, allowed)

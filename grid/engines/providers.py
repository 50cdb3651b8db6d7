"""The engine `litellm`: a hundred providers through one library, whose input and output have OpenAI's form.

The library translates and sends requests. Answers, usage, prompts and probes are handled by `http/completions`, and
retries, waits and errors by `http/client`. The library's table lists models with their names, accepted parameters and
prices. The table is read as a file from the library's package, because importing the library takes seconds; only a
process that sends requests imports it.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import NATIVE, Choice, Prompt
from grid.core.errors import ConfigError
from grid.core.types import to_json
from grid.core.untrusted import loads
from grid.core.util import STRICT
from grid.engines.hosted import Listing
from grid.engines.http.chat import whose
from grid.engines.http.client import Client, RefusedError, Serving, checked_url, read_key
from grid.engines.http.completions import Completions

_TABLE = "model_prices_and_context_window_backup.json"  # the copy in the library's package; nothing is downloaded
_ANSWERS = ("chat", "responses", "completion")
"""The values of `mode` in the table for models that answer chats."""
_KIND = re.compile(r"^text-completion-|(_converse|_chat|-.*)$")  # as in bedrock_converse, vertex_ai-language-models
_MILLION = 1_000_000
_COSTS = ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
_OURS = frozenset(
    {"api_base", "base_url", "timeout", "num_retries", "max_retries", "fallbacks", "drop_params", "modify_params"}
)
"""Library options that would bypass the engine, which does its own retries and never drops a parameter silently."""
_SECRET_KEY = re.compile(r"api_key|access_key|session_token|secret|password|credential|authorization", re.IGNORECASE)
_SECRET_NAME, _SHORTEST = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL"), 8
"""A pattern for variables whose values no message may show, and the minimum length (in characters) of such a value."""
_CODES = {"ContextWindowExceededError": "context_length_exceeded", "ContentPolicyViolationError": "content_filter"}
_NO_USAGE = re.compile(r"APIConnectionError: 'usage'|usageMetadata not found")
_MAY_LACK = ("temperature", "seed", "top_p", "tool_choice")
"""Keys that some providers do not accept, and that a request can do without."""


class ProviderServing(Serving):
    """The keys of `Serving`; if `api_key_env` is null, the library reads the key from the provider's own variables.

    `environment`: names of further variables, such as AWS_REGION_NAME, that are passed on to the engine's process.
    """

    environment: list[str] = Field(default_factory=list)


@dataclass(config=STRICT, kw_only=True)
class LiteLLM(Completions):
    """A model of any provider that litellm supports.

    Args:
        model: the library's name for the model, `provider/name`.
        base_url: the URL of a server that has the provider's interface; empty: the provider's own server.
        listed: whether the model's name must be in the library's table; if false, any name after a known provider is
            accepted.

    All other keys are those of `Completions`. Choices are not supported, because no provider returns the data that
    exact choices need.

    Raises:
        ConfigError: as for `Completions`; also if `base_url` is invalid or would reveal an API key, or if `extra` has a
            key for a secret or an option that would bypass the engine.
    """

    base_url: str = ""
    listed: bool = True
    serving: ProviderServing = Field(default_factory=ProviderServing)
    name: ClassVar[str] = "litellm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base_url:
            self.base_url = checked_url(self.base_url, True)
        taken = sorted(key for key in self.extra if key in _OURS or _SECRET_KEY.search(key))
        if taken:
            raise ConfigError("model.extra", taken, "keys that the engine does not set itself, and no key for a secret")

    @property
    def version(self) -> str:
        """The model's name, the server's name if the server is the user's own, and the library's version."""
        at = f"@{urlsplit(self.base_url).netloc}" if self.base_url else ""
        return f"{self.model}{at} ({_installed() or 'litellm'})"

    @property
    def environment(self) -> tuple[str, ...]:
        """The variable that holds the key (by default the provider's usual one), and the variables in `environment`."""
        usual = re.sub(r"\W", "_", self.model.partition("/")[0].upper())
        return (self.serving.api_key_env or f"{usual}_API_KEY", *self.serving.environment)

    def listing(self) -> Listing | None:
        """The model's prices per million tokens in the library's table; None if the table has no price.

        Raises:
            ConfigError: `listed` is set but the table does not have the model's name, or the library is not installed.
        """
        entry = self._entry() or {}
        read, cached, written = (_dollars(entry, key) for key in _COSTS)
        return None if read is None or written is None else Listing(read, cached, written, _installed() or "")

    async def load(self) -> None:
        """Ask the library which parameters the model accepts; then request a short completion from the provider.

        Raises:
            ConfigError: the name is unknown, the key is missing or refused, or the model does not accept a parameter.
            EngineError: the provider does not answer.
        """
        entry, library = self._entry(), _library()
        self._expect_able(library, entry)
        key = self._key(library)
        self._client = _Library(library, self.base_url, key, self.serving)
        await self._try_out()

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Raise TypeError; never called, since the engine does not provide choices."""
        raise TypeError("no provider returns what exact choices need")

    def _entry(self) -> Mapping[str, Any] | None:
        if _installed() is None:
            what = "pip install -e '.[providers]'"
            raise ConfigError("model", self.name, f"the library of this name must be installed: {what}")
        entry = _found(self.model)
        if entry is None and self.listed:
            near = ", ".join(_nearest(self.model)) or "no name is similar"
            allowed = (
                f"a name that {_installed()} lists ({near}); model.listed=false allows any name after a provider's"
            )
            raise ConfigError("model.model", self.model, allowed)
        return entry

    def _expect_able(self, library: Any, entry: Mapping[str, Any] | None) -> None:
        """Raise ConfigError if the provider or the model does not accept a parameter that requests will contain."""
        from openai import OpenAIError

        try:
            name, provider, *_ = library.get_llm_provider(self.model)
        except OpenAIError:
            allowed = "the names of a provider and of its model, as anthropic/NAME; litellm knows no such provider"
            raise ConfigError("model.model", self.model, allowed) from None
        takes = library.get_supported_openai_params(name, custom_llm_provider=provider)
        if takes is None:
            return  # the library has no data on this provider: the first completion will show
        sent = {"temperature", "seed", *self._keys, *(("tool_choice",) if NATIVE in self.provides else ())}
        lacks = [key for key in _MAY_LACK if key in sent and key not in {*takes, *self.omit, *self.extra}]
        if lacks:
            omit = ", ".join(dict.fromkeys([*self.omit, *lacks]))
            allowed = f"[{omit}], because {self.model} does not accept these keys; its own values are used instead"
            raise ConfigError("model.omit", self.omit, allowed)
        said = f"because {_installed()} says that {self.model} accepts no"
        if NATIVE in self.provides and not ("tools" in takes and _may(entry, "supports_function_calling")):
            raise ConfigError("model.tools", self.tools, f"prompt, {said} functions")
        if self.structured and not ("response_format" in takes and _may(entry, "supports_response_schema")):
            raise ConfigError("model.structured", True, f"false, {said} schema for answers")

    def _key(self, library: Any) -> str | None:
        """The key in the configured variable; None if the library reads the provider's own variables.

        Raises ConfigError if these variables are missing, or as `read_key` does.
        """
        if self.serving.api_key_env:
            return read_key(self.serving.api_key_env)
        missing = library.validate_environment(self.model)["missing_keys"]
        if missing and all(name.endswith("_API_KEY") for name in missing):  # else there are other ways, like AWS roles
            allowed = f"the name of a variable that holds a key; the provider's own, {' or '.join(missing)}, is not set"
            raise ConfigError("model.serving.api_key_env", None, allowed)
        return None

    def _refused(self, error: RefusedError, told: str) -> ConfigError:
        if error.status == 404:
            return ConfigError("model.model", self.model, f"a model that the provider has ({error})")
        return super()._refused(error, told)

    @property
    def _url(self) -> str:
        return self.model


class _Library(Client):
    """litellm in place of a server: request bodies become litellm's arguments, and its errors become HTTP statuses."""

    def __init__(self, library: Any, base_url: str, key: str | None, serving: Serving) -> None:
        from openai import OpenAIError

        own = (value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST)
        super().__init__(serving, {*own, *filter(None, [key])})
        self._ask_library, self._failures = library.acompletion, OpenAIError  # the base class of the library's errors
        self._how = {"api_key": key, "base_url": base_url or None, "timeout": serving.request_seconds}

    async def _exchange(self, url: str, content: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """As in `Client`, but without a limit on an answer's length, because the library reads whole answers."""
        body = json.loads(content or b"{}")
        for message in body["messages"]:  # an empty text next to calls would be a separate part, which Gemini refuses
            message["content"] = message.get("content") or (None if "tool_calls" in message else "")
        try:
            found = await self._ask_library(**body, **self._how, num_retries=0)
        except self._failures as error:
            status, said = _failure(error)
            return status, getattr(error, "litellm_response_headers", None) or {}, to_json({"error": said}).encode()
        return 200, {}, to_json(_with_own_reasons(found.model_dump(mode="json"))).encode()


def _failure(error: Any) -> tuple[int, dict[str, Any]]:
    """A failure's status, and the provider's own error or, if there is none, the library's message."""
    text = str(error).partition("\nTraceback")[0]
    if _NO_USAGE.search(text):
        return 502, {"message": "the answer has no usage, and litellm cannot read such an answer"}
    own = error.body
    if not isinstance(own, dict):
        try:
            found = loads(text[text.find("{") : text.rfind("}") + 1])
            own = found.get("error") if isinstance(found, dict) else None
        except (ValueError, RecursionError):
            own = None
    said = own if isinstance(own, dict) else {"message": text}
    code = _CODES.get(type(error).__name__)
    return int(getattr(error, "status_code", 500)), said | ({"code": code} if code else {})


def _with_own_reasons(body: dict[str, Any]) -> dict[str, Any]:
    """The completion, with the provider's own finish reason if it shows a failure that OpenAI's finish reason hides."""
    for choice in body.get("choices") or ():
        own = (choice.get("provider_specific_fields") or {}).get("native_finish_reason")
        if isinstance(own, str) and whose(500, own):
            choice["finish_reason"] = own
    return body


def _library() -> Any:
    """The module litellm, configured to fetch no table, read no `.env` file, and log neither prompts nor keys."""
    os.environ.update(LITELLM_OFFLINE_MODE="true", LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION")
    import litellm

    litellm.suppress_debug_info, litellm.telemetry, litellm.drop_params = True, False, False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


# The library's table of models, read from its file.


@lru_cache(maxsize=1)
def _installed() -> str | None:
    """The library's name and version, which also identifies its table; None if the library is not installed."""
    try:
        return f"litellm {metadata.version('litellm')}"
    except metadata.PackageNotFoundError:
        return None


def _table() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    folders = (spec.submodule_search_locations or []) if spec else []
    found: dict[str, dict[str, Any]] = json.loads(Path(folders[0], _TABLE).read_text(encoding="utf-8"))
    return {name: entry for name, entry in found.items() if entry.get("mode") in _ANSWERS}


def _dollars(entry: Mapping[str, Any], key: str) -> float | None:
    """The price `key` in US dollars per million tokens; None if the entry does not have this price."""
    found = entry.get(key)
    return round(found * _MILLION, 9) if isinstance(found, int | float) else None


@lru_cache(maxsize=256)
def _found(model: str) -> Mapping[str, Any] | None:
    """A model's entry in the table, which may list it without its provider's name; None if the table lacks it."""
    table, (provider, _, rest) = _table(), model.partition("/")
    own = table.get(rest)
    return table.get(model) or (own if own and provider in (own["litellm_provider"], _provider(own)) else None)


def _names() -> Iterator[str]:
    """The names of all models in the table, each prefixed with the provider's name."""
    for name, entry in _table().items():
        yield name if "/" in name else f"{_provider(entry)}/{name}"


def _nearest(model: str) -> list[str]:
    """Up to three names close to a model's name: first the same model at other providers, then similar names."""
    names = [*_names()]
    same = [name for name in names if name.endswith(f"/{model.rpartition('/')[2]}")]
    return list(dict.fromkeys([*same, *difflib.get_close_matches(model, names, n=3)]))[:3]


def _provider(entry: Mapping[str, Any]) -> str:
    """The provider's name, as used in the prefix of a model's name."""
    return _KIND.sub("", str(entry["litellm_provider"]))


def _may(entry: Mapping[str, Any] | None, what: str) -> bool:
    """Whether a model may have this ability.

    The result is also true if the table does not say; the first completion then shows whether the model has the
    ability.
    """
    return entry is None or entry.get(what) is not False

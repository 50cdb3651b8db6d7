"""What a request to a server says of the sampler, so that no default of the server shapes the distribution."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from grid.core.errors import ConfigError
from grid.core.types import to_json

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
    """A request's keys: those of the sampler but for what is left out, and `extra`, which has the last word."""
    own = _KEYS[sampling or ("plain" if exact_choice else "top_p")]
    return {**{key: value for key, value in own.items() if key not in omit}, **extra}


def told(sent: Mapping[str, Any], omit: Collection[str]) -> str:
    """The sampler as rows have it: what was sent, what was left out, and that the server's defaults hold for the rest.

    Without `temperature` no planner's reaches the server.
    """
    shown = {key: value for key, value in sent.items() if key in _SHAPING}
    return to_json(shown | ({"omitted": sorted(set(omit))} if omit else {}) | {"others": "server"})


def check_omitted(omit: Sequence[str], extra: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key that no request can do without, and for one that `extra` sets."""
    unknown = [key for key in omit if key not in OMITTED]
    if unknown:
        raise ConfigError("model.omit", list(omit), f"some of {', '.join(sorted(OMITTED))} (not {', '.join(unknown)})")
    both = [key for key in omit if key in extra]
    if both:
        raise ConfigError("model.omit", list(omit), f"keys that model.extra does not set (not {', '.join(both)})")


def check(sampling: Sampling | None, exact_choice: bool, owners: Iterable[str | None]) -> None:
    """Raise ConfigError where nobody chose a sampler and the server, by its models' owners, fills one in."""
    filling = sorted(set(_FILLING).intersection(filter(None, owners)))
    if sampling is None and not exact_choice and filling:
        allowed = f"plain, or server: {filling[0]}'s server fills in the sampler of the model's generation config"
        raise ConfigError("model.sampling", None, allowed)

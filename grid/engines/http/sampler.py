"""What a request to a server says of the sampler, so that no default of the server shapes the distribution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from grid.errors import ConfigError
from grid.types import to_json

Sampling = Literal["plain", "top_p", "server"]
_KEYS: Mapping[str, dict[str, float]] = {
    "plain": {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "top_p": {"top_p": 1.0},
    "server": {},
}
_SHAPING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias")
_FILLING = ("vllm", "sglang")  # servers that fill in the sampler of the model's generation config


def keys(sampling: Sampling | None, exact_choice: bool, extra: Mapping[str, Any]) -> dict[str, Any]:
    """A request's keys: those of the sampler, and `extra`, which has the last word."""
    return {**_KEYS[sampling or ("plain" if exact_choice else "top_p")], **extra}


def told(sent: Mapping[str, Any]) -> str:
    """The sampler as rows have it: what was sent, and that the server's own defaults hold for the rest."""
    return to_json({key: value for key, value in sent.items() if key in _SHAPING} | {"others": "server"})


def check(sampling: Sampling | None, exact_choice: bool, owners: Iterable[str | None]) -> None:
    """Raise ConfigError where nobody chose a sampler and the server, by its models' owners, fills one in."""
    filling = sorted(set(_FILLING).intersection(filter(None, owners)))
    if sampling is None and not exact_choice and filling:
        allowed = f"plain, or server: {filling[0]}'s server fills in the sampler of the model's generation config"
        raise ConfigError("model.sampling", None, allowed)

"""The object that a part of a config names, its values checked."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from grid.errors import ConfigError

ROOMS = {
    "model": "grid.engines",
    "planner": "grid.planners",
    "refine": "grid.planners",
    "dataset": "grid.datasets",
    "robustness": "grid.robustness",
    "retriever": "grid.retrievers",
    "pool": "grid.pools",
}
_MEMBERS = {
    "model": ("provides", "home", "sample", "choose"),
    "planner": ("needs", "solve"),
    "refine": ("mode", "around"),
    "dataset": ("provides", "case_ids", "problem"),
    "robustness": ("disturb",),
    "retriever": ("index",),
    "pool": ("stock", "tools"),
}


PRICE = "price"
"""The key of a model that is no key of its engine: what its tokens cost (`grid.runner.prices`)."""


def unpriced(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's config as its engine knows it."""
    return {key: value for key, value in model.items() if key != PRICE}


def make(key: str, config: Mapping[str, Any], room: str | None = None) -> object:
    """The object that a config names: a class of its own room in `grid`, its values checked.

    Raises:
        ConfigError: the dotted key, the value and what is allowed.
    """
    cls = load_class(key, config, room)
    try:
        return cls(**{str(name): value for name, value in config.items() if name != "_target_"})
    except ValidationError as error:
        raise config_error(f"{key}.", error, _fields(cls)) from None


def look_at(config: Mapping[str, Any]) -> None:
    """Make the object of each group of a setting; equal ones once. No file of a data set is read, no weights loaded.

    Raises:
        ConfigError: as `make`.
    """
    for group in ROOMS:
        part = config.get(group)
        if isinstance(part, Mapping):
            for key, one in part.items() if group == "robustness" else [(group, part)]:
                known = unpriced(one) if group == "model" else one
                _look_at(f"robustness.{key}" if group == "robustness" else group, json.dumps(known), group)


@lru_cache(maxsize=1024)
def _look_at(key: str, config: str, room: str) -> None:
    make(key, json.loads(config), room)


def load_class(key: str, config: Mapping[str, Any], room: str | None = None) -> type:
    """The class named by `_target_`; only classes of the group's own package are loaded."""
    package = ROOMS[room or key]
    target = config.get("_target_") if isinstance(config, Mapping) else None
    allowed = f"the dotted name of a class under {package}"
    if not isinstance(target, str) or not target.startswith(f"{package}."):
        raise ConfigError(f"{key}._target_", target, allowed)
    module, _, name = target.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}._target_", target, f"{allowed} ({error})") from None
    members = _MEMBERS[room or key]
    if not isinstance(cls, type) or cls.__module__ != module or inspect.isabstract(cls):
        raise ConfigError(f"{key}._target_", target, allowed)
    if getattr(cls, "_is_protocol", False) or not all(hasattr(cls, member) for member in members):
        raise ConfigError(f"{key}._target_", target, f"{allowed} with {', '.join(members)}")
    return cls


def _fields(cls: type) -> Sequence[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init] if dataclasses.is_dataclass(cls) else []


def config_error(prefix: str, error: ValidationError, fields: Sequence[str]) -> ConfigError:
    """The first thing that is wrong, in words."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    unknown = first["type"] in ("unexpected_keyword_argument", "extra_forbidden")
    if unknown:
        close = difflib.get_close_matches(place.split(".")[-1], list(fields), n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        # Whoever mistakes a key of a model may have written a secret behind it.
        value = "(not shown)" if prefix == "model." else first["input"]
        return ConfigError(prefix + place, value, f"no such key{hint}; the keys here are {', '.join(fields)}")
    missing = first["type"] in ("missing", "missing_argument")
    return ConfigError(prefix + place, None if missing else first["input"], first["msg"])

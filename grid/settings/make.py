"""Make the object that a part of a config names, and check the object's values."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from grid import plugins
from grid.core.errors import ConfigError, GridError, nearest, one_line

ROOMS = {
    "model": "grid.engines",
    "planner": "grid.planners",
    "refine": "grid.planners",
    "memory": "grid.planners",
    "dataset": "grid.datasets",
    "robustness": "grid.robustness",
    "retriever": "grid.retrievers",
    "pool": "grid.pools",
}
_MEMBERS = {
    "model": ("provides", "home", "sample", "choose"),
    "planner": ("needs", "solve"),
    "refine": ("mode", "around"),
    "memory": ("mode", "path"),
    "dataset": ("provides", "case_ids", "problem"),
    "robustness": ("needs", "disturb"),
    "retriever": ("index",),
    "pool": ("stock", "tools"),
}
_ASYNC = {"planner": ("solve",), "model": ("sample", "choose")}
_SETS = {"planner": "needs", "robustness": "needs", "dataset": "provides", "model": "provides"}
"""For each group, the class attribute whose value must be a frozenset of strings."""


PRICE = "price"
"""A model's key for the price of its tokens (`grid.settings.roles`); the engine does not have this key."""
OMIT = "omit"
"""A model's key for the names of fields to leave out of requests."""


def unpriced(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's config as its engine gets it: without the price, and without an empty `OMIT`."""
    return {key: value for key, value in plain(model).items() if key != PRICE}


def plain(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's config without an empty `OMIT`, because earlier model configs do not have this key."""
    return {key: value for key, value in model.items() if key != OMIT or value not in ([], None)}


def takes(config: Mapping[str, Any], key: str) -> bool:
    """Whether a model's class itself accepts a key; False if the class cannot be loaded. Raises nothing."""
    try:
        return key in inspect.signature(load_class("model", config)).parameters
    except (GridError, ValueError):
        return False


def make(key: str, config: Mapping[str, Any], room: str | None = None) -> object:
    """The object that a config names, with checked values; its class is in the group's own package (ROOMS) or a plugin.

    Args:
        key: the config's dotted key, for errors.
        config: the class's dotted name under `_target_`, and the values.
        room: the group, a key of ROOMS; by default `key`.

    Raises:
        ConfigError: the config is not valid; the error has the dotted key, the value and the allowed values.
        UnfinishedError: this machine does not have the same version of the plugin as the driver.
    """
    cls = load_class(key, config, room)
    values = {str(name): value for name, value in config.items() if name != "_target_"}
    if plugins.plugin_of(config["_target_"]):
        return _of_plugin(key, config["_target_"], cls, values, room or key)
    try:
        return cls(**values)
    except ValidationError as error:
        raise config_error(f"{key}.", error, _fields(cls)) from None


def look_at(config: Mapping[str, Any]) -> None:
    """Make the object of each group of a setting, each distinct object once. No data or weights are loaded.

    Raises:
        ConfigError, UnfinishedError: as in `make`.
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
    """The class named by `_target_`; only classes of the group's own package and of allowed plugins are loaded.

    The arguments and errors are as for `make`; the values are not checked.
    """
    package = ROOMS[room or key]
    target = config.get("_target_") if isinstance(config, Mapping) else None
    allowed = f"the dotted name of a class in {package}, or in a package that plugins=[...] names"
    known = isinstance(target, str) and (target.startswith(f"{package}.") or plugins.plugin_of(target))
    if not isinstance(target, str) or not known:
        raise ConfigError(f"{key}._target_", target, allowed)
    module, _, name = target.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # a plugin's module may raise anything
        raise ConfigError(f"{key}._target_", target, f"{allowed} ({_told(error)})") from error
    if not isinstance(cls, type) or inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        raise ConfigError(f"{key}._target_", target, allowed)
    if cls.__module__ != module:
        raise ConfigError(
            f"{key}._target_", target, f"{allowed}; use the class's own name ({cls.__module__}.{cls.__qualname__})"
        )
    members = _MEMBERS[room or key]
    lacking = [member for member in members if not (hasattr(cls, member) or member in _fields(cls))]
    if lacking:
        has = f"{allowed}; the class must have {', '.join(members)} (it lacks {', '.join(lacking)})"
        raise ConfigError(f"{key}._target_", target, has)
    for member in _ASYNC.get(room or key, ()):
        if not inspect.iscoroutinefunction(getattr(cls, member)):
            raise ConfigError(f"{key}._target_", target, f"a class whose {member} is async (async def {member}(...))")
    return cls


def _of_plugin(key: str, target: str, cls: type, values: Mapping[str, Any], room: str) -> object:
    """A plugin's object; a plugin may use any class, such as a plain dataclass, so the values are checked here."""
    _check_keys(key, cls, values)
    try:
        made = cls(**values)
    except ValidationError as error:
        raise config_error(f"{key}.", error, _fields(cls)) from None
    except GridError:
        raise
    except Exception as error:  # somebody else's class may raise anything
        raise ConfigError(key, dict(values), f"{target} does not accept these values ({_told(error)})") from error
    member = _SETS.get(room)
    if member and not isinstance(getattr(made, member), frozenset):
        raise ConfigError(f"{key}._target_", target, f"a class whose {member} is a frozenset of words")
    return made


def _check_keys(key: str, cls: type, values: Mapping[str, Any]) -> None:
    """Raise ConfigError for a key that a class does not accept, or for a required key that is missing."""
    taken = inspect.signature(cls).parameters
    if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return
    keys = f"the keys here are {', '.join(taken) or 'none'}"
    for name in values:
        if name not in taken:
            value = "(not shown)" if key == "model" else values[name]
            raise ConfigError(f"{key}.{name}", value, f"no such key{nearest(name, list(taken))}; {keys}")
    for name, one in taken.items():
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL and name not in values:
            raise ConfigError(f"{key}.{name}", None, f"this key has no default and must be given; {keys}")


def _told(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", 400)


def _fields(cls: type) -> Sequence[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init] if dataclasses.is_dataclass(cls) else []


def config_error(prefix: str, error: ValidationError, fields: Sequence[str]) -> ConfigError:
    """The first error of a validation, as a ConfigError; unknown keys come before all other errors.

    If another key is missing, the unknown key may be a misspelling of it.
    """
    errors = error.errors()
    unknown = [one for one in errors if one["type"] in ("unexpected_keyword_argument", "extra_forbidden")]
    first = [*unknown, *errors][0]
    place = ".".join(str(part) for part in first["loc"])
    if unknown:
        hint = nearest(place.split(".")[-1], fields)
        # A model's value is not shown, because the user may have mistyped the key of a secret.
        value = "(not shown)" if prefix == "model." else first["input"]
        return ConfigError(prefix + place, value, f"no such key{hint}; the keys here are {', '.join(fields)}")
    if not place:  # the keys do not fit together; a model's values may contain a secret
        given = "(not shown)" if prefix == "model." else getattr(first["input"], "kwargs", None) or first["input"]
        return ConfigError(prefix.rstrip("."), given, first["msg"])
    missing = first["type"] in ("missing", "missing_argument")
    return ConfigError(prefix + place, None if missing else first["input"], first["msg"])


# The condition on every value of a config, whatever its key: it must fit into rows, digests and files.


MAX_DEPTH = 20
MAX_CHARACTERS = 100_000
_INTEGERS = 2**63


def check_plain(config: Mapping[str, object]) -> None:
    """Check every value of a resolved config.

    Raises:
        ConfigError: a number is not finite or has more than 64 bits, a text or key is too long, not valid Unicode or
            has the character NUL, a key is not a text, a value has another type, or the nesting is too deep; the error
            has the dotted key.
    """
    _check("", config, 0)


def _check(key: str, value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(key, value, f"at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str):
                raise ConfigError(f"{key}.{name}" if key else str(name), part, "the key must be a text")
            _check_text(f"{key}.{name}" if key else name, name, "a key")
            _check(f"{key}.{name}" if key else name, part, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for place, part in enumerate(value):
            _check(f"{key}.{place}", part, depth + 1)
    elif isinstance(value, str):
        _check_text(key, value, "a text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(key, value, "a finite number")
    elif isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
        raise ConfigError(key, value, "an integer of at most 64 bits")
    elif not isinstance(value, bool | int | float | None):
        raise ConfigError(key, value, "a text, number, true, false, null, list or mapping")


def _check_text(key: str, text: str, what: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(key, text, f"{what} of at most {MAX_CHARACTERS:,} characters")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError(key, text, f"{what} in valid Unicode without the character NUL")

"""Caches for files and values that are created once; seeds derived from names; strict checks of values from YAML."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import platformdirs
from filelock import FileLock
from pydantic import ConfigDict


def made_once(dataset: str, key: str, files: Sequence[str], generate: Callable[[Path], None]) -> Path:
    """The folder for `key` in the dataset's cache; this folder contains `files`.

    `generate` fills an empty folder the first time, and again if the cached folder is incomplete. Its errors are not
    caught, and then nothing is cached.
    """
    cache = platformdirs.user_cache_path("agent-grid") / dataset
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / key
    with FileLock(cache / f"{key}.lock"):
        if not all((target / name).is_file() for name in files):
            shutil.rmtree(target, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(dir=cache, prefix=".draft-"))
            try:
                generate(draft)
                os.replace(draft, target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return target


# Values that are computed only once for an object: they are cached by the object's identity, or in the object itself.


H = TypeVar("H")
R = TypeVar("R")


class kept(Generic[R]):  # noqa: N801 - as functools.cached_property, for which it stands
    """functools.cached_property without a lock, as in Python 3.12 and later.

    Locking takes longer than computing most values.
    """

    def __init__(self, make: Callable[[Any], R]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, thing: None, owner: type) -> kept[R]: ...

    @overload
    def __get__(self, thing: object, owner: type) -> R: ...

    def __get__(self, thing: Any, owner: type) -> kept[R] | R:
        if thing is None:
            return self
        thing.__dict__[self._name] = found = self._make(thing)
        return found


def changed(thing: H, **fields: Any) -> H:
    """Like dataclasses.replace but ten times as fast; only for dataclasses without __post_init__ or `kept` values."""
    made = object.__new__(type(thing))
    made.__dict__.update(vars(thing), **fields)
    return made


@lru_cache(maxsize=4096)
def can(kind: type, ability: type) -> bool:
    """Whether a class has the methods of a protocol; cached, because isinstance looks up each method every time."""
    return issubclass(kind, ability)


class Once(Generic[H, R]):
    """A cache keyed by the identity of objects, for values that most planners and trials need again.

    Retrievers and datasets return the same tuple object for the same question, so that tuples of fifty tools need not
    be compared. Further arguments are compared by value. At most `most` values are kept.
    """

    def __init__(self, make: Callable[..., R], most: int = 4096) -> None:
        self._make, self._most = make, most
        self._known: dict[Any, tuple[H, R]] = {}

    def __call__(self, thing: H, *key: Hashable) -> R:
        """The value computed from the object and the key."""
        place = (id(thing), *key)
        known = self._known.get(place)
        if known and known[0] is thing:
            return known[1]
        if len(self._known) >= self._most:
            self._known.clear()
        found = self._make(thing, *key)
        self._known[place] = thing, found
        return found


# Seeds that are derived from a seed and from names that state their purpose.


def derive_seed(seed: int, *key: object) -> int:
    """A 63-bit seed that depends on `seed` and on every part of `key`, and on nothing else."""
    text = "\x1f".join([str(seed), *map(str, key)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


# The checks of values for classes that YAML names: no unknown keys, no silent conversion, no infinities.


STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

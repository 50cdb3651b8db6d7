"""Ids and names for invented things, which look like those that the questions' files have for the same class."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

_ALPHABET = "0123456789bcdfghjklmnpqrstvwxyz_"
"""What Freebase's ids are written with."""
_KEPT = 5
"""Characters of an id that tell when a thing of its kind came into Freebase."""
_TRIES = 25
_DIGITS = re.compile(r"[0-9]+")
_FEW = 4
"""Things of a class that are too few to be models for others."""
_PLACEHOLDER = "m.0"


class Christening:
    """Gives ids and names that are not taken, after the model of released ones.

    Args:
        released: names by id; entities without a name have an empty one.
        classes: by id the classes of an entity, the most telling first.
        has_names: whether a class's members have names.
    """

    def __init__(self, released: Mapping[str, str], classes: Mapping[str, Sequence[str]]) -> None:
        self._ids = set(released)
        self._names = {name.casefold() for name in released.values() if name}
        self._models: dict[str, list[str]] = {}
        self._released = released
        for identity in sorted(released):
            for group in ("", *_groups(classes.get(identity, ()))):
                self._models.setdefault(group, []).append(identity)

    def id(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new id."""
        model = rng.choice(self._like(classes, ()))
        while True:
            tail = "".join(rng.choice(_ALPHABET) for _ in model[_KEPT:])
            made = f"{model[:_KEPT]}{tail}"
            if made not in self._ids and len(made) > _KEPT:
                self._ids.add(made)
                return made
            model = f"{model}{rng.choice(_ALPHABET)}"

    def name(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new name: the beginning of one and the end of another, with other digits."""
        tried: list[str] = []
        while True:
            models = self._like(classes, tried)
            names = [name for name in (self._released[identity] for identity in models) if name]
            for _ in range(_TRIES if len(names) > 1 else 0):
                made = _spliced(rng.choice(names), rng.choice(names), rng)
                if made.casefold() not in self._names:
                    self._names.add(made.casefold())
                    return made
            if not models or (tried and tried[-1] == ""):
                return self._numbered(names, rng)
            tried.append(self._group(classes, tried))

    def _numbered(self, names: Sequence[str], rng: random.Random) -> str:
        first = rng.choice(names) if names else "No."
        number = next(n for n in range(2, len(self._names) + 3) if f"{first} {n}".casefold() not in self._names)
        self._names.add(f"{first} {number}".casefold())
        return f"{first} {number}"

    def _like(self, classes: Sequence[str], but: Collection[str]) -> list[str]:
        return self._models.get(self._group(classes, but), [_PLACEHOLDER] if not self._models else self._models[""])

    def _group(self, classes: Sequence[str], but: Collection[str]) -> str:
        """The first group with models enough: a class, then what its name begins with, then all."""
        groups = (group for group in _groups(classes) if group not in but)
        return next((group for group in groups if len(self._models.get(group, ())) >= _FEW), "")


def _groups(classes: Iterable[str]) -> list[str]:
    names = list(classes)
    return list(dict.fromkeys([*names, *(f"{name.rpartition('.')[0]}." for name in names)]))


def _spliced(one: str, other: str, rng: random.Random) -> str:
    """Words of both, or letters where both are one word."""
    first, last = one.split(), other.split()
    if len(first) > 1 and len(last) > 1:
        made = " ".join([*first[: (len(first) + 1) // 2], *last[len(last) // 2 + (len(last) % 2) :]])
    elif len(first) > 1:
        made = " ".join([*first[:-1], *last])
    else:
        head, tail = first[0], last[-1]
        made = head[: (len(head) + 1) // 2] + tail[len(tail) // 2 :]
    return _DIGITS.sub(lambda found: _digits(found[0], rng), made)


def _digits(text: str, rng: random.Random) -> str:
    """As many others; of a year only the last two."""
    kept = 2 if len(text) == 4 and text[:2] in ("18", "19", "20") else 0
    drawn = [str(rng.randrange(10)) for _ in text[kept:]]
    if not kept and len(text) > 1 and drawn[0] == "0":
        drawn[0] = str(rng.randint(1, 9))
    return text[:kept] + "".join(drawn)

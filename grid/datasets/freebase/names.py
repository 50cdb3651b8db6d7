"""Ids and names for invented things, which look like those that the questions' files have for the same class."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence

_ALPHABET = "0123456789bcdfghjklmnpqrstvwxyz_"
"""What Freebase's ids are written with."""
_KEPT = 5
"""Characters of an id that tell when a thing of its kind came into Freebase."""
_TRIES = 25
_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"\b(?!(?:the|and|for|von|van|der|del|les|los|las|des)\b)[^\W\d_]{3,12}\b", re.IGNORECASE)
_FEW = 6
"""Names of a class of which the parts of others are not made."""
_WORDS = 30
"""Of a domain, from which words are made."""
_PLACEHOLDER, _NAMELESS = "m.0", "Thing"


class Christening:
    """Gives ids and names that are not taken, after the model of released ones.

    Args:
        released: names by id; entities without a name have an empty one.
        classes: by id the classes of an entity, the most telling first.
    """

    def __init__(self, released: Mapping[str, str], classes: Mapping[str, Sequence[str]]) -> None:
        self._ids = set(released)
        self._taken = {name.casefold() for name in released.values() if name}
        self._models: dict[str, list[str]] = {}
        self._named: dict[str, list[str]] = {}
        self._words: dict[str, list[str]] = {}
        for identity in sorted(released):
            for group in ("", *_groups(classes.get(identity, ()))):
                self._models.setdefault(group, []).append(identity)
                if released[identity]:
                    self._named.setdefault(group, []).append(released[identity])
        self._named.setdefault("", [_NAMELESS])

    def id(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new id."""
        model = rng.choice(self._ids_like(classes))
        while True:
            tail = "".join(rng.choice(_ALPHABET) for _ in model[_KEPT:])
            made = f"{model[:_KEPT]}{tail}"
            if made not in self._ids and len(made) > _KEPT:
                self._ids.add(made)
                return made
            model = f"{model}{rng.choice(_ALPHABET)}"

    def name(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new name: the beginning of one and the end of another of its class, with other digits.

        A class with few names would give them away: there, and where all of these are taken, the words are made up.
        """
        names = self._names_like(classes)
        words = self._words_like(classes)
        for attempt in range(2 * _TRIES):
            if attempt < _TRIES and len(names) >= _FEW:
                made = _spliced(rng.choice(names), rng.choice(names), rng)
            else:
                made = _reworded(rng.choice(names), words, rng)
            if made.casefold() not in self._taken:
                self._taken.add(made.casefold())
                return made
        return self._numbered(names, rng)

    def _words_like(self, classes: Sequence[str]) -> list[str]:
        """The words of names of the same domain, or of all where these are few."""
        for group in (*_groups(classes), ""):
            if group.endswith(".") or not group:
                if group not in self._words:
                    found = {word for name in self._named.get(group, ()) for word in _WORD.findall(name)}
                    self._words[group] = sorted(found)
                if len(self._words[group]) >= _WORDS:
                    return self._words[group]
        return self._words[""] or [_NAMELESS]

    def _numbered(self, names: Sequence[str], rng: random.Random) -> str:
        first = rng.choice(names)
        number = next(n for n in range(2, len(self._taken) + 3) if f"{first} {n}".casefold() not in self._taken)
        self._taken.add(f"{first} {number}".casefold())
        return f"{first} {number}"

    def _names_like(self, classes: Sequence[str]) -> list[str]:
        """The names of the first group that has some: a class, then what its name begins with, then all."""
        return next(self._named[group] for group in (*_groups(classes), "") if self._named.get(group))

    def _ids_like(self, classes: Sequence[str]) -> list[str]:
        groups = (self._models[group] for group in (*_groups(classes), "") if self._models.get(group))
        return next(groups, [_PLACEHOLDER])


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
        words = head.isalpha() and tail.isalpha()
        made = head[: (len(head) + 1) // 2] + tail[len(tail) // 2 :] if words else one
    return _DIGITS.sub(lambda found: _digits(found[0], rng), made)


def _reworded(name: str, words: Sequence[str], rng: random.Random) -> str:
    """A name of the same form, each of its longer words made of two others, with other digits."""

    def made(found: re.Match[str]) -> str:
        first, last = rng.choice(words).lower(), rng.choice(words).lower()
        word = first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
        return word.capitalize() if found[0][0].isupper() else word

    return _DIGITS.sub(lambda found: _digits(found[0], rng), _WORD.sub(made, name))


def _digits(text: str, rng: random.Random) -> str:
    """As many others; of a year only the last two."""
    kept = 2 if len(text) == 4 and text[:2] in ("18", "19", "20") else 0
    drawn = [str(rng.randrange(10)) for _ in text[kept:]]
    if not kept and len(text) > 1 and drawn[0] == "0":
        drawn[0] = str(rng.randint(1, 9))
    return text[:kept] + "".join(drawn)

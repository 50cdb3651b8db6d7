"""The value language of the stock files: how a value is drawn or follows from others, and how a person writes it.

A value is one line of text in YAML:

    id ORD-{d8}            {dN} digits, {lN} capital letters, {xN} hexadecimal digits
    date 2024-01-05..2024-03-30
    date order.placed +3..14   days after another value
    int 2..40
    money 15..240            two decimals
    decimal 0.5..9.5         one decimal
    one of: red | blue       one of the strings
    pool topic               one string of a named pool (`stock/pools.yaml`)
    = EXPRESSION             what follows from others (`expressions.py`)
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


class Money(float):
    """An amount in dollars, of two decimals: written with its sign."""


Value = str | int | float | dt.date
Kind = Literal["id", "date", "offset", "int", "money", "decimal", "choice", "pool", "follows"]
_RANGE = re.compile(r"(\S+?)\.\.(\S+)")
_OFFSET = re.compile(r"([\w.]+) \+(\d+)\.\.(\d+)")
_SLOT = re.compile(r"\{([dlx])(\d+)\}")
_ALPHABETS = {"d": "0123456789", "l": "ABCDEFGHJKLMNPQRSTUVWXYZ", "x": "0123456789ABCDEF"}


@dataclass(frozen=True)
class Spec:
    """One parsed value: `kind`, and the words it needs (pattern, bounds, choices, the value it looks at)."""

    kind: Kind
    words: tuple[str, ...]


def parse(text: str) -> Spec:
    """Read one value; raises ValueError that quotes the text and lists the forms."""
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    span = _RANGE.fullmatch(rest)
    if kind == "=" and rest:
        return Spec("follows", (rest,))
    if kind == "id" and rest:
        return Spec("id", (rest,))
    if kind == "date" and (offset := _OFFSET.fullmatch(rest)):
        return Spec("offset", (offset[1], offset[2], offset[3]))
    if kind == "date" and span:
        dt.date.fromisoformat(span[1]), dt.date.fromisoformat(span[2])
        return Spec("date", (span[1], span[2]))
    if kind in ("int", "money") and span:
        int(span[1]), int(span[2])
        return Spec("int" if kind == "int" else "money", (span[1], span[2]))
    if kind == "decimal" and span:
        float(span[1]), float(span[2])
        return Spec("decimal", (span[1], span[2]))
    if text.startswith("one of:"):
        choices = tuple(choice.strip() for choice in text[7:].split("|") if choice.strip())
        if len(choices) > 1:
            return Spec("choice", choices)
    if kind == "pool" and rest:
        return Spec("pool", (rest,))
    raise ValueError(f"value {text!r} has none of the forms id, date, int, money, decimal, one of:, pool, =")


def fill(pattern: str, rng: random.Random) -> str:
    """An identifier of a pattern; one that has hexadecimal digits has a decimal one among them, so that it looks so."""
    while True:
        text = _SLOT.sub(lambda slot: "".join(rng.choices(_ALPHABETS[slot[1]], k=int(slot[2]))), pattern)
        if "{x" not in pattern or any(letter.isdigit() for letter in text):
            return text


def random_characters(pattern: str) -> int:
    """How many characters of a pattern are drawn."""
    return sum(int(slot[2]) for slot in _SLOT.finditer(pattern))


def draw(spec: Spec, rng: random.Random, known: Mapping[str, Any], pools: Mapping[str, tuple[str, ...]]) -> Value:
    """Draw one value, but for what follows from others; `known` has what day offsets look at."""
    match spec.kind:
        case "id":
            return fill(spec.words[0], rng)
        case "date":
            first, last = (dt.date.fromisoformat(word) for word in spec.words)
            return first + dt.timedelta(days=rng.randint(0, (last - first).days))
        case "offset":
            start = known.get(spec.words[0])
            if not isinstance(start, dt.date):
                raise ValueError(f"a day offset needs a date, but {spec.words[0]!r} is {start!r}")
            return start + dt.timedelta(days=rng.randint(int(spec.words[1]), int(spec.words[2])))
        case "int":
            return rng.randint(int(spec.words[0]), int(spec.words[1]))
        case "money":
            low, high = (int(word) for word in spec.words)
            return Money(rng.randint(low * 100, high * 100) / 100)
        case "decimal":
            low, high = (round(float(word) * 10) for word in spec.words)
            return rng.randint(low, high) / 10
        case "choice":
            return rng.choice(spec.words)
        case "pool":
            if spec.words[0] not in pools:
                raise ValueError(f"no pool {spec.words[0]!r}, only {', '.join(pools)}")
            return rng.choice(pools[spec.words[0]])
        case "follows":
            raise ValueError(f"{spec.words[0]!r} follows from others and cannot be drawn")


def plain(value: Value) -> str | int | float:
    """The value as JSON holds it: dates in ISO form, numbers of two decimals at most."""
    if isinstance(value, dt.date):
        return value.isoformat()
    return round(float(value), 2) if isinstance(value, float) else value


def written(value: Value, rng: random.Random) -> str:
    """The value as a person writes it in a message: long dates, money with its sign and separators."""
    if isinstance(value, dt.date):
        month, day, year = value.strftime("%B"), value.day, value.year
        forms = (
            f"{month} {day}, {year}",
            f"{month} {day}, {year}",
            f"{day} {month} {year}",
            value.isoformat(),
        )
        return rng.choice(forms)
    if isinstance(value, Money):
        return f"${value:,.2f}"
    return f"{value:g}" if isinstance(value, float) else str(value)

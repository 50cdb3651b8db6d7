"""The value language of the stock files: how an argument or a result is drawn, and how a person writes it.

A value is one line of text in YAML:

    id ORD-{d8}            {dN} digits, {lN} capital letters, {xN} hexadecimal digits
    date 2024-01-05..2024-03-30
    date order_date +3..14   days after another value
    int 2..40
    money 15..240            two decimals
    one of: red | blue       one of the strings
    pool city                one string of a named pool (`stock/pools.yaml`)
    bool true                a constant
    copy sku                 the value of another name
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Value = str | int | float | bool | dt.date
Kind = Literal["id", "date", "offset", "int", "money", "choice", "pool", "bool", "copy"]
TYPES: dict[Kind, str] = {
    "id": "string",
    "date": "date",
    "offset": "date",
    "int": "integer",
    "money": "number",
    "choice": "string",
    "pool": "string",
    "bool": "boolean",
}
_RANGE = re.compile(r"(\S+?)\.\.(\S+)")
_OFFSET = re.compile(r"(\w+) \+(\d+)\.\.(\d+)")
_SLOT = re.compile(r"\{([dlx])(\d+)\}")
_ALPHABETS = {"d": "0123456789", "l": "ABCDEFGHJKLMNPQRSTUVWXYZ", "x": "0123456789ABCDEF"}


@dataclass(frozen=True)
class Spec:
    """One parsed value: `kind`, the words it needs (pattern, bounds, choices) and the other value it looks at."""

    kind: Kind
    words: tuple[str, ...]
    refers: str | None = None

    @property
    def type(self) -> str | None:
        """The JSON type (or `date`) of what is drawn; None for `copy`, which has its source's."""
        return TYPES.get(self.kind)


def parse(text: str) -> Spec:
    """Read one value; raises ValueError that quotes the text and lists the forms."""
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    if kind == "id" and rest:
        return Spec("id", (rest,))
    if kind == "date" and (offset := _OFFSET.fullmatch(rest)):
        return Spec("offset", (offset[2], offset[3]), refers=offset[1])
    if kind == "date" and (span := _RANGE.fullmatch(rest)):
        dt.date.fromisoformat(span[1]), dt.date.fromisoformat(span[2])
        return Spec("date", (span[1], span[2]))
    if kind in ("int", "money") and (span := _RANGE.fullmatch(rest)):
        int(span[1]), int(span[2])
        return Spec("int" if kind == "int" else "money", (span[1], span[2]))
    if text.startswith("one of:"):
        choices = tuple(choice.strip() for choice in text[7:].split("|") if choice.strip())
        if len(choices) > 1:
            return Spec("choice", choices)
    if kind == "pool" and rest:
        return Spec("pool", (rest,))
    if kind == "bool" and rest in ("true", "false"):
        return Spec("bool", (rest,))
    if kind == "copy" and rest:
        return Spec("copy", (), refers=rest)
    raise ValueError(f"value {text!r} has none of the forms id, date, int, money, one of:, pool, bool, copy")


def draw(spec: Spec, rng: random.Random, known: Mapping[str, Value], pools: Mapping[str, tuple[str, ...]]) -> Value:
    """Draw one value; `known` holds the values that `copy` and day offsets refer to."""
    match spec.kind:
        case "id":
            return _SLOT.sub(lambda slot: "".join(rng.choices(_ALPHABETS[slot[1]], k=int(slot[2]))), spec.words[0])
        case "date":
            first, last = (dt.date.fromisoformat(word) for word in spec.words)
            return first + dt.timedelta(days=rng.randint(0, (last - first).days))
        case "offset":
            start = known[spec.refers or ""]
            if not isinstance(start, dt.date):
                raise ValueError(f"a day offset needs a date, but {spec.refers!r} is {start!r}")
            return start + dt.timedelta(days=rng.randint(int(spec.words[0]), int(spec.words[1])))
        case "int":
            return rng.randint(int(spec.words[0]), int(spec.words[1]))
        case "money":
            low, high = (int(word) for word in spec.words)
            return round(rng.randint(low * 100, high * 100) / 100, 2)
        case "choice":
            return rng.choice(spec.words)
        case "pool":
            return rng.choice(pools[spec.words[0]])
        case "bool":
            return spec.words[0] == "true"
        case "copy":
            return known[spec.refers or ""]


def plain(value: Value) -> str | int | float | bool:
    """The value as JSON holds it: dates in ISO form."""
    return value.isoformat() if isinstance(value, dt.date) else value


def written(value: Value, rng: random.Random) -> str:
    """The value as a person writes it in a message: long dates, money with its sign and separators."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dt.date):
        month, day, year = value.strftime("%B"), value.day, value.year
        forms = (
            f"{month} {day}, {year}",
            f"{month} {day}, {year}",
            f"{day} {month} {year}",
            value.isoformat(),
        )
        return rng.choice(forms)
    if isinstance(value, float):
        return f"${value:,.2f}"
    return str(value)

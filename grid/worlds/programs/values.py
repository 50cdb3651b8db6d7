"""What the facts of a typed program are worth: values that are made up, plausible, and the same for the same fact.

A function's `kind` is a template; what stands in braces is filled in:

    {n:3-28}      a whole number of a range
    {m:80-900}    two decimals
    {d4} {x4} {l2}  digits, hexadecimal digits, capital letters
    {w:red|blue}  one of the words
    {date:2026}   a day of the year, as 14 March 2026
    {time}        a time of day, as 17:05
    {0}           the first input's value, cut short
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence

from grid.core.seeds import derive_seed
from grid.worlds.programs.model import Applied, Constant, Fact, Function

LONGEST = 40
"""Characters of an input's value that a template shows."""
_SLOT = re.compile(r"\{(?:(n|m):(\d+)-(\d+)|([dxl])(\d+)|w:([^{}]+)|date:(\d{4})|(time)|(\d))\}")
_ALPHABETS = {"d": "0123456789", "x": "0123456789abcdef", "l": "ABCDEFGHJKLMNPQRSTUVWXYZ"}
_MINUTES = range(7 * 60, 22 * 60, 5)


def value(function: Function, inputs: Sequence[str]) -> str:
    """What a function finds for these values: nothing but they and the function decide it."""
    rng = random.Random(derive_seed(0, "value", function.name, *inputs))
    return fill(function.kind, rng, inputs)


def value_of(fact: Fact, functions: Mapping[str, Function]) -> str:
    """A fact's value; `functions` are those that it is made by, by name. Raises KeyError where one is not there."""
    return _value_of(fact, functions, {})


def _value_of(fact: Fact, functions: Mapping[str, Function], known: dict[Fact, str]) -> str:
    if isinstance(fact, Constant):
        return fact.value
    if fact not in known:
        known[fact] = value(functions[fact.function], [_value_of(one, functions, known) for one in fact.inputs])
    return known[fact]


def distinct(facts: Sequence[Applied | Constant], functions: Mapping[str, Function]) -> bool:
    """Whether different facts have different values, so that a value tells which fact it is."""
    different, known = set(facts), dict[Fact, str]()
    return len({_value_of(fact, functions, known) for fact in different}) == len(different)


def fill(template: str, rng: random.Random, inputs: Sequence[str] = ()) -> str:
    """A template filled in. Raises ValueError for braces that are no slot, or an input that is not there."""
    rest: str = _SLOT.sub("", template)
    if "{" in rest or "}" in rest:
        allowed = "n:LOW-HIGH, m:LOW-HIGH, dN, xN, lN, w:A|B, date:YEAR, time or an input's number"
        raise ValueError(f"template {template!r}: braces hold {allowed}")

    def slot(match: re.Match[str]) -> str:
        kind, low, high, letters, count, words, year, time, place = match.groups()
        if kind:
            return _number(kind, int(low), int(high), rng)
        if letters:
            return "".join(rng.choices(_ALPHABETS[letters], k=int(count)))
        if words:
            chosen: str = rng.choice(words.split("|"))
            return chosen
        if year:
            day = dt.date(int(year), 1, 1) + dt.timedelta(rng.randrange(365))
            return f"{day.day} {day:%B %Y}"
        if time:
            return "{:02}:{:02}".format(*divmod(rng.choice(_MINUTES), 60))
        if int(place) >= len(inputs):
            raise ValueError(f"template {template!r}: there is no input {place}, only {len(inputs)}")
        text = inputs[int(place)]
        return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()}…"

    filled: str = _SLOT.sub(slot, template)
    return filled


def possibilities(template: str) -> int:
    """In how many ways a template can be filled in, inputs left aside."""
    ways = 1
    for kind, low, high, letters, count, words, year, time, _ in _SLOT.findall(template):
        if kind:
            ways *= (int(high) - int(low) + 1) * (100 if kind == "m" else 1)
        elif letters:
            ways *= len(_ALPHABETS[letters]) ** int(count)
        elif words:
            ways *= len(words.split("|"))
        elif year:
            ways *= 365
        elif time:
            ways *= len(_MINUTES)
    return ways


def _number(kind: str, low: int, high: int, rng: random.Random) -> str:
    return str(rng.randint(low, high)) if kind == "n" else f"{rng.randint(low * 100, high * 100) / 100:.2f}"

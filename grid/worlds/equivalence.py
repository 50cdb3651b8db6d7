"""When two argument values mean the same (egb_slate §3.4, semantic equivalence matching).

Dates in several forms, numbers and money, booleans, case, white space and the order of lists do not matter.
A date that lacks its year (or its time) equals one that agrees in all that both state.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from dateutil import parser as dates
from scipy.optimize import linear_sum_assignment

from grid.types import Json

_NUMBER = re.compile(
    r"([$€£¥]|usd|eur|gbp)?\s*([-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-+]?(?!0\d)\d+(?:\.\d+)?)\s*(%|usd|eur|gbp)?"
)
_UNITS = {"usd": "$", "eur": "€", "gbp": "£"}
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATELIKE = re.compile(
    rf"\b{_MONTH}\.?\s+\d{{1,2}}(?!\d)|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}|\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}"
    r"|\d{1,2}/\d{1,2}/\d{2,4}|^\d{2}[-/]\d{2}(?:\s|$)",
    re.I,
)
_TIMELIKE = re.compile(r"(?<!\d)\d{1,2}:\d{2}\b|\b\d{1,2}\s*[ap]\.?m\b", re.I)
_SECONDS = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_WEEKDAY = re.compile(r"\b(mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b")
_YEARLIKE = re.compile(r"\b\d{4}\b|\d{1,2}/\d{1,2}/\d{2}\b")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_LONGEST = 64  # characters of a value that could be a date or a number
_DEEPEST = 16  # levels of nesting; deeper values equal only themselves
_MOST = 200  # items of a list that is compared regardless of order


@dataclass(frozen=True)
class Moment:
    """A date, a time of day, or both; None where the text does not say. `weekday` is 0 to 6 from Monday."""

    year: int | None
    day: tuple[int, int] | None
    time: tuple[int, int] | None
    second: int | None
    weekday: int | None

    def agrees(self, other: Moment) -> bool:
        """Whether both share a day or a time and differ in nothing that both state."""
        mine = (self.day, self.time, self.year, self.second, self.weekday)
        its = (other.day, other.time, other.year, other.second, other.weekday)
        if any(a is not None and b is not None and a != b for a, b in zip(mine, its, strict=True)):
            return False
        return any(a is not None and b is not None for a, b in zip(mine[:2], its[:2], strict=True))


@dataclass(frozen=True)
class Quantity:
    """A number with its unit (`$`, `€`, `£`, `¥`, `%`), None where the text gives none."""

    value: Decimal
    unit: str | None

    def agrees(self, other: Quantity) -> bool:
        """Whether the numbers are equal and the units do not differ."""
        return self.value == other.value and (self.unit == other.unit or None in (self.unit, other.unit))


Canonical = bool | Quantity | Moment | str | None


def equivalent(left: Json, right: Json, depth: int = 0) -> bool:
    """Whether two values mean the same: symmetric and reflexive, not transitive.

    Dates may lack their year and numbers their unit, and then equal several that differ from one another.

    `depth` counts the levels above; values nested deeper than 16 levels equal only themselves.
    """
    if depth > _DEEPEST:
        return left is right
    if isinstance(left, list) or isinstance(right, list):
        items = len(right) if isinstance(right, list) else len(left) if isinstance(left, list) else 0
        return _lists_match(_as_list(left, items), _as_list(right, items), depth + 1)
    if isinstance(left, dict) or isinstance(right, dict):
        if not (isinstance(left, dict) and isinstance(right, dict)) or left.keys() != right.keys():
            return False
        return all(equivalent(value, right[key], depth + 1) for key, value in left.items())
    a, b = canonical(left), canonical(right)
    if isinstance(a, Moment) and isinstance(b, Moment):
        return a.agrees(b)
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return a.agrees(b)
    return type(a) is type(b) and a == b


def canonical(value: str | int | float | bool | None) -> Canonical:
    """A scalar's meaning; equal for scalars that mean the same, but for partial dates."""
    if isinstance(value, str):
        return _canonical_text(value)
    if value is None or isinstance(value, bool):
        return value
    return Quantity(Decimal(value) if isinstance(value, int) else Decimal(repr(value)), None)


@lru_cache(maxsize=65536)
def _canonical_text(text: str) -> Canonical:
    folded = " ".join(text.split()).strip("\"'“”‘’").rstrip(".,;:").casefold().lstrip("#")
    if folded in _TRUTHS:
        return _TRUTHS[folded]
    if len(folded) <= _LONGEST:
        number = _NUMBER.fullmatch(folded)
        if number:
            unit = number[1] or number[3]
            return Quantity(Decimal(number[2].replace(",", "")), _UNITS.get(unit, unit))
        moment = _moment(folded)
        if moment:
            return moment
    return folded


def _moment(text: str) -> Moment | None:
    """The date or time that a text is, with what it leaves open; None where it is neither."""
    has_day, has_time = bool(_DATELIKE.search(text)), bool(_TIMELIKE.search(text))
    if not (has_day or has_time):
        return None
    try:
        read = dates.parse(text, default=dt.datetime(2000, 1, 1))
    except (ValueError, OverflowError, ArithmeticError):
        return None
    return Moment(
        year=read.year if has_day and _YEARLIKE.search(text) else None,
        day=(read.month, read.day) if has_day else None,
        time=(read.hour, read.minute) if has_time else None,
        second=read.second if _SECONDS.search(text) else None,
        weekday=_DAYS.index(weekday[1][:3]) if (weekday := _WEEKDAY.search(text)) else None,
    )


def _as_list(value: Json, items: int) -> list[Json]:
    """A list, or text that lists its items; compared with a list of one, a value is that one item."""
    if isinstance(value, list):
        return value
    if isinstance(value, str) and items != 1:
        parts = re.split(r",|;|\band\b", value.strip("[] "))
        return [part.strip() for part in parts if part.strip()]
    return [value]


def _lists_match(left: list[Json], right: list[Json], depth: int) -> bool:
    """Whether the items can be paired off (pairing greedily would not do: partial dates match several)."""
    if len(left) != len(right) or len(left) > _MOST:
        return left == right
    if not left:
        return True
    agree = np.array([[equivalent(item, other, depth) for other in right] for item in left])
    rows, columns = linear_sum_assignment(agree, maximize=True)
    return bool(agree[rows, columns].all())

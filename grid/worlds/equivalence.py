"""When two argument values mean the same (egb_slate §3.4, semantic equivalence matching).

Dates in several forms, numbers with their units, booleans, case, white space, hyphens between letters and the order of
lists do not matter. A date that lacks its year (or its time) equals one that agrees in all that both state. Where a
value alone may mean two things, the argument's name and description decide: a bare `09/28` is a day only where they
speak of a date and not of what expires, and 9 is `9 kg` only where they state the unit. Texts in other words differ: of
these a model may be asked (`LookupSimulator.asking`).
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from dateutil import parser as dates

from grid.types import Json
from grid.worlds.units import UNITS, understood

_NUMBER = re.compile(
    r"([$€£¥]|usd|eur|gbp)?\s*([-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-+]?(?!0\d)\d+(?:\.\d+)?)"
    r"\s*(%|°?[a-z]{1,12}(?: [a-z]{1,12})?)?"
)
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐‑](?=[^\W\d_])")
_BARE_DAY = re.compile(r"\d{2}[-/]\d{2}")
_OF_A_DAY = re.compile(r"(?:(?<![A-Za-z])[Dd]|(?<=[a-z])D)(?:ate|ay)(?![a-z])|[Bb]irthday|[Ww]hen")
_OF_A_MONTH = re.compile(r"expir|valid|card|mm\s*[-/]\s*yy|month\s*[-/]\s*year", re.I)
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
_WORD = re.compile(r"[\"'“”‘’(\[]*[^\W\d_]+(?:['’-][^\W\d_]+)*[\"'“”‘’)\].,;:!?…]*")
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
    """A number with its unit (of those in `grid.worlds.units`), None where the text gives none."""

    value: Decimal
    unit: str | None

    def agrees(self, other: Quantity, about: str) -> bool:
        """Whether the numbers are equal and so are the units, or `about` tells what is left out."""
        if self.value != other.value:
            return False
        units = {self.unit, other.unit}
        return len(units) == 1 or (None in units and all(understood(unit, about) for unit in units))


Canonical = bool | Quantity | Moment | str | None


def equivalent(left: Json, right: Json, about: str = "", depth: int = 0) -> bool:
    """Whether two values mean the same: symmetric and reflexive, not transitive.

    Dates may lack their year and numbers their unit, and then equal several that differ from one another.

    `about` is the argument's name and description. `depth` counts the levels above; values nested deeper than 16 levels
    equal only themselves.
    """
    if depth > _DEEPEST:
        return left is right
    if isinstance(left, list) or isinstance(right, list):
        items = len(right) if isinstance(right, list) else len(left) if isinstance(left, list) else 0
        return _lists_match(_as_list(left, items), _as_list(right, items), about, depth + 1)
    if isinstance(left, dict) or isinstance(right, dict):
        if not (isinstance(left, dict) and isinstance(right, dict)) or left.keys() != right.keys():
            return False
        return all(equivalent(value, right[key], f"{about} {key:.100}", depth + 1) for key, value in left.items())
    dated = _of_a_day(about)
    a, b = canonical(left, dated), canonical(right, dated)
    if isinstance(a, Moment) and isinstance(b, Moment):
        return a.agrees(b)
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return a.agrees(b, about)
    return type(a) is type(b) and a == b


def is_text(value: Json, about: str = "") -> bool:
    """Whether a value is words only: no number, date, truth value, list or object, and not empty."""
    if not isinstance(value, str):
        return False
    found = canonical(value, _of_a_day(about))
    return isinstance(found, str) and found != ""


def words_in(text: str) -> int:
    """How many of the parts between a text's blanks are words: letters only, so that no code or path has any."""
    return sum(_WORD.fullmatch(part) is not None for part in text.split())


@lru_cache(maxsize=4096)
def _of_a_day(about: str) -> bool:
    """Whether an argument takes a day, as far as its name and description tell, and not a month of a year."""
    return bool(_OF_A_DAY.search(about)) and not _OF_A_MONTH.search(about)


def canonical(value: str | int | float | bool | None, dated: bool = False) -> Canonical:
    """A scalar's meaning; equal for scalars that mean the same, but for partial dates and units.

    `dated`: two digits and two digits are a month and a day.
    """
    if isinstance(value, str):
        return _canonical_text(value, dated)
    if value is None or isinstance(value, bool):
        return value
    return Quantity(Decimal(value) if isinstance(value, int) else Decimal(repr(value)), None)


@lru_cache(maxsize=65536)
def _canonical_text(text: str, dated: bool) -> Canonical:
    folded = " ".join(text.split()).strip("\"'“”‘’").rstrip(".,;:").casefold().lstrip("#")
    if folded in _TRUTHS:
        return _TRUTHS[folded]
    if len(folded) <= _LONGEST:
        number = _NUMBER.fullmatch(folded)
        if number and _has_unit(number[1], number[3]):
            unit = number[1] or number[3]
            return Quantity(Decimal(number[2].replace(",", "")), UNITS[unit] if unit else None)
        moment = _moment(folded) if dated or not _BARE_DAY.fullmatch(folded) else None
        if moment:
            return moment
    return _HYPHEN.sub(" ", folded)


def _has_unit(before: str | None, behind: str | None) -> bool:
    """Whether the words around a number are a unit or none at all."""
    if before and behind:
        return UNITS[before] == UNITS.get(behind)
    return behind is None or behind in UNITS


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


def _lists_match(left: list[Json], right: list[Json], about: str, depth: int) -> bool:
    """Whether the items can be paired off (pairing greedily would not do: partial dates match several)."""
    if len(left) != len(right) or len(left) > _MOST:
        return left == right
    if not left:
        return True
    agree = np.array([[equivalent(item, other, about, depth) for other in right] for item in left])
    return paired_off(agree) == len(left)


def paired_off(alike: np.ndarray) -> int:
    """How many rows can each have a column of their own that is like them; `alike` is bool, (rows, columns)."""
    from scipy.optimize import linear_sum_assignment  # 0.2 s that most workers never need

    return int(alike[linear_sum_assignment(alike, maximize=True)].sum())

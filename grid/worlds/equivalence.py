"""Decides whether two argument values mean the same thing (egb_slate §3.4, semantic equivalence matching).

Differences in the following do not matter: the notation of dates, booleans and numbers with units, case, white space,
hyphens between letters, and the order of lists. A date without a year or time equals another date if all parts that
both dates state are equal. If a value alone is ambiguous, the argument's name and description decide. A bare `09/28` is
a day only if the argument's name or description mentions a date but no expiry. A bare 9 equals `9 kg` only if the
argument's name or description states the unit. By these rules, two texts with different words are different, but a
model may be asked about them (`LookupSimulator.asking`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from grid.core.types import Json

# Reads dates and times as people write them, with only the standard library.
#
# Other packages are avoided because the verdict of SLATE's scorer must not depend on a package's version or on the
# current year, and because the scorer is published as one file. The following parts are read, in any order, each at
# most once, in upper or lower case:
#
# - a day: `2025-09-28`, `09/28/2025` (the month first, unless it cannot be a month), `09-28` at the beginning,
#   `September 28th, 2025`, `28 of Sept. 2025`, `2025 Sep 28`; if the month is a name, the year may be missing;
# - a time: `15:00`, `15:00:30`, `3 pm`, `3:00 p.m.`; beside a day, it may have a zone (`Z`, `+02:00`), which is
#   ignored;
# - a weekday next to a day or a time.
#
# Any other text is not a date or time.


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?!\w)\.?"
)
_ALONE = r"(?![\w:])(?!\s?[ap]\.?m\b)"
"""A pattern that must match after a number, to ensure that the number is not part of a time."""
_DAY = rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_ALONE}"
_YEAR = rf"(?:,?\s+'?(?P<year>\d{{4}}|\d\d){_ALONE})?"
_FORMS = tuple(
    re.compile(rf"(?<![\w:./-]){form}")
    for form in (
        r"(?P<iso>(?P<year>\d{4})([-/])(?P<month>\d{1,2})\3(?P<day>\d{1,2})(?!\d)(?:t(?=\d))?)",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}|\d\d)(?!\d)",
        r"\A(?P<month>\d\d)[-/](?P<day>\d\d)(?=\s|\Z)",
        rf"(?P<year>\d{{4}})\s+{_MONTH}\s+{_DAY}",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}{_YEAR}",
        rf"{_MONTH}\s+{_DAY}{_YEAR}",
    )
)
_HALF = r"\s?(?P<half>[ap])\.?m\b\.?"
_TIMES = tuple(
    re.compile(rf"(?<![\w:./-]){form}")
    for form in (
        rf"(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d{{1,6}})?)?(?![\d:])(?:{_HALF})?"
        r"(?P<zone>\s?(?:z\b|[-+](?:[01]\d|2[0-3]):?[0-5]\d\b))?",
        rf"(?P<hour>\d{{1,2}}){_HALF}",
    )
)
_WEEKDAY = re.compile(r"(?<!\w)(mon|tue(?:s)?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?(?!\w)\.?")
_BETWEEN = re.compile(r"(?:[\s,;]|\bat\b|\bon\b)*")
_PIVOT = 69
"""Two-digit years from this number on belong to the 20th century (as in POSIX)."""
_LEAP = 2000
"""The year used for a day without a year; a leap year, because the day may be the 29th of February."""


@dataclass(frozen=True)
class Moment:
    """A date, a time of day, or both; a part is None if the text does not state it. `weekday` is 0 (Monday) to 6."""

    year: int | None
    day: tuple[int, int] | None
    time: tuple[int, int] | None
    second: int | None
    weekday: int | None

    def agrees(self, other: Moment) -> bool:
        """Whether both moments have the same day or the same time, and all other parts that both state are equal."""
        mine = (self.day, self.time, self.year, self.second, self.weekday)
        its = (other.day, other.time, other.year, other.second, other.weekday)
        if any(a is not None and b is not None and a != b for a, b in zip(mine, its, strict=True)):
            return False
        return any(a is not None and b is not None for a, b in zip(mine[:2], its[:2], strict=True))


def read_moment(text: str) -> Moment | None:
    """The date or time in a casefolded text; parts may be missing. None if the text is neither a date nor a time."""
    dated, text = _taken(text, *_FORMS)
    timed, text = _taken(text, *_TIMES)
    weekday, text = _taken(text, _WEEKDAY)
    if not (dated or timed) or not _BETWEEN.fullmatch(text):
        return None
    try:
        year, day = _date(dated.groupdict()) if dated else (None, None)
        time, second = _time(timed.groupdict()) if timed else (None, None)
    except ValueError:
        return None
    if timed and timed.groupdict().get("zone") and not dated:
        return None  # the text may also be a span of hours
    return Moment(year, day, time, second, _DAYS.index(weekday[1][:3]) if weekday else None)


def _taken(text: str, *forms: re.Pattern[str]) -> tuple[re.Match[str] | None, str]:
    """The match of the first form that occurs in the text, and the text without this match."""
    for form in forms:
        if match := form.search(text):
            return match, f"{text[: match.start()]} {text[match.end() :]}"
    return None, text


def _date(parts: Mapping[str, str | None]) -> tuple[int | None, tuple[int, int]]:
    """A date as two values: its year, and its month and day; raises ValueError if there is no such day."""
    written, name, day = parts.get("year"), parts.get("name"), int(parts["day"] or 0)
    month = _MONTHS.index(name[:3]) + 1 if name else int(parts["month"] or 0)
    year = int(written) if written else None
    if written and year is not None and len(written) == 2:
        year += 1900 if year >= _PIVOT else 2000
    if month > 12 and year is not None and not parts.get("iso"):
        month, day = day, month
    found = dt.date(_LEAP if year is None else year, month, day)
    return year, (found.month, found.day)


def _time(parts: Mapping[str, str | None]) -> tuple[tuple[int, int], int | None]:
    """A time as two values: its hour and minute, and its second; raises ValueError if there is no such time."""
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if parts["half"]:
        if hour > 12:
            raise ValueError(f"{hour} is no hour of half a day")
        hour = hour % 12 + 12 * (parts["half"] == "p")
    found = dt.time(hour, minute, second)
    return (found.hour, found.minute), found.second if parts.get("second") else None


_NUMBER = re.compile(
    r"([$€£¥]|usd|eur|gbp)?\s*([-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-+]?(?!0\d)\d+(?:\.\d+)?)"
    r"\s*(%|°?[a-z]{1,12}(?: [a-z]{1,12})?)?"
)
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐‑](?=[^\W\d_])")
_BARE_DAY = re.compile(r"\d{2}[-/]\d{2}")
_OF_A_DAY = re.compile(r"(?:(?<![A-Za-z])[Dd]|(?<=[a-z])D)(?:ate|ay)(?![a-z])|[Bb]irthday|[Ww]hen")
_OF_A_MONTH = re.compile(r"expir|valid|card|mm\s*[-/]\s*yy|month\s*[-/]\s*year", re.I)
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_WORD = re.compile(r"[\"'“”‘’(\[]*[^\W\d_]+(?:['’-][^\W\d_]+)*[\"'“”‘’)\].,;:!?…]*")
_LONGEST = 64  # maximum number of characters in a value that could be a date or a number
_DEEPEST = 16  # maximum number of levels of nesting; deeper values equal only themselves
_MOST = 200  # maximum number of items in a list that is compared regardless of order


@dataclass(frozen=True)
class Quantity:
    """A number and its unit, which is one of the values of `UNITS`, or None if the text has no unit."""

    value: Decimal
    unit: str | None

    def agrees(self, other: Quantity, about: str) -> bool:
        """Whether the numbers are equal and the units agree.

        Units agree if they are equal or if a missing unit follows from `about`.
        """
        if self.value != other.value:
            return False
        units = {self.unit, other.unit}
        return len(units) == 1 or (None in units and all(understood(unit, about) for unit in units))


Canonical = bool | Quantity | Moment | str | None


def equivalent(left: Json, right: Json, about: str = "", depth: int = 0) -> bool:
    """Whether two values mean the same thing; the relation is symmetric and reflexive, but not transitive.

    It is not transitive because a date without a year, or a number without a unit, may equal several different values.

    `about` is the argument's name and description. `depth` is the nesting level; values nested deeper than 16 levels
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
    """Whether a value is a non-empty text that is not a number, a date or a truth value."""
    if not isinstance(value, str):
        return False
    found = canonical(value, _of_a_day(about))
    return isinstance(found, str) and found != ""


def words_in(text: str) -> int:
    """The number of words in a text.

    A part between spaces is a word if it has only letters; codes and paths do not count.
    """
    return sum(_WORD.fullmatch(part) is not None for part in text.split())


@lru_cache(maxsize=4096)
def _of_a_day(about: str) -> bool:
    """Whether an argument's name and description (`about`) indicate a day, not a month and year."""
    return bool(_OF_A_DAY.search(about)) and not _OF_A_MONTH.search(about)


def canonical(value: str | int | float | bool | None, dated: bool = False) -> Canonical:
    """A scalar's meaning.

    Scalars with the same meaning have equal results, unless a part of a date or a unit is missing. `dated`: whether a
    text of two digits, a separator and two digits (`09/28`) is read as a month and a day.
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
        moment = read_moment(folded) if dated or not _BARE_DAY.fullmatch(folded) else None
        if moment:
            return moment
    return _HYPHEN.sub(" ", folded)


def _has_unit(before: str | None, behind: str | None) -> bool:
    """Whether the texts before and after a number form a unit; also true if there are no such texts."""
    if before and behind:
        return UNITS[before] == UNITS.get(behind)
    return behind is None or behind in UNITS


def _as_list(value: Json, items: int) -> list[Json]:
    """A value as a list.

    A text is split at `,`, `;` and `and` unless `items` is 1; any other value becomes the only item.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, str) and items != 1:
        parts = re.split(r",|;|\band\b", value.strip("[] "))
        return [part.strip() for part in parts if part.strip()]
    return [value]


def _lists_match(left: list[Json], right: list[Json], about: str, depth: int) -> bool:
    """Whether the items of both lists can be paired off.

    Greedy pairing would not be enough, because a partial date may match several items.
    """
    if len(left) != len(right) or len(left) > _MOST:
        return left == right
    if not left:
        return True
    agree = [[equivalent(item, other, about, depth) for other in right] for item in left]
    return paired_off(agree) == len(left)


def paired_off(alike: Sequence[Sequence[bool]]) -> int:
    """The maximum number of rows that can each get their own matching column (augmenting paths)."""
    row_of: dict[int, int] = {}
    column_of: dict[int, int] = {}
    for start in range(len(alike)):
        reached: dict[int, int] = {}  # column: the row from which it was reached
        rows = [start]
        for row in rows:  # the list grows during the loop
            new = [column for column, like in enumerate(alike[row]) if like and column not in reached]
            reached |= dict.fromkeys(new, row)
            free = next((column for column in new if column not in row_of), None)
            if free is not None:
                _rematched(free, reached, row_of, column_of)
                break
            rows += [row_of[column] for column in new]
    return len(row_of)


def _rematched(column: int | None, reached: dict[int, int], row_of: dict[int, int], column_of: dict[int, int]) -> None:
    """Give each row on the path to a free column the next column on that path."""
    while column is not None:
        row = reached[column]
        row_of[column], column_of[row], column = row, column, column_of.get(row)


# Units of measure as people write them, and the units that an argument's name and description state.


_SPELLINGS = {
    "money": {"$": "usd dollar dollars", "€": "eur euro euros", "£": "gbp", "¥": "jpy yen"},
    "share": {"%": "percent pct percentage"},
    "mass": {
        "kg": "kgs kilo kilos kilogram kilograms kilogramme kilogrammes",
        "g": "gram grams gramme grammes",
        "lb": "lbs",
        "oz": "ounce ounces",
    },
    "length": {
        "m": "meter meters metre metres",
        "km": "kilometer kilometers kilometre kilometres",
        "cm": "centimeter centimeters centimetre centimetres",
        "mm": "millimeter millimeters millimetre millimetres",
        "mi": "mile miles",
        "ft": "foot feet",
        "inch": "inches",
    },
    "volume": {"l": "liter liters litre litres", "ml": "milliliter milliliters millilitre millilitres"},
    "time": {
        "s": "sec secs second seconds",
        "min": "mins minute minutes",
        "h": "hr hrs hour hours",
        "day": "days",
        "night": "nights",
        "week": "weeks",
        "month": "months",
        "year": "years",
    },
    "data": {"kb": "kilobytes", "mb": "megabyte megabytes", "gb": "gigabyte gigabytes", "tb": "terabyte terabytes"},
    "heat": {"°c": "celsius", "°f": "fahrenheit"},
}
UNITS = {
    spelling: unit
    for units in _SPELLINGS.values()
    for unit, spellings in units.items()
    for spelling in (unit, *spellings.split())
} | {"per cent": "%"}
_KINDS = {unit: kind for kind, units in _SPELLINGS.items() for unit in units}
_LOOSE = frozenset({"$", "€", "£", "¥", "%"})
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNIT = re.compile(r"\(\s*(?:in\s+)?([a-z])\s*\)|_([a-z])\b|(°?[a-z]{2,}|°[cf]|[%$€£¥])")


def understood(unit: str | None, about: str) -> bool:
    """Whether a number without a unit, given as the argument's value, may be read as having this unit.

    Money and percentages may always be written without a unit. Another unit may be left out if the argument's name or
    description states the unit and no other unit of the same kind.
    """
    if unit is None or unit in _LOOSE:
        return True
    return {other for other in _stated(about) if _KINDS[other] == _KINDS[unit]} == {unit}


@lru_cache(maxsize=4096)
def _stated(about: str) -> frozenset[str]:
    """The units that a text names. A single letter counts only in brackets or at the end of a name (`length_m`)."""
    words = ["".join(found) for found in _UNIT.findall(_CAMEL.sub("_", about).casefold().replace("_", " _"))]
    return frozenset(UNITS[word] for word in words if word in UNITS)

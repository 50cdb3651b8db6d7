"""Dates and times as people write them, by a grammar that needs nothing but the standard library.

What SLATE's scorer says must not depend on a package's version or on today's year, and its published form is one file.
Read are, in any order and each once, whatever the case:

- a day: `2025-09-28`, `09/28/2025` (the month first, unless it cannot be one), `09-28` at the beginning,
  `September 28th, 2025`, `28 of Sept. 2025`, `2025 Sep 28`, those with a name also without their year;
- a time: `15:00`, `15:00:30`, `3 pm`, `3:00 p.m.`; beside a day also with a zone (`Z`, `+02:00`), which does not count;
- a weekday beside either.

Everything else is no moment.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?!\w)\.?"
)
_ALONE = r"(?![\w:])(?!\s?[ap]\.?m\b)"
"""Behind a number that belongs to no time."""
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
"""Years of two digits from here on are of the last century (as POSIX has it)."""
_LEAP = 2000
"""The year of a day without one, which may be the 29th of February."""


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


def read_moment(text: str) -> Moment | None:
    """The date or time that a casefolded text is, with what it leaves open; None where it is neither."""
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
        return None  # it may as well be a span of hours
    return Moment(year, day, time, second, _DAYS.index(weekday[1][:3]) if weekday else None)


def _taken(text: str, *forms: re.Pattern[str]) -> tuple[re.Match[str] | None, str]:
    """Where the first form that stands in a text does, and the text without it."""
    for form in forms:
        if match := form.search(text):
            return match, f"{text[: match.start()]} {text[match.end() :]}"
    return None, text


def _date(parts: Mapping[str, str | None]) -> tuple[int | None, tuple[int, int]]:
    """Year, and month and day; raises ValueError where there is no such day."""
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
    """Hour and minute, and the second; raises ValueError where there is no such time."""
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if parts["half"]:
        if hour > 12:
            raise ValueError(f"{hour} is no hour of half a day")
        hour = hour % 12 + 12 * (parts["half"] == "p")
    found = dt.time(hour, minute, second)
    return (found.hour, found.minute), found.second if parts.get("second") else None

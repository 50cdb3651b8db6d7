"""When two argument values mean the same (egb_slate §3.4, semantic equivalence matching).

Dates in several forms, numbers with their units, booleans, case, white space, hyphens between letters and the order of
lists do not matter. A date that lacks its year (or its time) equals one that agrees in all that both state. Where a
value alone may mean two things, the argument's name and description decide: a bare `09/28` is a day only where they
speak of a date and not of what expires, and 9 is `9 kg` only where they state the unit. Texts in other words differ: of
these a model may be asked (`LookupSimulator.asking`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from grid.core.types import Json
from grid.worlds.moments import Moment, read_moment
from grid.worlds.units import UNITS, understood

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
_LONGEST = 64  # characters of a value that could be a date or a number
_DEEPEST = 16  # levels of nesting; deeper values equal only themselves
_MOST = 200  # items of a list that is compared regardless of order


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
        moment = read_moment(folded) if dated or not _BARE_DAY.fullmatch(folded) else None
        if moment:
            return moment
    return _HYPHEN.sub(" ", folded)


def _has_unit(before: str | None, behind: str | None) -> bool:
    """Whether the words around a number are a unit or none at all."""
    if before and behind:
        return UNITS[before] == UNITS.get(behind)
    return behind is None or behind in UNITS


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
    agree = [[equivalent(item, other, about, depth) for other in right] for item in left]
    return paired_off(agree) == len(left)


def paired_off(alike: Sequence[Sequence[bool]]) -> int:
    """How many rows can each have a column of their own that is like them (augmenting paths)."""
    row_of: dict[int, int] = {}
    column_of: dict[int, int] = {}
    for start in range(len(alike)):
        reached: dict[int, int] = {}  # column: the row that it was reached from
        rows = [start]
        for row in rows:  # which grows
            new = [column for column, like in enumerate(alike[row]) if like and column not in reached]
            reached |= dict.fromkeys(new, row)
            free = next((column for column in new if column not in row_of), None)
            if free is not None:
                _rematched(free, reached, row_of, column_of)
                break
            rows += [row_of[column] for column in new]
    return len(row_of)


def _rematched(column: int | None, reached: dict[int, int], row_of: dict[int, int], column_of: dict[int, int]) -> None:
    """Give each row on the path that ends in a free column the next column of it."""
    while column is not None:
        row = reached[column]
        row_of[column], column_of[row], column = row, column, column_of.get(row)

"""Tool usage (traject_bench §4.1): are a call's arguments the reference's, once both are normalised as published?

The steps and their order are those of the authors' scorer: a literal is read, then come whitespace, countries, dates,
truth values and numbers. Some of it goes far ("1" becomes a number, "yes" true, which equals 1), and is kept, so that
figures compare.
"""

from __future__ import annotations

import ast
import datetime as dt
import re
from collections.abc import Mapping
from functools import lru_cache

from grid.core.types import Json

_LONGEST = 10_000
"""Characters of what is read as a literal; longer texts stay texts."""
_COMMA, _BLANK = re.compile(r"\s*,\s*"), re.compile(r"\s+")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_COUNTRIES = {
    "FR": "France", "US": "United States", "USA": "United States", "UK": "United Kingdom", "GB": "United Kingdom",
    "DE": "Germany", "IT": "Italy", "ES": "Spain", "JP": "Japan", "CN": "China", "AU": "Australia", "CA": "Canada",
    "IN": "India", "BR": "Brazil", "MX": "Mexico", "RU": "Russia", "KR": "South Korea", "NL": "Netherlands",
    "SE": "Sweden", "NO": "Norway", "DK": "Denmark", "FI": "Finland", "CH": "Switzerland", "AT": "Austria",
    "BE": "Belgium", "PT": "Portugal", "GR": "Greece", "TR": "Turkey", "PL": "Poland", "CZ": "Czech Republic",
    "HU": "Hungary", "RO": "Romania", "BG": "Bulgaria", "HR": "Croatia", "SI": "Slovenia", "SK": "Slovakia",
    "LT": "Lithuania", "LV": "Latvia", "EE": "Estonia",
}  # fmt: skip
_SPELLED = {name.lower(): name for name in _COUNTRIES.values()}


def same_arguments(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Whether two calls of a tool have equal arguments, those left out that are empty."""
    return normalised_arguments(one) == normalised_arguments(other)


def normalised_arguments(arguments: Mapping[str, Json]) -> dict[str, object]:
    """A call's arguments as they are compared."""
    return {name.strip(): normalised(value) for name, value in arguments.items() if not _is_empty(value)}


def _is_empty(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def normalised(value: Json) -> object:
    """A value as it is compared."""
    written = str(value).strip()
    found = _literal(written) if len(written) <= _LONGEST else written
    if not isinstance(found, str):
        return found
    text = _BLANK.sub(" ", _COMMA.sub(",", found)).strip()
    if "," in text:
        text = ",".join(map(_country, text.split(",")))
    text = _dated(text)
    lowered = text.lower().strip()
    if lowered in _TRUE + _FALSE:
        return lowered in _TRUE
    return _number(text)


@lru_cache(maxsize=1024)  # a reference's are read for every trial; nothing is done with one but compare it
def _literal(text: str) -> object:
    """What a text stands for as a Python literal, which is read and never run; other texts are themselves."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _country(part: str) -> str:
    part = part.strip()
    return _COUNTRIES.get(part.upper()) or _SPELLED.get(part.lower(), part)


@lru_cache(maxsize=4096)
def _dated(text: str) -> str:
    if _DATE.match(text):
        try:
            return dt.datetime.strptime(text, "%Y-%m-%d").strftime("%Y-%m-%d")
        except ValueError:
            pass
    return text


def _number(text: str) -> object:
    if text.strip().isdigit():
        try:
            return int(text)
        except ValueError:  # a digit of another kind, such as a superscript, or thousands of digits
            pass
    try:
        return float(text)
    except ValueError:
        return text

"""Numbers, dates and texts: which literals there can be, and how one is read from words."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping

from grid.worlds.sparql.errors import SparqlError
from grid.worlds.sparql.expressions import XSD, Value

MAX_CHARACTERS = 1_000
"""Of a literal that a planner gives."""
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
_YEAR = r"(-?[0-9]{4,9})"
_DATE = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}}){_ZONE}")
_MONTH = re.compile(rf"{_YEAR}-([0-9]{{2}}){_ZONE}")
_MOMENT = re.compile(rf"{_YEAR}-([0-9]{{2}})-([0-9]{{2}})T([0-9]{{2}}):([0-9]{{2}}):([0-9]{{2}})(?:\.[0-9]+)?{_ZONE}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})")
_FLOAT = re.compile(rf"{_DECIMAL.pattern}(?:[eE][+-]?[0-9]{{1,4}})?|[+-]?INF")
_PLAIN_YEAR = re.compile(r"[0-9]{4}")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_PLAIN_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_PLAIN_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.Z+\-]+")
_PLAIN_FLOAT = re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,4})?")


def _day(year: str, month: str, day: str) -> bool:
    """Whether a day is one of the Gregorian calendar, of any year."""
    try:
        dt.date(2000 + int(year) % 400, int(month), int(day))  # which repeats after 400 years
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    return bool(found and _day(*found.groups()))


def _is_month(text: str) -> bool:
    found = _MONTH.fullmatch(text)
    return bool(found and 1 <= int(found[2]) <= 12)


def _is_moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    return bool(
        found and _day(*found.groups()[:3]) and int(found[4]) < 24 and int(found[5]) < 60 and int(found[6]) < 60
    )


def _matches(form: str | re.Pattern[str]) -> Callable[[str], bool]:
    pattern = re.compile(form)
    return lambda text: bool(pattern.fullmatch(text))


_KINDS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "string": (lambda _: True, "a text"),
    "integer": (_matches(_INTEGER), "a whole number"),
    "decimal": (_matches(_DECIMAL), "a number"),
    "float": (_matches(_FLOAT), "a number"),
    "double": (_matches(_FLOAT), "a number"),
    "boolean": (_matches("true|false|0|1"), "true or false"),
    "date": (_is_date, "a day of the Gregorian calendar, YYYY-MM-DD"),
    "dateTime": (_is_moment, "a moment of the Gregorian calendar, YYYY-MM-DDThh:mm:ss"),
    "gYearMonth": (_is_month, "a month of the Gregorian calendar, YYYY-MM"),
    "gYear": (_matches(_YEAR + _ZONE), "a year, YYYY"),
}
_NUMBERS = {"integer", "decimal", "float", "double"}
_BY_IRI = {f"{XSD}{kind}": test for kind, test in _KINDS.items()}


def wrong(text: str, datatype: str) -> str | None:
    """Why a text is no literal of a datatype; None where it is one, and of datatypes that are not known here."""
    test = _BY_IRI.get(datatype)
    if test is None or test[0](text):
        return None
    return f"{text!r:.80} is not {test[1]}"


def read(text: str) -> Value | None:
    """The literal that words stand for: a number, a date, a year, `"text"`, or `text^^datatype`; None: they are none.

    Four digits are a year. A datatype is one of XML Schema's: `date`, `xsd:date` or its whole IRI.

    Raises:
        SparqlError: a date that is none, a datatype that is not known, a text that its datatype does not have.
    """
    if len(text) > MAX_CHARACTERS:
        raise SparqlError(f"a literal has at most {MAX_CHARACTERS:,} characters")
    body, typed, kind = text.rpartition("^^")
    if typed:
        return _of(_unquoted(body), kind.strip("<>").removeprefix(XSD).removeprefix("xsd:"))
    if len(text) > 1 and text[0] == text[-1] == '"':
        return Value(_unquoted(text))
    for form, kind in (
        (_PLAIN_YEAR, "gYear"),
        (_INTEGER, "integer"),
        (_PLAIN_FLOAT, "float"),
        (_PLAIN_DATE, "date"),
        (_PLAIN_MONTH, "gYearMonth"),
        (_PLAIN_MOMENT, "dateTime"),
    ):
        if form.fullmatch(text):
            return _of(text, kind)
    return None


def spoken(value: Value) -> str:
    """Words that `read` takes for a literal: its text where that is enough."""
    kind = value.datatype.removeprefix(XSD)
    if kind == "string":
        escaped = re.sub(r'(["\\])', r"\\\1", value.text)
        return f'"{escaped}"'
    try:
        found = read(value.text)
    except SparqlError:
        found = None
    if found is not None and (found == value or {kind, found.datatype.removeprefix(XSD)} <= _NUMBERS):
        return value.text
    return f"{value.text}^^{kind}"


def number(value: Value) -> Value:
    """Four digits that were read as a year as the number that they are too; other literals as they are."""
    if value.datatype == f"{XSD}gYear" and _PLAIN_YEAR.fullmatch(value.text):
        return Value(value.text, f"{XSD}integer")
    return value


def _of(text: str, kind: str) -> Value:
    if kind not in _KINDS:
        raise SparqlError(f"{kind!r:.80} is no datatype; there are {', '.join(_KINDS)}")
    reason = wrong(text, f"{XSD}{kind}")
    if reason:
        raise SparqlError(reason)
    return Value(text, f"{XSD}{kind}")


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if quoted else text

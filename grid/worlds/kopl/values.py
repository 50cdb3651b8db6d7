"""Values of attributes and qualifiers: strings, numbers with a unit, dates and years, and how KoPL compares them."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from grid.worlds.handles import CallError, shown

Kind = Literal["string", "quantity", "time"]
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
OPERATORS = tuple(_COMPARE)
NO_UNIT = "1"
"""The unit of a number without one, as KQA Pro writes it."""


class Value(NamedTuple):
    """One value; which fields count depends on its kind.

    `moment` is (year,) or (year, month, day). A year may be 0 or negative (44 BC is -44), a date's may not.
    """

    kind: Kind
    string: str = ""
    number: float = 0.0
    unit: str = ""
    moment: tuple[int, ...] = ()

    def text(self) -> str:
        """The value as KQA Pro's answers have it: `206 centimetre`, `2003-06-26`, `1970`.

        A number that exceeds its whole part by less than 1e-5 loses its fraction; so does every negative one, since
        the reference engine, which made the answers, has it so.
        """
        if self.kind == "string":
            return self.string
        if self.kind == "time":
            if len(self.moment) == 1:
                return str(self.moment[0])
            return "{:04d}-{:02d}-{:02d}".format(*self.moment)
        whole = int(self.number)
        number = whole if self.number - whole < 1e-5 else self.number
        return str(number) if self.unit == NO_UNIT else f"{number} {self.unit}"


def condition(op: str, target: Value) -> Callable[[Value], bool]:
    """The test `value op target`, which is false of what cannot be compared with the target.

    Numbers compare within one unit. A date equals the year that contains it, but a year equals no date; for `<` and
    `>` a date and a year compare by their years.
    """
    if op == "=" and (target.kind != "time" or len(target.moment) > 1):
        return target.__eq__
    if target.kind == "time":
        return _time_condition(op, target.moment)
    if target.kind == "string":
        return lambda value: False
    compare, unit, number = _COMPARE[op], target.unit, target.number
    return lambda value: value.kind == "quantity" and value.unit == unit and compare(value.number, number)


def _time_condition(op: str, target: tuple[int, ...]) -> Callable[[Value], bool]:
    compare, length, year = _COMPARE[op], len(target), target[:1]
    if length == 1 or op == "!=":
        return lambda value: value.kind == "time" and compare(value.moment[:length], target)
    return lambda value: (
        value.kind == "time"
        and (compare(value.moment, target) if len(value.moment) == length else compare(value.moment, year))
    )


def parse(kind: str, text: str) -> Value:
    """A value as a function's argument has it: `188 centimetre`, `2003-06-26` or `2003/6/26`, `2003`.

    Raises:
        KoplError: it is no value of this kind (`string`, `quantity`, `year`, `date`; the last two read the same).
    """
    if kind == "string":
        return Value("string", string=text)
    try:
        if kind == "quantity":
            first, *rest = text.split() if " " in text else [text]
            unit = " ".join(rest) if " " in text else NO_UNIT
            return Value("quantity", number=_finite(first), unit=unit)
        return Value("time", moment=_moment(text))
    except ValueError:
        wanted = "a number, with its unit behind it" if kind == "quantity" else "a year or a date as year-month-day"
        raise KoplError(f"{shown(text)} is not {wanted}") from None


def from_json(raw: Any) -> Value:
    """A value as a knowledge base has it: {"type", "value", "unit" of a quantity}.

    Raises:
        ValueError: what is wrong with it.
    """
    if not isinstance(raw, Mapping):
        raise ValueError(f"a value is an object, not {type(raw).__name__}")
    kind, value = raw.get("type"), raw.get("value")
    if kind == "string":
        if not isinstance(value, str):
            raise ValueError(f"a string's value is a text, not {type(value).__name__}")
        return Value("string", string=value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"a value of type {kind!r:.40} is a number or a text, not {type(value).__name__}")
    if kind == "quantity":
        if not isinstance(raw.get("unit"), str):
            raise ValueError("a quantity without a unit")
        return Value("quantity", number=_finite(value), unit=raw["unit"])
    if kind in ("year", "date"):
        return Value("time", moment=_moment(str(value)))
    raise ValueError(f"type {kind!r:.40} is none of string, quantity, year, date")


def _finite(value: str | float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r:.40} is no finite number")
    return number


def _moment(text: str) -> tuple[int, ...]:
    mark = "/" if "/" in text else "-" if "-" in text and text[0] != "-" else None
    if mark is None:
        return (int(text),)
    first, last = text.find(mark), text.rfind(mark)
    day = dt.date(int(text[:first]), int(text[first + 1 : last]), int(text[last + 1 :]))
    return (day.year, day.month, day.day)


# Why a call of the knowledge base's functions, or a program of them, has no result.


class KoplError(CallError):
    """A call that cannot have a result; the message says why in one sentence."""


class ProgramError(KoplError):
    """A program that cannot run: the step (from 0; None for the whole of it) and what is wrong."""

    def __init__(self, step: int | None, message: str) -> None:
        self.step, self.message = step, message
        super().__init__(message if step is None else f"step {step}: {message}")

    def __reduce__(self) -> tuple[type[ProgramError], tuple[int | None, str]]:
        """So that it travels between processes."""
        return type(self), (self.step, self.message)


# What KoPL's tools speak of, as planners are told (planning_horizon §4.1).


GLOSSARY = (
    "- entity: a person, a place, a work or another single thing, with a name. Several may have one name.",
    "- concept: a kind of entities, with narrower concepts below it. A concept is found by its name as entities are.",
    "- attribute: a key of an entity and its value, of one of four types: a text, a number (with its unit where it has "
    "one), a year, or a date.",
    "- relation: what leads from one entity, the subject, to another, the object. It is followed forward, from subject "
    "to object, or backward.",
    "- fact: one attribute of an entity with its value, or one relation between two entities.",
    "- qualifier: a key and a value that say more of one fact, such as since when it holds. Its value is of the same "
    "four types.",
    "- entity set: what most tools take and return. A set that was filtered by an attribute or reached by a relation "
    "keeps the facts by which its entities were found: qualifier filters look at those.",
)

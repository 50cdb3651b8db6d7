"""How KoPL's functions tell what fits a value, by its type, and what their arguments look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EXAMPLE: Mapping[str, str] = {
    "name": "Velmora",
    "concept_name": "glimmer fern",
    "key": "frond length",
    "value": "12 centimetre",
    "qkey": "sown by",
    "qvalue": "Ardith Quell",
    "relation": "grafted onto",
    "direction": "backward",
    "op": ">",
}
"""The texts of examples: made up, so that no example has a word of any data."""


class Kind(NamedTuple):
    """A type of values: what the world calls it, how a value is said to fit, and one made up for the examples."""

    name: str
    attribute: str
    given: str
    key: str
    value: str


KINDS = {
    "Str": Kind("string", "is this text, exactly", "this text, exactly", "leaf code", "GX-7"),
    "Num": Kind(
        "quantity",
        "is a number of the value's unit for which `number op value` holds",
        "numbers of t_value's unit for which `number op t_value` holds",
        "frond length",
        "12 centimetre",
    ),
    "Year": Kind(
        "year",
        "is a year for which `year op value` holds, or a date whose year does: `=` also takes dates within the year",
        "years, or dates whose year is taken, for which `year op t_value` holds: `=` also takes dates within the year",
        "first sown",
        "1874",
    ),
    "Date": Kind(
        "date",
        "is a date for which `date op value` holds; a value of which only the year is known is no date with `=`, and is "
        "compared by the years with `<` and `>`",
        "dates for which `date op t_value` holds; of which only the year is known is no date with `=`, and is compared "
        "by the years with `<` and `>`",
        "first sown",
        "1874-03-09",
    ),
}

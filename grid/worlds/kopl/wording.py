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
"""The texts of examples: made up, so that no example tells of any data."""


class Kind(NamedTuple):
    """A type of values: what the world calls it, what a value is that fits, and an example's key and value."""

    name: str
    fits: str
    key: str
    value: str

    def told(self, given: str) -> str:
        """What a value is that fits the one given by the parameter of this name."""
        return self.fits.format(given=given)


KINDS: Mapping[str, Kind] = {
    "Str": Kind("string", "is exactly `{given}`", "leaf code", "GX-7"),
    "Num": Kind("quantity", "is a number `op {given}`, in the same unit", "frond length", "12 centimetre"),
    "Year": Kind("year", "is a year `op {given}`, or a date in such a year", "first sown", "1874"),
    "Date": Kind(
        "date",
        "is a date `op {given}` (where only the year is known it is never `=`; `<` and `>` compare the years)",
        "first sown",
        "1874-03-09",
    ),
}

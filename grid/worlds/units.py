"""Units of measure as people write them, and which of them an argument's name and description state."""

from __future__ import annotations

import re
from functools import lru_cache

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
    """Whether a bare number of an argument means this unit.

    Money and shares may always go without; others where the argument's name or description states this unit and no
    other of its kind.
    """
    if unit is None or unit in _LOOSE:
        return True
    return {other for other in _stated(about) if _KINDS[other] == _KINDS[unit]} == {unit}


@lru_cache(maxsize=4096)
def _stated(about: str) -> frozenset[str]:
    """The units in a text; a single letter counts in brackets or at the end of a name (`length_m`)."""
    words = ["".join(found) for found in _UNIT.findall(_CAMEL.sub("_", about).casefold().replace("_", " _"))]
    return frozenset(UNITS[word] for word in words if word in UNITS)

"""The tools that take no image: Calculator, Solver and GoogleSearch."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any

from grid.worlds.scenes import algebra
from grid.worlds.scenes.code import MAX_CHARACTERS, CodeError, Function, calculated, power, shown, solution
from grid.worlds.scenes.given import CallError, Given, Outcome

_MOST_RESULTS = 10
_MOST_FACTORIAL = 150
_MOST_PLACES = 15
_PLAIN = (
    "ceil", "cos", "degrees", "exp", "fabs", "floor", "hypot", "log", "log10", "log2", "radians", "sin", "sqrt", "tan",
)  # fmt: skip
_CONSTANTS: Mapping[str, Any] = {"pi": math.pi, "e": math.e}


def calculate(given: Given) -> Outcome:
    """Calculator: the number with twelve significant digits at most."""
    try:
        value = calculated(given.text("expression", MAX_CHARACTERS), _FUNCTIONS, _CONSTANTS)
    except CodeError as error:
        raise CallError(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise CallError("the result is no number")
    return Outcome({"result": shown(value)}, frozenset({number(value)}))


def solve(given: Given) -> Outcome:
    """Solver: what the code returns, as a text; the numbers of every solution that it found were obtained."""
    found: list[Any] = []

    def kept(*equations: Any, **options: Any) -> Any:
        found.append(algebra.solve(*equations, **options))
        return found[-1]

    functions = {**_FUNCTIONS, **algebra.FUNCTIONS, "solve": kept}
    try:
        value = solution(given.text("command", MAX_CHARACTERS), functions, _CONSTANTS)
        if value is None:
            raise CodeError("the function `solution` returns nothing")
        return Outcome({"result": algebra.told(value)}, frozenset(map(number, _numbers(found))))
    except CodeError as error:
        raise CallError(str(error)) from None


def search(given: Given) -> Outcome:
    """GoogleSearch: a numbered line for each entry that was found."""
    found = given.web.found(given.text("query"), given.whole("k", _MOST_RESULTS, _MOST_RESULTS))
    if not found:
        raise CallError("no good result was found")
    told = "\n".join(f"{place} - {one.title}: {one.text}" for place, one in enumerate(found, 1))
    return Outcome({"results": told}, frozenset(("GoogleSearch", one.title) for one in found))


def number(value: float | Fraction) -> Hashable:
    """What is obtained by whoever works out a number: the same to nine significant digits. Raises CodeError."""
    try:
        return "number", f"{float(value):.9g}"
    except OverflowError:
        raise CodeError("a number of too many digits") from None


def _numbers(value: Any) -> list[float | Fraction]:
    """The numbers that solutions hold."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [one for item in value for one in _numbers(item)]
    return [value] if isinstance(value, int | float | Fraction) else []


def _factorial(value: Any) -> int:
    if not isinstance(value, int) or value > _MOST_FACTORIAL:
        raise CodeError(f"factorial takes a whole number up to {_MOST_FACTORIAL}")
    return math.factorial(value)


def _rounded(value: Any, places: Any = None) -> Any:
    if places is not None and (not isinstance(places, int) or abs(places) > _MOST_PLACES):
        raise CodeError(f"round takes up to {_MOST_PLACES} places")
    return round(value, places)


_FUNCTIONS: Mapping[str, Function] = {
    **{name: getattr(math, name) for name in _PLAIN},
    "abs": abs, "factorial": _factorial, "float": float, "int": int, "max": max, "min": min, "pow": power,
    "round": _rounded, "sum": sum,
}  # fmt: skip
"""What expressions may call."""

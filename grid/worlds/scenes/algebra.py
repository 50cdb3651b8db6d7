"""Equations for the tool Solver: linear systems, and one equation of the first or second degree. Exact fractions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from grid.worlds.scenes.tools import CodeError, Function, shown

Monomial: TypeAlias = tuple[tuple[str, int], ...]
"""Variables with their exponents, by name; () for the constant."""
_MAX_TERMS = 50
_MAX_DEGREE = 4
_MAX_UNKNOWNS = 10


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials with their factors, those of 0 left out."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    def __add__(self, other: object) -> Polynomial:
        return _made([*self.terms, *_polynomial(other).terms])

    def __sub__(self, other: object) -> Polynomial:
        return self + -_polynomial(other)

    def __neg__(self) -> Polynomial:
        return _made([(monomial, -factor) for monomial, factor in self.terms])

    def __pos__(self) -> Polynomial:
        return self

    def __mul__(self, other: object) -> Polynomial:
        products = [(_times(a, b), x * y) for a, x in self.terms for b, y in _polynomial(other).terms]
        return _made(products)

    def __truediv__(self, other: object) -> Polynomial:
        divisor = _polynomial(other).constant()
        return _made([(monomial, factor / divisor) for monomial, factor in self.terms])

    def __pow__(self, exponent: object) -> Polynomial:
        if not isinstance(exponent, int) or not 0 <= exponent <= _MAX_DEGREE:
            raise CodeError(f"only whole exponents up to {_MAX_DEGREE} can be used with variables")
        found = _polynomial(1)
        for _ in range(exponent):
            found = found * self
        return found

    def __radd__(self, other: object) -> Polynomial:
        return self + other

    def __rsub__(self, other: object) -> Polynomial:
        return -self + other

    def __rmul__(self, other: object) -> Polynomial:
        return self * other

    def __str__(self) -> str:
        return " + ".join("*".join([shown(factor), *(f"{n}**{e}" for n, e in one)]) for one, factor in self.terms)

    def constant(self) -> Fraction:
        """The number that it is; raises CodeError where it has variables."""
        if self.variables():
            raise CodeError("a variable stands where a number is expected")
        return self.coefficient(())

    def coefficient(self, monomial: Monomial) -> Fraction:
        """The factor of a monomial."""
        return dict(self.terms).get(monomial, Fraction(0))

    def variables(self) -> frozenset[str]:
        """The names of its variables."""
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)


Number: TypeAlias = Fraction | float


def symbols(names: str, **assumptions: bool) -> Polynomial | tuple[Polynomial, ...]:
    """One variable, or several, parted by blanks or commas."""
    found = [_made([(((name, 1),), Fraction(1))]) for name in names.replace(",", " ").split()]
    if not 0 < len(found) <= _MAX_UNKNOWNS or not all(name.isidentifier() for name in names.replace(",", " ").split()):
        raise CodeError("symbols takes the names of one to ten variables")
    return found[0] if len(found) == 1 else tuple(found)


def solve(equations: Any, *unknowns: Any, **options: Any) -> Any:
    """As sympy has it: a list of roots of one equation, a dict by variable for a system, a list of dicts by `dict`."""
    listed = bool(options.get("dict"))
    system = [_polynomial(one) for one in (equations if isinstance(equations, list | tuple) else [equations])]
    flat = [one for item in unknowns for one in (item if isinstance(item, list | tuple) else [item])]
    names = sorted({name for one in map(_polynomial, flat) for name in one.variables()})
    names = names or sorted({name for one in system for name in one.variables()})
    if len(names) == 1 and len(system) == 1:
        roots = _roots(system[0], names[0])
        named = [{names[0]: root} for root in roots]
        return named if listed else named[0] if isinstance(equations, list | tuple) and len(named) == 1 else roots
    found = _linear(system, names)
    return ([found] if found else []) if listed else found


def told(value: Any) -> str:
    """A result as a text: [3, 7/2], {x: 3, y: 4}."""
    match value:
        case dict():
            return "{" + ", ".join(f"{told(name)}: {told(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(told, value)) + "]"
        case bool() | str() | None:
            return str(value)
        case int() | float() | Fraction():
            return shown(value)
    return str(value)


def _roots(equation: Polynomial, name: str) -> list[Number]:
    """The real roots in ascending order."""
    if equation.variables() != {name}:
        raise CodeError("the equation must have this one variable and no other")
    degree = max(exponent for monomial, _ in equation.terms for _, exponent in monomial)
    if degree > 2:
        raise CodeError("only equations of the first and second degree can be solved")
    a, b, c = (equation.coefficient(((name, n),) if n else ()) for n in (2, 1, 0))
    if not a:
        return [-c / b]
    inner = b * b - 4 * a * c
    if inner < 0:
        return []
    root = _square_root(inner)
    if isinstance(root, Fraction):
        return sorted({(-b - root) / (2 * a), (-b + root) / (2 * a)})
    return sorted({(-float(b) - root) / (2 * float(a)), (-float(b) + root) / (2 * float(a))})


def _square_root(value: Fraction) -> Number:
    above, below = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if above * above == value.numerator and below * below == value.denominator:
        return Fraction(above, below)
    return math.sqrt(value)


def _linear(system: Sequence[Polynomial], names: Sequence[str]) -> dict[str, Fraction]:
    """The only solution, by Gauss and Jordan; none where there is none. Raises CodeError for other systems."""
    if any(len(monomial) > 1 or any(e > 1 for _, e in monomial) for one in system for monomial, _ in one.terms):
        raise CodeError("only linear systems can be solved")
    if any(not one.variables() <= set(names) for one in system):
        raise CodeError("the equations have variables that are not solved for")
    rows = [[*(one.coefficient(((name, 1),)) for name in names), -one.coefficient(())] for one in system]
    for column in range(len(names)):
        pivot = next((at for at in range(column, len(rows)) if rows[at][column]), None)
        if pivot is None:
            raise CodeError("the equations have no single solution")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [one / rows[column][column] for one in rows[column]]
        for at, row in enumerate(rows):
            if at != column and row[column]:
                rows[at] = [one - row[column] * own for one, own in zip(row, rows[column], strict=True)]
    if any(row[-1] for row in rows[len(names) :]):
        return {}
    return {name: rows[at][-1] for at, name in enumerate(names)}


def _times(one: Monomial, other: Monomial) -> Monomial:
    exponents = dict(one)
    for name, exponent in other:
        exponents[name] = exponents.get(name, 0) + exponent
    if sum(exponents.values()) > _MAX_DEGREE:
        raise CodeError(f"of a degree above {_MAX_DEGREE}")
    return tuple(sorted(exponents.items()))


def _made(terms: Sequence[tuple[Monomial, Fraction]]) -> Polynomial:
    sums: dict[Monomial, Fraction] = {}
    for monomial, factor in terms:
        sums[monomial] = sums.get(monomial, Fraction(0)) + factor
    kept = tuple(sorted((monomial, factor) for monomial, factor in sums.items() if factor))
    if len(kept) > _MAX_TERMS:
        raise CodeError(f"more than {_MAX_TERMS} terms")
    return Polynomial(kept)


def _polynomial(value: object) -> Polynomial:
    if isinstance(value, Polynomial):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise CodeError(f"an expression is expected, not {type(value).__name__}")
    return _made([((), Fraction(repr(value)) if isinstance(value, float) else Fraction(value))])


FUNCTIONS: Mapping[str, Function] = {
    "symbols": symbols,
    "Symbol": symbols,
    "Eq": lambda left, right=0: _polynomial(left) - right,
    "Rational": lambda one, other=1: Fraction(one) / Fraction(other),
    "str": told,
    "print": lambda *values: None,
}
"""What code of the Solver may call besides `solve` and arithmetic, by the names that sympy has for it."""

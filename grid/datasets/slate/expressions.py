"""The expressions of the stock files: how a value follows from others, from the shop and from earlier calls.

    money(quote_id.quote_total * deposit_percent / 100)
    'in time' if request_date <= days_after(order_id.delivered, return_days(sku)) else 'too late'

A name is an argument, a value or a record. A dot behind a record takes a field; behind a text it takes a field of the
record that has the text as its key. Books of the stock are functions of their keys. Nothing else is evaluated.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from grid.datasets.slate.values import Money, Value

MOST_CHARACTERS = 400
Names = Mapping[str, Any]
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _days_after(date: dt.date, days: int) -> dt.date:
    return date + dt.timedelta(days=days)


def _days_between(first: dt.date, last: dt.date) -> int:
    return (last - first).days


def _money(amount: float) -> Money:
    # Half a cent goes up, as on a bill; the small term undoes what binary fractions lose.
    return Money(math.floor(abs(amount) * 100 + 0.5 + 1e-9) / 100 * (1 if amount >= 0 else -1))


def _round(number: float) -> int:
    return math.floor(number + 0.5)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": _round,
    "ceil": math.ceil,
    "floor": math.floor,
    "money": _money,
    "days_after": _days_after,
    "days_between": _days_between,
    "text": str,
}


class ExpressionError(ValueError):
    """An expression that cannot be read or worked out; the text says where."""


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The expression's tree; raises ExpressionError where it is too long or no expression."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"{text[:60]!r}... has more than {MOST_CHARACTERS} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is no expression: {error}") from None


def evaluate(
    text: str, names: Names, record: Callable[[str], Names | None], books: Mapping[str, Callable[..., Value]]
) -> Any:
    """The value of an expression.

    Args:
        text: the expression.
        names: what its names stand for.
        record: the record that has a text as its key, if any.
        books: further functions.

    Raises:
        ExpressionError: it takes something that is not there, or another kind of value than the operation needs.
    """

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id=name):
                return _named(name, names)
            case ast.Attribute(value=of, attr=field):
                return _field(value(of), field, record)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](value(left), value(right))
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(value(part) for part in parts)
            case ast.BoolOp(values=parts):
                return any(value(part) for part in parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                return value(body) if value(test) else value(other)
            case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARED for op in ops):
                sides = [value(side) for side in (left, *rights)]
                return all(_COMPARED[type(op)](a, b) for op, a, b in zip(ops, sides, sides[1:], strict=False))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                function = FUNCTIONS.get(name) or books.get(name)
                if function is None:
                    raise ExpressionError(f"no function or book {name!r}, only {', '.join([*FUNCTIONS, *books])}")
                return function(*(value(argument) for argument in arguments))
        raise ExpressionError(f"{ast.unparse(node)!r} is not part of the language")

    try:
        return value(parse(text))
    except ExpressionError as error:
        raise ExpressionError(f"{text!r}: {error}") from None
    except (TypeError, ArithmeticError, ValueError) as error:
        raise ExpressionError(f"{text!r}: {error}") from None


def _named(name: str, names: Names) -> Any:
    if name not in names:
        raise ExpressionError(f"no name {name!r}, only {', '.join(names)}")
    return names[name]


def _field(of: Any, field: str, record: Callable[[str], Names | None]) -> Any:
    fields = of if isinstance(of, Mapping) else record(of) if isinstance(of, str) else None
    if fields is None:
        raise ExpressionError(f"{of!r} is the key of no record, so it has no {field!r}")
    if field not in fields:
        raise ExpressionError(f"no field {field!r}, only {', '.join(fields)}")
    return fields[field]

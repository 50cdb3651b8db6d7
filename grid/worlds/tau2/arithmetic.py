"""The tool `calculate`, which in the package hands the model's text to `eval`: the same results, with limits."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_ALLOWED = frozenset("0123456789+-*/(). ")
_MOST_CHARACTERS = 1_000
_MOST_EXPONENT = 64
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calculate(expression: str) -> str:
    """An expression's value with two places.

    Raises:
        ValueError: other characters than the tool takes, too many of them, or too large a power.
        SyntaxError: no expression.
        ArithmeticError: a division by zero, or too large a number.
    """
    if not all(character in _ALLOWED for character in expression):
        raise ValueError("Invalid characters in expression")
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"an expression of more than {_MOST_CHARACTERS:,} characters")
    value = _value(ast.parse(expression.strip(), "<string>", "eval").body)
    return str(round(float(value), 2))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.UnaryOp(op=op) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(node.operand))
        case ast.BinOp(op=ast.Pow()):
            return _power(_value(node.left), _value(node.right))
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(node.left), _value(node.right))
    raise ValueError("Invalid expression")


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _MOST_EXPONENT or abs(base) > 10**_MOST_EXPONENT:
        raise ValueError(f"an exponent above {_MOST_EXPONENT}, or of too large a number")
    return base**exponent

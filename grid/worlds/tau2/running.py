"""Running the package's functions on databases that are values."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from grid.core.types import RESULT, Json, Observation, to_json
from grid.core.untrusted import loads
from grid.worlds.instances import MOST_ARGUMENTS, MOST_SHOWN
from grid.worlds.schema import ERROR
from grid.worlds.tau2.package import DRAWN, Domain, as_json
from grid.worlds.tau2.state import Databases
from grid.worlds.tau2.tasks import FunctionCall


class Called(NamedTuple):
    """What a function left and returned: a JSON value, or why it failed."""

    databases: Databases
    result: Any
    failed: bool

    @property
    def observation(self) -> Observation:
        """An object's own fields, any other value as `result`; what is too long is cut, as text."""
        if self.failed:
            return failed(self.result)
        value = self.result
        if isinstance(value, str):
            with suppress(ValueError, RecursionError):
                value = loads(value)
        content: dict[str, Json] = value if isinstance(value, dict) and value else {RESULT: value}
        text = to_json(content)
        return Observation(content if len(text) <= MOST_SHOWN else {RESULT: f"{text[:MOST_SHOWN]}..."})


def run(domain: Domain, databases: Databases, call: FunctionCall, in_step: bool = True) -> Called:
    """Run a tool, or another function that a task may name; `in_step`: one database then follows the other.

    It may raise whatever it likes: the call has failed then, and what it changed before stays, as in the package.
    """
    agent = databases.agent.working(_writes(domain, call))
    user = databases.user.working(writing=True) if databases.user else None
    DRAWN.key = f"{call.name} {to_json(dict(call.arguments))}"
    try:
        kits = {"assistant": domain.tools(agent), "user": domain.user_tools(user) if domain.user_tools else None}
        result, broke = _invoked(kits[call.requestor], call.name, _arguments(call.arguments)), False
        if in_step and domain.environment:
            _keep_in_step(domain.environment, kits)
        result = as_json(result)
    except Exception as error:  # noqa: BLE001 - code of others, which may raise anything
        result, broke = str(error)[:MOST_SHOWN], True
    try:
        left = Databases(databases.agent.behind(agent), databases.user and databases.user.behind(user))
    except Exception as error:  # noqa: BLE001 - of values that no model of the package takes
        return Called(databases, f"the call left what cannot be kept: {error}"[:MOST_SHOWN], True)
    return Called(left, result, broke)


def failed(why: str) -> Observation:
    """What is observed of a call that failed."""
    return Observation({ERROR: why}, failed=True)


def _writes(domain: Domain, call: FunctionCall) -> bool:
    """Whether a function may change what tables hold: all but tools that are said to read."""
    kind = getattr(getattr(domain.kit(call.requestor), call.name, None), "__tool_type__", None)
    return getattr(kind, "value", "write") != "read"


def _invoked(kit: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    if kit is None:
        raise ValueError("User tools not available")
    return calculate(**arguments) if name == "calculate" else getattr(kit, name)(**arguments)


def _keep_in_step(environment: Any, kits: Mapping[str, Any]) -> None:
    """What the package does behind every call: telecom's devices follow the lines, and the bills the payments."""
    both = object.__new__(environment)  # its constructor would do so before the call, too
    both.tools, both.user_tools = kits["assistant"], kits["user"]
    both.sync_tools()


def _arguments(arguments: Mapping[str, Json]) -> dict[str, Any]:
    """A copy for the tool to keep; raises ValueError for too large ones."""
    if len(to_json(dict(arguments))) > MOST_ARGUMENTS:
        raise ValueError(f"the arguments have more than {MOST_ARGUMENTS:,} characters")
    return copy.deepcopy(dict(arguments))


# The tool `calculate`, which in the package hands the model's text to `eval`: the same results, with limits.


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

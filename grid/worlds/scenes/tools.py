"""GTA's fourteen tools as planners see them: published names, arguments and types, and descriptions in our own words.

Names and arguments are the same as in the authors' tool server (open-compass/GTA, `agentlego/benchmark.py` and
`agentlego/tools`); categories are the same as in their scorer (`gettype`). In GTA, a tool's result is one text or one
image. In these tools, the result has a field name, because later calls refer to the field.
"""

from __future__ import annotations

import ast
import math
import operator
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from grid.core.types import Parameter, ToolSpec
from grid.text.words import stems

PERCEPTION, OPERATION, LOGIC, CREATIVITY = "perception", "operation", "logic", "creativity"
_IMAGE = Parameter("image", "string", "the name of an image, either one in the request or one that a tool returned")
_REGION = "a region of the image, given by its corners in pixels: `(x1, y1, x2, y2)`"
_CODE = "Python code with a function `solution`"


def _text(name: str, description: str, required: bool = True) -> Parameter:
    return Parameter(name, "string", description, required)


_TOOLS = (
    ToolSpec("OCR", "Reads the words printed or written in an image, line by line.", (_IMAGE,), ("text",), PERCEPTION),
    ToolSpec("ImageDescription", "Says in one sentence what an image shows.", (_IMAGE,), ("description",), PERCEPTION),
    ToolSpec(
        "RegionAttributeDescription",
        "Describes one property of the object in a region of an image.",
        (_IMAGE, _text("bbox", _REGION), _text("attribute", "the property to describe")),
        ("description",),
        PERCEPTION,
    ),
    ToolSpec(
        "TextToBbox",
        "Finds where an object is in an image.",
        (
            _IMAGE,
            _text("text", "the object, described in English"),
            Parameter("top1", "boolean", "true (the default): only the best match; false: every match", False),
        ),
        ("bbox", "detections"),
        PERCEPTION,
    ),
    ToolSpec(
        "DrawBox",
        "Puts a frame around a region of an image.",
        (_IMAGE, _text("bbox", _REGION), _text("annotation", "a label to put next to the frame", required=False)),
        ("image",),
        OPERATION,
    ),
    ToolSpec(
        "AddText",
        "Writes words on an image.",
        (
            _IMAGE,
            _text("text", "the words to write"),
            _text(
                "position",
                "where to write them: a point `(x, y)`, or l, m or r (left, middle, right) followed by t, m or b (top, "
                "middle, bottom), such as `rt`",
            ),
            _text("color", "the color of the letters; red if omitted", required=False),
        ),
        ("image",),
        OPERATION,
    ),
    ToolSpec(
        "GoogleSearch",
        "Looks something up on the web.",
        (
            _text("query", "what to look for"),
            Parameter("k", "integer", "the maximum number of results; 10 if omitted", False),
        ),
        ("results",),
        OPERATION,
    ),
    ToolSpec(
        "Calculator",
        "Evaluates one numerical Python expression; functions from the math module may be used.",
        (_text("expression", "the expression to evaluate"),),
        ("result",),
        LOGIC,
    ),
    ToolSpec(
        "Plot",
        "Draws a chart with Python code that uses matplotlib.",
        (_text("command", f"{_CODE} that returns the figure"),),
        ("image",),
        LOGIC,
    ),
    ToolSpec(
        "MathOCR", "Reads the formulas in an image, as LaTeX.", (_IMAGE,), ("latex",), LOGIC
    ),
    ToolSpec(
        "CountGivenObject",
        "Counts the objects of one kind in an image.",
        (_IMAGE, _text("text", "the object, described in English"), _text("bbox", _REGION, required=False)),
        ("count",),
        LOGIC,
    ),
    ToolSpec(
        "Solver",
        "Finds the unknowns in equations with Python code that uses symbols, Eq and solve from sympy.",
        (_text("command", f"{_CODE} that returns the solutions as a string"),),
        ("result",),
        LOGIC,
    ),
    ToolSpec(
        "TextToImage",
        "Generates a new image from keywords.",
        (_text("keywords", "words separated by commas"),),
        ("image",),
        CREATIVITY,
    ),
    ToolSpec(
        "ImageStylization",
        "Changes how an image looks.",
        (_IMAGE, _text("instruction", "what it should look like")),
        ("image",),
        CREATIVITY,
    ),
)  # fmt: skip
TOOLS: Mapping[str, ToolSpec] = MappingProxyType({tool.name: tool for tool in _TOOLS})
"""The tools by name."""


# The web that GoogleSearch searches, which is a small set of entries, each about one thing.


class Entry(NamedTuple):
    """A web page about one named thing."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Web:
    """The pages that GoogleSearch can find. A query finds an entry if the query contains the entry's whole name.

    The entry that shares the most words with the query comes first. A query for watches in general does not find the
    watch of a certain brand, so a planner must have read the brand's name first.
    """

    entries: tuple[Entry, ...]

    @cached_property
    def _words(self) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        return {
            one.title: (frozenset(stems(one.name)), frozenset(stems(f"{one.title} {one.text}"))) for one in self.entries
        }

    def found(self, query: str, most: int) -> Sequence[Entry]:
        """The entries that a query finds, the best first, at most `most`."""
        wanted = frozenset(stems(query))
        ranked = []
        for entry in self.entries:
            name, words = self._words[entry.title]
            if name <= wanted:
                ranked.append((-len(words & wanted), entry))
        return [entry for _, entry in sorted(ranked)[:most]]


# A small part of Python, parsed with `ast` and run with limits, for the expressions and code that are given to tools.
#
# Python itself never evaluates any of the code. Code may contain numbers, texts, tuples, lists and dicts, arithmetic,
# indexing, names, and calls of the functions that a tool provides, but no loops and no other functions. Of a dotted
# name such as `math.pi`, only the last part counts.


Function = Callable[..., Any]
MAX_CHARACTERS = 4000
_MAX_NODES = 1000
_MAX_DEPTH = 50
_MAX_BITS = 1000  # maximum bits of an integer, so that a double can represent it
_MAX_TEXT = 2000  # maximum characters of a text that code builds
_MAX_ITEMS = 200  # maximum items of a list, including those in nested lists
_BINARY: dict[type[ast.operator], Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Function] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


class CodeError(ValueError):
    """Code cannot be run; the message gives the reason."""


def calculated(expression: str, functions: Mapping[str, Function], names: Mapping[str, Any]) -> Any:
    """The value of one expression; raises CodeError if it cannot be evaluated."""
    body = _parsed(expression).body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise CodeError("one expression is expected")
    return Interpreter(functions, dict(names)).value(body[0].value)


def solution(command: str, functions: Mapping[str, Function], names: Mapping[str, Any]) -> Any:
    """The result of the code's function `solution` (None if it returns nothing).

    Raises:
        CodeError: the code cannot be run, or has no such function.
    """
    body = _parsed(unfenced(command)).body
    found: list[ast.stmt] | None = None
    interpreter = Interpreter(functions, dict(names))
    for statement in body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "solution":
            found = statement.body
        else:
            interpreter.run(statement)
    if found is None:
        raise CodeError("the code has no function `solution`")
    for statement in found:
        if isinstance(statement, ast.Return):
            return None if statement.value is None else interpreter.value(statement.value)
        interpreter.run(statement)
    return None


def unfenced(command: str) -> str:
    """Code without the Markdown fence around it."""
    for fence in ("```python", "```"):
        if fence in command:
            return command.split(fence, 1)[1].split("```", 1)[0]
    return command


def _parsed(text: str) -> ast.Module:
    if len(text) > MAX_CHARACTERS:
        raise CodeError(f"more than {MAX_CHARACTERS:,} characters")
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about the code do not matter here
            tree = ast.parse(textwrap.dedent(text).strip())
        nodes = sum(1 for _ in ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"no readable Python ({type(error).__name__})") from None
    if nodes > _MAX_NODES:
        raise CodeError(f"more than {_MAX_NODES:,} parts")
    return tree


class Interpreter:
    """Runs statements one after another. `names` has the variables; a statement may add more.

    The methods raise CodeError for code that cannot be run.
    """

    def __init__(self, functions: Mapping[str, Function], names: dict[str, Any]) -> None:
        self._functions = functions
        self._names = names
        self._depth = 0

    def run(self, statement: ast.stmt) -> None:
        """Run one statement: an import (which has no effect), an assignment, or an expression."""
        match statement:
            case ast.Import() | ast.ImportFrom():
                return
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self.value(value))
            case ast.Expr(value=value):
                self.value(value)
            case _:
                raise CodeError(f"{type(statement).__name__} cannot be used here")

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                raise CodeError(f"nested more than {_MAX_DEPTH} deep")
            return checked(self._value(node))
        except CodeError:
            raise
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise CodeError(f"{type(error).__name__}: {str(error)[:200]}") from None
        except RecursionError:  # from `ast.unparse`
            raise CodeError(f"nested more than {_MAX_DEPTH} deep") from None
        finally:
            self._depth -= 1

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple | list) and len(value) == len(target.elts):
            for one, item in zip(target.elts, value, strict=True):
                self._assign(one, item)
        else:
            raise CodeError("this assignment cannot be used here")

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.Attribute(value=ast.Name(), attr=name) if name in self._names:  # such as math.pi
                return self._names[name]
            case ast.BinOp(left=left, op=kind, right=right):
                return _computed(kind, self.value(left), self.value(right))
            case ast.UnaryOp(op=kind, operand=operand) if type(kind) in _UNARY:
                return _UNARY[type(kind)](self.value(operand))
            case ast.Tuple(elts=items):
                return tuple(map(self.value, items))
            case ast.List(elts=items):
                return [self.value(item) for item in items]
            case ast.Dict(keys=keys, values=values) if all(keys):
                return {self.value(key): self.value(value) for key, value in zip(keys, values, strict=True) if key}
            case ast.Subscript(value=whole, slice=index):
                return self.value(whole)[self.value(index)]
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part)) for part in parts)
            case ast.FormattedValue(value=value):
                return self.value(value)
            case ast.Call():
                return self._called(node)
        raise CodeError(f"{ast.unparse(node)[:80]!r} cannot be used here")

    def _called(self, node: ast.Call) -> Any:
        """Call the function at the end of a dotted name: `sqrt` for `math.sqrt`, `bar` for `plt.bar` and `axes.bar`."""
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(), attr=name) if name in self._functions:
                if any(isinstance(one, ast.Starred) for one in node.args) or not all(one.arg for one in node.keywords):
                    raise CodeError("splats cannot be used here")
                given = {one.arg: self.value(one.value) for one in node.keywords if one.arg}
                return self._functions[name](*map(self.value, node.args), **given)
        raise CodeError(f"there is no function {ast.unparse(node.func)[:80]!r} here")


def _computed(kind: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str) and isinstance(kind, ast.Add):
        return left + right
    for one in (left, right):
        if isinstance(one, str | list | tuple | dict | bool | None):
            raise CodeError(f"no arithmetic on a {type(one).__name__}")
    if isinstance(kind, ast.Pow):
        return power(left, right)
    if type(kind) not in _BINARY:
        raise CodeError(f"{type(kind).__name__} cannot be used here")
    return _BINARY[type(kind)](left, right)


def power(base: Any, exponent: Any) -> Any:
    """The value of `base ** exponent`; raises CodeError if it would have too many digits."""
    if isinstance(base, int | Fraction) and isinstance(exponent, int | Fraction):
        size = max(Fraction(base).numerator.bit_length(), Fraction(base).denominator.bit_length())
        if size * abs(float(exponent)) > _MAX_BITS:
            raise CodeError("a number of too many digits")
    return base**exponent


def checked(value: Any) -> Any:
    """The same value; raises CodeError if the value is too large or is no real number."""
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise CodeError("the result is no real number")
    if isinstance(value, int | Fraction) and max(map(int.bit_length, value.as_integer_ratio())) > _MAX_BITS:
        raise CodeError("a number of too many digits")
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise CodeError("a text of too many characters")
    if isinstance(value, list | tuple | dict) and sum(1 for _ in islice(_items(value), _MAX_ITEMS + 1)) > _MAX_ITEMS:
        raise CodeError("a list of too many items")
    return value


def _items(value: Any) -> Iterator[Any]:
    for item in value.values() if isinstance(value, dict) else value:
        yield item
        if isinstance(item, list | tuple | dict):
            yield from _items(item)


def shown(value: float | Fraction) -> str:
    """A number as text, with at most twelve significant digits (19.1, not 19.099999999999998).

    A fraction is shown as 7/2, and a whole number with all its digits.
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return f"{value:.12g}"

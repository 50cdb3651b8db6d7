"""The world of a case's images, and those eight of the fourteen tools that make images, calculate or search."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from grid.core.types import Observation, ToolCall, to_json
from grid.core.world import State, own_state
from grid.worlds.scenes import scene as seeing
from grid.worlds.scenes.scene import (
    SIZE,
    CallError,
    Chart,
    Given,
    Line,
    Mark,
    Outcome,
    Scene,
    Thing,
    Written,
    same_picture,
)
from grid.worlds.scenes.tools import (
    MAX_CHARACTERS,
    CodeError,
    Function,
    Web,
    calculated,
    checked,
    power,
    shown,
    solution,
)
from grid.worlds.schema import ERROR

# Equations for the tool Solver, in exact fractions: linear systems, and single equations of the first or second degree.


Monomial: TypeAlias = tuple[tuple[str, int], ...]
"""A product of variables, as pairs of a variable's name and exponent, sorted by name. () is the constant term."""
_MAX_TERMS = 50
_MAX_DEGREE = 4
_MAX_UNKNOWNS = 10
_LONG_EXPONENT = re.compile(r"[eE][-+]?\d[\d_]{3}")


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials, each with a factor. Monomials with the factor 0 are left out."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    def __add__(self, other: object) -> Polynomial:
        return _summed([*self.terms, *_polynomial(other).terms])

    def __sub__(self, other: object) -> Polynomial:
        return self + -_polynomial(other)

    def __neg__(self) -> Polynomial:
        return _summed([(monomial, -factor) for monomial, factor in self.terms])

    def __pos__(self) -> Polynomial:
        return self

    def __mul__(self, other: object) -> Polynomial:
        products = [(_times(a, b), x * y) for a, x in self.terms for b, y in _polynomial(other).terms]
        return _summed(products)

    def __truediv__(self, other: object) -> Polynomial:
        divisor = _polynomial(other).constant()
        return _summed([(monomial, factor / divisor) for monomial, factor in self.terms])

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
        """The value of a polynomial without variables; raises CodeError if there are variables."""
        if self.variables():
            raise CodeError("a variable stands where a number is expected")
        return self.coefficient(())

    def coefficient(self, monomial: Monomial) -> Fraction:
        """The factor of a monomial."""
        return dict(self.terms).get(monomial, Fraction(0))

    def variables(self) -> frozenset[str]:
        """The names of the polynomial's variables."""
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)


Number: TypeAlias = Fraction | float


def symbols(names: str, **assumptions: bool) -> Polynomial | tuple[Polynomial, ...]:
    """One variable, or several as a tuple. The names are separated by spaces or commas.

    Raises CodeError for wrong names, and for no name or too many.
    """
    several = names.replace(",", " ").split() if isinstance(names, str) else []
    if not 0 < len(several) <= _MAX_UNKNOWNS or not all(name.isidentifier() for name in several):
        raise CodeError("symbols takes the names of one to ten variables")
    found = [_summed([(((name, 1),), Fraction(1))]) for name in several]
    return found[0] if len(found) == 1 else tuple(found)


def rational(one: Any, other: Any = 1) -> Fraction:
    """The quotient of two numbers, each of which may be a text."""
    if any(isinstance(part, str) and _LONG_EXPONENT.search(part) for part in (one, other)):
        raise CodeError("a number of too many digits")  # Fraction would first write out all of them
    return Fraction(one) / Fraction(other)


def solved(equations: Any, *unknowns: Any, **options: Any) -> Any:
    """The solutions in sympy's form.

    The result is a list of roots for one equation with one unknown, and a dict for a system and for one equation that
    is given in a list and has one root; it is an empty list if the system has no solution. With the option `dict`, it
    is a list of dicts.

    Raises:
        CodeError: something other than an expression is given, or the equations cannot be solved here.
    """
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
    return [found] if listed and found else found or []


def written(value: Any) -> str:
    """A result as a text: [3, 7/2], {x: 3, y: 4}."""
    match value:
        case dict():
            return "{" + ", ".join(f"{written(name)}: {written(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(written, value)) + "]"
        case bool() | str() | None:
            return str(value)
        case int() | float() | Fraction():
            return shown(value)
    return str(value)


def _roots(equation: Polynomial, name: str) -> list[Number]:
    """The real roots of an equation, in ascending order."""
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
    """The unique solution of a linear system, by Gauss-Jordan elimination; empty if the system has no solution.

    Raises CodeError if the system is not linear or has several solutions.
    """
    if any(len(monomial) > 1 or any(e > 1 for _, e in monomial) for one in system for monomial, _ in one.terms):
        raise CodeError("only linear systems can be solved")
    if any(not one.variables() <= set(names) for one in system):
        raise CodeError("the equations have variables that are not solved for")
    rows = [[*(one.coefficient(((name, 1),)) for name in names), -one.coefficient(())] for one in system]
    rank = 0
    for column in range(len(names)):
        pivot = next((at for at in range(rank, len(rows)) if rows[at][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        rows[rank] = [checked(one / rows[rank][column]) for one in rows[rank]]
        for at, row in enumerate(rows):
            if at != rank and row[column]:
                rows[at] = [checked(one - row[column] * own) for one, own in zip(row, rows[rank], strict=True)]
        rank += 1
    if any(row[-1] for row in rows[rank:]):
        return {}
    if rank < len(names):
        raise CodeError("the equations have no single solution")
    return {name: rows[at][-1] for at, name in enumerate(names)}


def _times(one: Monomial, other: Monomial) -> Monomial:
    exponents = dict(one)
    for name, exponent in other:
        exponents[name] = exponents.get(name, 0) + exponent
    if sum(exponents.values()) > _MAX_DEGREE:
        raise CodeError(f"of a degree above {_MAX_DEGREE}")
    return tuple(sorted(exponents.items()))


def _summed(terms: Sequence[tuple[Monomial, Fraction]]) -> Polynomial:
    sums: dict[Monomial, Fraction] = {}
    for monomial, factor in terms:
        sums[monomial] = sums.get(monomial, Fraction(0)) + factor
    kept = tuple(sorted((monomial, checked(factor)) for monomial, factor in sums.items() if factor))
    if len(kept) > _MAX_TERMS:
        raise CodeError(f"more than {_MAX_TERMS} terms")
    return Polynomial(kept)


def _polynomial(value: object) -> Polynomial:
    if isinstance(value, Polynomial):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise CodeError(f"an expression is expected, not {type(value).__name__}")
    return _summed([((), Fraction(repr(value)) if isinstance(value, float) else Fraction(value))])


FUNCTIONS: Mapping[str, Function] = {
    "symbols": symbols,
    "Symbol": symbols,
    "Eq": lambda left, right=0: _polynomial(left) - right,
    "Rational": rational,
    "str": written,
    "print": lambda *values: None,
}
"""The functions that the Solver's code may call in addition to `solve` and those in `_FUNCTIONS`, keyed by name."""


# The tools that make an image: DrawBox, AddText, ImageStylization, TextToImage and Plot.


_MOST_EDITS = 20  # maximum number of marks, of texts and of styles in one image
_MOST_POINTS = 100
_MOST_OBJECTS = 12  # maximum number of objects in a generated image


def draw_box(given: Given) -> Outcome:
    """DrawBox: the image with one more box drawn on it."""
    image = given.image()
    mark = Mark(given.box(), given.text("annotation") if given.has("annotation") else None)
    return _made(replace(image, marks=_more(image.marks, mark)))


def add_text(given: Given) -> Outcome:
    """AddText: the image with one more text."""
    image = given.image()
    color = given.text("color") if given.has("color") else None
    new = Written(given.text("text"), given.part("position", image), color)
    return _made(replace(image, written=_more(image.written, new)))


def stylize(given: Given) -> Outcome:
    """ImageStylization: the image with one more style; its objects stay where they are."""
    image = given.image()
    return _made(replace(image, styles=_more(image.styles, given.text("instruction"))))


def generate(given: Given) -> Outcome:
    """TextToImage: an image with one object for each of the first twelve keywords, side by side."""
    keywords = " ".join(given.text("keywords").split())
    names = [name.strip() for name in keywords.split(",") if name.strip()][:_MOST_OBJECTS]
    if not names:
        raise CallError("keywords: words are expected")
    width = SIZE[0] // len(names)
    things = tuple(Thing(name, (at * width, 100, (at + 1) * width, 650)) for at, name in enumerate(names))
    return _made(Scene("A generated image", things, prompt=keywords))


def plot(given: Given) -> Outcome:
    """Plot: an image of the chart that the code drew last."""
    sheet = _Sheet()
    try:
        if solution(given.text("command", MAX_CHARACTERS), sheet.functions(), {"plt": sheet}) is not sheet:
            raise CodeError("the function `solution` must return the figure")
    except CodeError as error:
        raise CallError(str(error)) from None
    if not sheet.points:
        raise CallError("nothing was drawn")
    chart = Chart(sheet.kind, sheet.title, tuple(sheet.points))
    texts = ([sheet.title] if sheet.title else []) + [f"{label} {shown(value)}" for label, value in sheet.points]
    lines = tuple(Line(text, (60, 20 + 36 * at, 500, 50 + 36 * at)) for at, text in enumerate(texts))
    return _made(Scene(f"A {sheet.kind} chart", lines=lines, chart=chart))


@dataclass
class _Sheet:
    """The object on which code draws. It stands in for the figure, its axes, and the module pyplot."""

    kind: str = ""
    title: str = ""
    points: list[tuple[str, float]] = field(default_factory=list)

    def functions(self) -> dict[str, Function]:
        """The functions that code may call, keyed by their names in matplotlib."""
        kinds = {"bar": "bar", "barh": "bar", "plot": "line", "scatter": "scatter"}
        ignored = (
            "axis", "grid", "legend", "set_xlabel", "set_ylabel", "tight_layout", "xlabel", "xticks", "ylabel", "ylim",
            "yticks",
        )  # fmt: skip
        return {
            **{name: lambda *given, _kind=kind, **options: self._draw(_kind, *given) for name, kind in kinds.items()},
            **{name: lambda *given, **options: None for name in ignored},
            "figure": lambda *given, **options: self,
            "gcf": lambda: self,
            "subplots": lambda *given, **options: (self, self),
            "pie": lambda values, labels=None, **options: self._draw(
                "pie", range(1, len(values) + 1) if labels is None else labels, values
            ),
            "title": self._name,
            "set_title": self._name,
        }

    def _name(self, title: Any, **options: Any) -> None:
        self.title = str(title)[:200]

    def _draw(self, kind: str, labels: Sequence[Any], values: Sequence[Any], *more: Any) -> None:
        if not all(isinstance(one, list | tuple | range) for one in (labels, values)) or len(labels) != len(values):
            raise CodeError("as many values as labels are expected")
        if not 0 < len(values) <= _MOST_POINTS:
            raise CodeError(f"1 to {_MOST_POINTS} values are expected")
        self.kind = kind
        self.points = [(_label(label), float(value)) for label, value in zip(labels, values, strict=True)]


def _label(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise CodeError("labels are texts or numbers")
    return value[:100] if isinstance(value, str) else to_json(value)


def _more(edits: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    if len(edits) >= _MOST_EDITS:
        raise CallError(f"the image was changed {_MOST_EDITS} times in this way: no more")
    return (*edits, new)


def _made(scene: Scene) -> Outcome:
    return Outcome({"image": scene.handle}, frozenset({scene}), scene)


# The tools that take no image: Calculator, Solver and GoogleSearch.


_MOST_RESULTS = 10
_MOST_FACTORIAL = 150
_MOST_PLACES = 15
_PLAIN = (
    "ceil", "cos", "degrees", "exp", "fabs", "floor", "hypot", "log", "log10", "log2", "radians", "sin", "sqrt", "tan",
)  # fmt: skip
_CONSTANTS: Mapping[str, Any] = {"pi": math.pi, "e": math.e}


def calculate(given: Given) -> Outcome:
    """Calculator: the value of an expression, with at most twelve significant digits."""
    try:
        value = calculated(given.text("expression", MAX_CHARACTERS), _FUNCTIONS, _CONSTANTS)
    except CodeError as error:
        raise CallError(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise CallError("the result is no number")
    return Outcome({"result": shown(value)}, frozenset({number(value)}))


def solve(given: Given) -> Outcome:
    """Solver: the code's result as a text. The call obtains every number in the solutions that the code found."""
    found: list[Any] = []

    def kept(*equations: Any, **options: Any) -> Any:
        found.append(solved(*equations, **options))
        return found[-1]

    functions = {**_FUNCTIONS, **FUNCTIONS, "solve": kept}
    try:
        value = solution(given.text("command", MAX_CHARACTERS), functions, _CONSTANTS)
        if value is None:
            raise CodeError("the function `solution` returns nothing")
        return Outcome({"result": checked(written(value))}, frozenset(map(number, _numbers(found))))
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
    """The outcome that represents a number. Numbers with the same nine significant digits are the same outcome.

    Raises CodeError if the number is too large.
    """
    try:
        return "number", f"{float(value):.9g}"
    except OverflowError:
        raise CodeError("a number of too many digits") from None


def _numbers(value: Any) -> list[float | Fraction]:
    """The numbers in solutions."""
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
"""The functions that expressions may call."""


# A case's images, and the fourteen tools that look at images, change them and calculate.


@dataclass(frozen=True)
class SceneState:
    """The images that were made, and the outcomes obtained so far.

    An image's name depends only on its content, so two states with the same names and outcomes are equal.
    """

    made: frozenset[str] = frozenset()
    obtained: frozenset[Hashable] = frozenset()
    scenes: tuple[tuple[str, Scene], ...] = field(default=(), compare=False, repr=False)


_START = SceneState()


@dataclass(frozen=True)
class SceneWorld:
    """The tools of a case, which work on images. The case is resolved when all outcomes in `wanted` have been obtained.

    A call has the effect of its tool with the given arguments, even if the reference does not make this call. The
    outcomes that a call obtains are the parts of its result that matter. For Calculator and Solver the outcomes are the
    numbers, and for GoogleSearch the entries found. For a tool that looks at an image, the outcomes are the image and
    the objects that the tool reports. For a tool that makes an image, the outcome is this image (compared by
    `same_picture`). A call that cannot be carried out, or finds nothing, fails and returns {"error": why}; only a count
    of 0 is not a failure.
    """

    images: tuple[tuple[str, Scene], ...]
    web: Web
    wanted: frozenset[Hashable]
    begin: SceneState = _START
    branches: ClassVar[bool] = True

    @cached_property
    def _images(self) -> Mapping[str, Scene]:
        return dict(self.images)

    def start(self) -> SceneState:
        """The state after the gold steps that precede the first decision.

        If there are no such steps, the state has no images and no outcomes.
        """
        return self.begin

    async def apply(self, state: State, call: ToolCall) -> tuple[SceneState, Observation]:
        """Run one call; any fault of the call is described in the observation's `error`."""
        return self.run(own_state(state, SceneState), call)

    def run(self, before: SceneState, call: ToolCall) -> tuple[SceneState, Observation]:
        """A synchronous version of `apply`."""
        try:
            outcome = self.outcome(before, call)
        except CallError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        made, scenes = before.made, before.scenes
        if outcome.made and outcome.made.handle not in made:
            made |= {outcome.made.handle}
            scenes = (*scenes, (outcome.made.handle, outcome.made))
        return SceneState(made, before.obtained | outcome.obtained, scenes), Observation(outcome.content)

    def outcome(self, state: SceneState, call: ToolCall) -> Outcome:
        """A call's outcome; raises CallError if the call fails."""
        if call.tool not in _TOOLS:
            raise CallError(f"there is no tool {call.tool[:80]!r}")
        return _TOOLS[call.tool](Given(call, {**self._images, **dict(state.scenes)}, self.web))

    def resolved(self, state: State) -> bool:
        """Whether all wanted outcomes have been obtained."""
        obtained = own_state(state, SceneState).obtained
        pictures = [one for one in obtained if isinstance(one, Scene)]
        return all(
            any(same_picture(one, other) for other in pictures) if isinstance(one, Scene) else one in obtained
            for one in self.wanted
        )

    def answer(self, state: State) -> str | None:
        """None, because outcomes are obtained but no question is answered."""
        return None


_TOOLS: Mapping[str, Callable[[Given], Outcome]] = {
    "OCR": seeing.read_text,
    "ImageDescription": seeing.describe,
    "RegionAttributeDescription": seeing.describe_region,
    "TextToBbox": seeing.find,
    "DrawBox": draw_box,
    "AddText": add_text,
    "GoogleSearch": search,
    "Calculator": calculate,
    "Plot": plot,
    "MathOCR": seeing.read_formulas,
    "CountGivenObject": seeing.count,
    "Solver": solve,
    "TextToImage": generate,
    "ImageStylization": stylize,
}

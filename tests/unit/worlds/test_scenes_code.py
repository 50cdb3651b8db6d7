"""Calculator, Solver and Plot: small Python that is read, never run."""

from __future__ import annotations

import builtins
import math
import operator
import random
import time
from fractions import Fraction

import pytest

from grid.core.types import Observation, ToolCall
from grid.worlds.scenes.scene import Chart
from grid.worlds.scenes.tools import Web
from grid.worlds.scenes.world import SceneState, SceneWorld
from tests.support.loops import each

WORLD = SceneWorld((), Web(()), frozenset())


def run(tool: str, text: str) -> tuple[SceneState, Observation]:
    name = "expression" if tool == "Calculator" else "command"
    return WORLD.run(WORLD.start(), ToolCall(tool, {name: text}))


def calculated(expression: str) -> Observation:
    return run("Calculator", expression)[1]


def solving(names: str, equations: str, unknowns: str, options: str = "") -> tuple[SceneState, Observation]:
    code = f"def solution():\n    {names} = symbols('{names}')\n    return str(solve({equations}, {unknowns}{options}))"
    return run("Solver", f"```python\nfrom sympy import symbols, Eq, solve\n{code}\n```")


def drawn(rng: random.Random, depth: int) -> tuple[str, Fraction]:
    """An expression and its value."""
    if depth == 0:
        number = rng.randint(0, 900)
        return (f"{number / 100:.2f}", Fraction(number, 100)) if rng.random() < 0.5 else (str(number), Fraction(number))
    sign, apply = rng.choice([("+", operator.add), ("-", operator.sub), ("*", operator.mul), ("/", operator.truediv)])
    (left, a), (right, b) = drawn(rng, rng.randrange(depth)), drawn(rng, rng.randrange(depth))
    if sign == "/" and not b:
        sign, apply = "+", operator.add
    return f"({left} {sign} {right})", apply(a, b)


@each("seed", range(200))
def test_calculator_is_arithmetic(seed: int) -> None:
    expression, value = drawn(random.Random(seed), 5)
    found = calculated(expression)
    assert not found.failed
    assert math.isclose(float(str(found.content["result"])), value, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("3*4.5 + 2*2.8", "19.1"), ("7 // 2 + 7 % 4", "6"), ("2**10", "1024"), ("-3", "-3"), ("math.sqrt(16)", "4"),
        ("round(2.345, 1)", "2.3"), ("max(1, 2, 3) - min([4, 5])", "-1"), ("sum([1.5, 2.5])", "4"),
        ("factorial(5)", "120"),
        ("10 / 4", "2.5"), ("abs(-2) * math.pi", "6.28318530718"), ("0.1 + 0.2", "0.3"),
    ],
)  # fmt: skip
def test_calculator_tells_numbers_shortly(expression: str, result: str) -> None:
    assert calculated(expression).content == {"result": result}


HOSTILE = [
    "", "1 +", "x", "(" * 3000, "-" * 3999 + "1", "+".join(["1"] * 1500), "1" * 4000, "9" * 100_000, "(" * 100_000,
    "9**9**9", "10**400", "2**5000 * 2", "1e308 * 10", "1 / 0", "0 * (1e200 * 1e200)", "(-8)**0.5", "math.sqrt(-1)",
    "round(5, -10**9)", "factorial(10**6)", "[0] * 10**9", "'a' * 10**9", "'a' + 'b'", "lambda: 1",
    "[x for x in (1, 2)]",
    "__import__('os').system('id')", "().__class__.__bases__[0].__subclasses__()", "open('/etc/passwd').read()",
    "exec('1')", "eval('1')", "getattr(1, 'real')", "(1).real", "max(*[1, 2])", "pow(**{'a': 1})", "1; 2", "import os",
    "print(1)", "True", "None", "'text'", "f'{1}'", "1 if 1 else 2", "1 < 2", "float('nan')", "float('inf')", "1j",
    "symbols(5)", "symbols(['x', 'y'])", "Rational('1e4000000')", "Rational(1, '1e-4_000_000')", "Rational('1e-999')",
    "not " * 450 + "1", "a" + ".b" * 450, "a" + "()" * 450,
    "int('9' * 5)", "sum([[1]])", "\x00", "1\u202e", "max()", "~1", "1 << 9999", "1 @ 2", "not 1", "...", "b'1'",
]  # fmt: skip


@each("tool", ["Calculator", "Solver", "Plot"])
@each("text", HOSTILE)
def test_what_is_no_such_code_is_an_error_soon(tool: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object, **options: object) -> None:
        raise AssertionError("nothing of a call is ever run")

    codes = [
        text,
        f"def solution():\n    return {text}",
        f"```python\ndef solution():\n    x = {text}\n    return x\n```",
    ]
    for code in codes[: 1 if tool == "Calculator" else 3]:
        began = time.process_time()
        with monkeypatch.context() as patch:
            for name in ("eval", "exec", "open"):
                patch.setattr(builtins, name, never)
            state, found = run(tool, code)
        assert time.process_time() - began < 1
        if tool != "Solver" or found.failed:  # the Solver tells whatever its code returns
            assert found.failed, found
            assert set(found.content) == {"error"}
            assert len(str(found.content["error"])) < 500
            assert state == WORLD.start()


@each("seed", range(60))
def test_solver_finds_planted_roots(seed: int) -> None:
    rng = random.Random(seed)
    one, other = (Fraction(rng.randint(-20, 20), rng.randint(1, 4)) for _ in range(2))
    a = rng.choice([-3, -1, 1, 2, 5])
    b, c = -a * (one + other), a * one * other
    written = f"{a}*x**2 + Rational({b.numerator}, {b.denominator})*x + Rational({c.numerator}, {c.denominator})"
    state, found = solving("x", f"Eq({written}, 0)", "x")
    assert found.content["result"] == f"[{', '.join(map(str, sorted({one, other})))}]"
    assert state.obtained == {("number", f"{float(root):.9g}") for root in (one, other)}


@each("seed", range(60))
def test_solver_finds_planted_solutions_of_systems(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    names, values = "abcd"[:count], [rng.randint(-9, 9) for _ in range(count)]
    while True:
        rows = [[rng.randint(-5, 5) for _ in names] for _ in names]
        if determinant(rows):
            break
    sides = [" + ".join(f"{k}*{name}" for k, name in zip(row, names, strict=True)) for row in rows]
    sums = [sum(k * value for k, value in zip(row, values, strict=True)) for row in rows]
    equations = ", ".join(f"Eq({side}, {total})" for side, total in zip(sides, sums, strict=True))
    state, found = solving(", ".join(names), f"({equations})", f"({', '.join(names)})", ", dict=True")
    told = ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    assert found.content == {"result": f"[{{{told}}}]"}
    assert state.obtained == {("number", f"{float(value):.9g}") for value in values}


def determinant(rows: list[list[int]]) -> int:
    if not rows:
        return 1
    minors = [[row[:at] + row[at + 1 :] for row in rows[1:]] for at in range(len(rows))]
    return sum((-1) ** at * rows[0][at] * determinant(minor) for at, minor in enumerate(minors))


@pytest.mark.parametrize(
    ("equations", "unknowns", "result"),
    [
        ("x**2 - 2", "x", "[-1.41421356237, 1.41421356237]"),
        ("Eq(x**2 + 1, 0)", "x", "[]"),
        ("2*x - 7", "x", "[7/2]"),
        ("(x + 1)**2", "x", "[-1]"),
        ("x/4 - 0.5", "x", "[2]"),
        ("[Eq(x, 3)]", "[x]", "{x: 3}"),
        ("x**2 - 9", "x, dict=True", "[{x: -3}, {x: 3}]"),
        ("[Eq(x, 1), Eq(x, 2)]", "x", "[]"),
        ("[Eq(x, 1), Eq(x, 2)]", "x, dict=True", "[]"),
        ("[Eq(x + y, 1), Eq(x + y, 2)]", "[x, y]", "[]"),
        ("[Eq(x + y, 1), Eq(x + y, 1), Eq(2*x + 2*y, 3)]", "x, y", "[]"),
        ("[Eq(x + y, 3), Eq(x + y, 3), Eq(x - y, 1)]", "x, y", "{x: 2, y: 1}"),
    ],
)
def test_solver_tells_solutions_as_sympy_does(equations: str, unknowns: str, result: str) -> None:
    names = "x, y" if "y" in equations else "x"
    assert solving(names, equations, unknowns)[1].content == {"result": result}


@pytest.mark.parametrize(
    ("names", "equations", "unknowns"),
    [
        ("x, y", "(Eq(x + y, 1),)", "(x, y)"), ("x, y", "(Eq(x + y, 1), Eq(2*x + 2*y, 2))", "(x, y)"),
        ("x, y", "(Eq(x*y, 1), Eq(x, 2))", "(x, y)"), ("x, y", "Eq(x + y, 1)", "x"), ("x", "x**3 - 1", "x"),
        ("x", "x**9", "x"), ("x", "x**x", "x"), ("x", "1/x", "x"), ("x", "Eq(1, 1)", "x"), ("x", "'x'", "x"),
    ],
)  # fmt: skip
def test_solver_says_what_it_cannot_do(names: str, equations: str, unknowns: str) -> None:
    assert solving(names, equations, unknowns)[1].failed


@pytest.mark.parametrize(
    "lines",
    [
        ["a = [1, 1]", *(f"a = [a, a, '{n}']" for n in range(60))],
        ["x = symbols('x')", "a = x - x + 10**200", *["a = a*a"] * 3],
        ["a = Rational(1, 10**200)", *["a = a*a"] * 3],
        ["x, y = symbols('x y')", "a = solve([x*10**200 - 1, y*10**200 - x])"],
    ],
)
def test_values_that_grow_in_themselves_end(lines: list[str]) -> None:
    code = "\n    ".join(["def solution():", *lines, "return str(a)"])
    assert run("Solver", code)[1].failed


@pytest.mark.parametrize(
    ("body", "chart"),
    [
        ("plt.bar(['a', 'b'], [1, 2.5])\n    return plt.gcf()", ("bar", (("a", 1.0), ("b", 2.5)))),
        ("f, ax = plt.subplots()\n    ax.plot([1, 2], [3, 4])\n    return f", ("line", (("1", 3.0), ("2", 4.0)))),
        ("f = plt.figure()\n    plt.pie([1, 2], labels=['x', 'y'])\n    return f", ("pie", (("x", 1.0), ("y", 2.0)))),
    ],
)
def test_plot_keeps_what_was_drawn(body: str, chart: tuple[str, tuple[tuple[str, float], ...]]) -> None:
    state, found = run("Plot", f"```python\nimport matplotlib.pyplot as plt\ndef solution():\n    {body}\n```")
    ((handle, scene),) = state.scenes
    assert found.content == {"image": handle}
    assert scene.chart == Chart(chart[0], "", chart[1])


@pytest.mark.parametrize(
    "body",
    ["return 1", "plt.bar(['a'], [1])", "return plt.figure()", "plt.bar(['a'], [1, 2])\n    return plt.gcf()",
     "plt.bar([], [])\n    return plt.gcf()", "plt.savefig('/tmp/x')\n    return plt.gcf()"],
)  # fmt: skip
def test_plot_needs_a_figure(body: str) -> None:
    assert run("Plot", f"def solution():\n    {body}")[1].failed

"""What reads a model's text takes time that grows as the text does, whatever stands in it: counted in steps."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from types import ModuleType

import pytest

import analysis
import grid
from tests.support.backtracking import Steps, codes, parser

LEFT_OUT = ("analysis.viewer.inspect_logs",)
"""It needs a package that changes others, and reads files of that package alone."""
ONCE = {"match", "fullmatch"}
BOUNDED = {"grid.text.left_calls._CLOSING.search": 400}
"""Those that are fed the end of a text only, and how many characters of it."""
SIZE, LONG = 24, 300
MOST_GROWTH = 2.5


def modules() -> Iterator[ModuleType]:
    for room in (grid, analysis):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not found.name.startswith((*LEFT_OUT, "grid.contracts")) and not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def patterns() -> dict[str, tuple[re.Pattern[str], str]]:
    """Every pattern that a module holds by a name, with how it is used there."""
    found = {}
    for module in modules():
        held = {name: one for name, one in vars(module).items() if isinstance(one, re.Pattern)}
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in held:
                how = node.attr if node.attr in ONCE else "search"
                found[f"{module.__name__}.{node.value.id}.{how}"] = held[node.value.id], how
    return found


def characters(parts: object) -> set[str]:
    """One of each kind that a pattern names."""
    found: set[str] = set()
    pending = [parts]
    while pending:
        one = pending.pop()
        if isinstance(one, tuple) and len(one) == 2 and one[0] in (codes.LITERAL, codes.NOT_LITERAL):
            found.add(chr(one[1]))
        elif isinstance(one, tuple) and len(one) == 2 and one[0] is codes.RANGE:
            found.add(chr(one[1][0]))
        elif isinstance(one, list | tuple | parser.SubPattern):
            pending += list(one)
    return found


def fed(pattern: re.Pattern[str]) -> Iterator[str]:
    """What is repeated to make it work: characters of its own, and such as many patterns have, alone and in pairs."""
    own = sorted(characters(parser.parse(pattern.pattern, pattern.flags)))
    few = random.Random(0).sample(own, min(len(own), 4))
    yield from {*few, "a", "1", " ", "\n", "."}
    yield from map("".join, permutations({*few[:1], " ", "\n"}, 2))


def steps(pattern: re.Pattern[str], how: str, text: str) -> int:
    counted = Steps(pattern)
    getattr(counted, how)(text)
    return counted.taken


def grows(pattern: re.Pattern[str], how: str) -> tuple[float, str]:
    """By how much the worst text makes it work more if it is twice as long; and what that text repeats.

    A pattern that looks ahead a bounded number of characters is seen to where the texts are longer than that.
    """

    def growth(piece: str, size: int) -> float:
        small, large = (steps(pattern, how, piece * (each // len(piece)) + "\0") for each in (size, 2 * size))
        return large / max(small, 1)

    worst = max((growth(piece, SIZE), piece) for piece in fed(pattern))
    return (growth(worst[1], LONG), worst[1]) if worst[0] > MOST_GROWTH else worst


@pytest.mark.long
def test_no_pattern_takes_the_square_of_a_text() -> None:
    found = patterns()
    assert len(found) > 170
    slow = {
        name: worst for name, one in found.items() if name not in BOUNDED and (worst := grows(*one))[0] > MOST_GROWTH
    }
    assert not slow


@pytest.mark.parametrize(
    "pattern",
    [
        r"a*b", r"(a|b)*?c", r"^\s*x", r"(?i)[^A-c]+\b", r"(\w)\1", r"(?<=a)b|(?<!b)a", r"(?>a*)ab|a*+b",
        r"a{2,3}(?!b)", r"(?s:.)*\n$", r"(?:a|ab)(?:c|bcd)?d*", r"(a(b)?)+", r"\Ba\w{1,2}?\Z",
    ],
)  # fmt: skip
def test_what_counts_finds_what_python_finds(pattern: str) -> None:
    drawn, real = random.Random(0), re.compile(pattern, re.MULTILINE)
    counted = Steps(real)
    for _ in range(150):
        text = "".join(drawn.choice("aabbcdAx \n") for _ in range(drawn.randint(0, 9)))
        for how in ("search", "match", "fullmatch"):
            found = getattr(real, how)(text)
            assert getattr(counted, how)(text) == (found and found.span()), (how, text)


def test_the_square_is_noticed() -> None:
    assert grows(re.compile(r"^\s*x", re.MULTILINE), "search")[0] > 3
    assert grows(re.compile(r"^[^\S\n]*x", re.MULTILINE), "search")[0] < MOST_GROWTH

"""Trajectories that went wrong in every way that the scorer of TRAJECT-Bench knows, made from right ones by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from grid.core.types import ToolCall


class Pair(NamedTuple):
    """A reference and what was called instead."""

    gold: list[ToolCall]
    made: list[ToolCall]


SAME: tuple[tuple[Any, ...], ...] = (
    (1, "1", "1.0", 1.0, True, "true", " True ", "yes", "YES", "on", "'yes'", "01"),
    (0, "0", False, "false", "No", "off", "OFF ", "-0.0", "0.0", "None"),
    (1000, "1000", "1e3", "1_000", 1000.0, " 1000 ", "1,000", "١٠٠٠"),
    ("Rome, IT", "Rome,IT", " Rome , it ", "Rome,Italy", "Rome,  ITALY", "rome,IT", "Roma, Italia", "Rome IT"),
    ("Munich, Germany", "Munich,DE", "Munich, Deutschland", "munich,de"),
    ("Paris, FR, Lyon, FR", "Paris,France,Lyon,France", "('Paris', 'FR')", "Paris FR, Lyon FR"),
    ("2024-01-05", "2024-1-5", "2024-01-5 ", "2024-1-05T00:00", "2024-13-05", "2024-1-5 and later", "05-01-2024"),
    ([1, "a"], "[1, 'a']", '[1,"a"]', "[1, 'a' ]", ["a", 1], "1, a", [1, ["a"]], "(1, 'a')"),
    ({"a": 1, "b": [2]}, "{'b': [2], 'a': 1}", '{"a": 1, "b": [2]}', {"a": "1", "b": [2]}, {"a": True, "b": [2]}),
    ("", "   ", None, "''", "[]", [], {}),
    ("nan", "NaN", "inf", "-inf", "1e999", "Infinity", "infinity"),
    ("two  words", "two words", " two\twords\n", "'two words'", '"two words"', "Two Words", "two,words"),
    ("x" * 9000, "x" * 8999 + "y", " " + "x" * 9000),
    (str(list(range(300))), list(range(300)), str(list(range(300))).replace(" ", "")),
    ("١٢", "12", 12, "１２", "\u00a012"),
    ("3 km", "3km", "3", 3),
    ("a,b", "a, b", ["a", "b"], "b,a", "(a,b)"),
    (-5, "-5", "- 5", "−5", "+5", 5),
    ("0x1F", 31, "31", "0b11111"),
)
"""Values that somebody might take for the same. The scorer says which are."""


def gold_of(rng: random.Random, tools: int = 6) -> list[ToolCall]:
    """A trajectory of made-up tools and values."""
    values = [row[0] for row in SAME]
    names = [f"Service {letter}: Call" for letter in "ABCDEFGH"[:tools]]
    return [
        ToolCall(rng.choice(names), {f"p{place}": rng.choice(values) for place in range(rng.randrange(4))})
        for _ in range(rng.randint(1, 5))
    ]


def mutated(gold: Sequence[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    """The trajectory with one to three things wrong, or said in another way."""
    made = list(gold)
    for _ in range(rng.randint(1, 3)):
        made = rng.choice(_WAYS)(made, rng, others)
    return made


def pairs(golds: Sequence[Sequence[ToolCall]], count: int, seed: int) -> list[Pair]:
    """So many mutations of the trajectories, these in turn."""
    rng = random.Random(seed)
    names = sorted({call.tool for gold in golds for call in gold})
    turns = (golds[index % len(golds)] for index in range(count))
    return [Pair(list(gold), mutated(gold, rng, names)) for gold in turns]


def _dropped(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    place = rng.randrange(len(made)) if made else 0
    return made[:place] + made[place + 1 :]


def _repeated(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    return [*made, rng.choice(made)] if made else made


def _reordered(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    return rng.sample(made, len(made))


def _replaced(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    place, name = rng.randrange(len(made) + 1), rng.choice(others)
    arguments = made[place].arguments if place < len(made) else {}
    return [*made[:place], ToolCall(name, arguments), *made[place + 1 :]]


def _argument_gone(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    return _changed(made, rng, lambda arguments, name: {key: arguments[key] for key in arguments if key != name})


def _argument_more(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    value = rng.choice(rng.choice(SAME))
    return _changed(made, rng, lambda arguments, name: {f"{name}_more": value} | arguments)


def _argument_said_otherwise(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    def other(arguments: dict[str, Any], name: str) -> dict[str, Any]:
        rows = [
            row for row in SAME if any(type(one) is type(arguments[name]) and one == arguments[name] for one in row)
        ]
        texts: list[Any] = [str(arguments[name]), f" {arguments[name]} ", repr(arguments[name]), f"{arguments[name]}x"]
        return arguments | {name: rng.choice([*rng.choice(rows or [()]), *texts])}

    return _changed(made, rng, other)


def _argument_other(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    value = rng.choice(rng.choice(SAME))
    return _changed(made, rng, lambda arguments, name: arguments | {name: value})


def _names_with_blanks(made: list[ToolCall], rng: random.Random, others: Sequence[str]) -> list[ToolCall]:
    return _changed(made, rng, lambda arguments, name: {f" {key} ": value for key, value in arguments.items()})


def _changed(made: list[ToolCall], rng: random.Random, change: Any) -> list[ToolCall]:
    places = [place for place, call in enumerate(made) if call.arguments]
    if not places:
        return made
    place = rng.choice(places)
    arguments = dict(made[place].arguments)
    changed = change(arguments, rng.choice(sorted(arguments)))
    return [*made[:place], ToolCall(made[place].tool, changed), *made[place + 1 :]]


_WAYS = (
    _dropped, _repeated, _reordered, _replaced, _argument_gone, _argument_more, _argument_said_otherwise,
    _argument_said_otherwise, _argument_said_otherwise, _argument_other, _names_with_blanks,
)  # fmt: skip

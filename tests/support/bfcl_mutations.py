"""Calls that went wrong in every way that BFCL's check of calls knows, made from right ones by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Call = tuple[str, dict[str, Any]]


class Judged(NamedTuple):
    """A category, functions and wanted calls as the files have them, and what was called."""

    category: str
    functions: list[dict[str, Any]]
    gold: list[dict[str, dict[str, list[Any]]]]
    made: list[Call]


STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.0, 0.5, 10**20, "", "unknown", "1", "True", "none", " . ", "a'b", 'a"B', "Ünï-Code",
    [], [[]], [1], ["a"], [1.0, "b"], [None], [{}], [{"a": 1}], {}, {"a": 1}, {"a": {"b": [1]}}, {"": ""},
)  # fmt: skip
"""Values of all types."""
_MARKS = " ,./-_*^"


def mutated(judged: Judged, rng: random.Random) -> Judged:
    """One to three things wrong, or said in another way."""
    made = [(name, dict(arguments)) for name, arguments in judged.made]
    for _ in range(rng.randint(1, 3)):
        made = rng.choice(_WAYS)(made, judged, rng)
    return judged._replace(made=made)


def mutations(right: Sequence[Judged], count: int, seed: int) -> list[Judged]:
    """So many mutations of right calls, these in turn."""
    rng = random.Random(seed)
    return [mutated(right[place % len(right)], rng) for place in range(count)]


def _dropped(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    place = rng.randrange(len(made)) if made else 0
    return made[:place] + made[place + 1 :]


def _repeated(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    return [*made, rng.choice(made)] if made else made


def _shuffled(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    return rng.sample(made, len(made))


def _other_function(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    names = [*(one["name"] for one in judged.functions), "unknown_function"]
    return _at_one(made, rng, lambda name, arguments: (rng.choice(names), arguments))


def _other_value(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    return _one_value(made, rng, lambda name, key, value: rng.choice(STRANGE))


def _accepted_value(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    """Another of the accepted values, as it is written in the file or as it is given."""
    wanted = {name: arguments for one in judged.gold for name, arguments in one.items()}

    def chosen(name: str, key: str, value: Any) -> Any:
        values = wanted.get(name, {}).get(key) or [value]
        return _given(rng.choice(values), rng)

    return _one_value(made, rng, chosen)


def _given(value: Any, rng: random.Random) -> Any:
    """An accepted value with one of each list of accepted values for an object's keys."""
    if isinstance(value, dict):
        chosen = {key: rng.choice(one) if isinstance(one, list) and one else one for key, one in value.items()}
        return {key: one for key, one in chosen.items() if one != "" or rng.random() < 0.3}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_given(item, rng) for item in value]
    return value


def _nearly(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    return _one_value(made, rng, lambda name, key, value: _like(value, rng))


def _like(value: Any, rng: random.Random) -> Any:
    """A value that is the same in some other form, or nearly the same."""
    if isinstance(value, bool):
        return rng.choice([not value, int(value), str(value)])
    if isinstance(value, int | float):
        return rng.choice([value + 1, float(value), int(value), str(value), [value], -value])
    if isinstance(value, str):
        place = rng.randint(0, len(value))
        with_mark = value[:place] + rng.choice(_MARKS) + value[place:]
        return rng.choice([with_mark, value.upper(), value.lower(), value.replace('"', "'"), value + "x", [value]])
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        other = [*value[:place], _like(value[place], rng), *value[place + 1 :]]
        return rng.choice([other, other, value[::-1], [*value, value[0]], value[:-1], [value], _by_place(value)])
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        less = {name: item for name, item in value.items() if name != key}
        return rng.choice([value | {key: _like(value[key], rng)}, less, value | {"strange": 1}, [value]])
    return rng.choice(STRANGE)


def _by_place(value: list[Any]) -> dict[str, Any]:
    return {str(place): item for place, item in enumerate(value)}


def _left_out(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    def without(name: str, arguments: dict[str, Any]) -> Call:
        key = rng.choice(sorted(arguments)) if arguments else ""
        return name, {other: value for other, value in arguments.items() if other != key}

    return _at_one(made, rng, without)


def _added(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    """An argument more: a parameter of the function that is not given, or none."""
    parameters = {one["name"]: sorted(one["parameters"]["properties"]) for one in judged.functions}
    wanted = {name: arguments for one in judged.gold for name, arguments in one.items()}

    def more(name: str, arguments: dict[str, Any]) -> Call:
        key = rng.choice([*parameters.get(name, []), "strange"])
        value = rng.choice([*STRANGE, *(_given(one, rng) for one in wanted.get(name, {}).get(key) or [])])
        return name, arguments | {key: value}

    return _at_one(made, rng, more)


def _swapped(made: list[Call], judged: Judged, rng: random.Random) -> list[Call]:
    """The value of another argument."""
    every = [value for _, arguments in made for value in arguments.values()] or [None]
    return _one_value(made, rng, lambda name, key, value: rng.choice(every))


def _at_one(made: list[Call], rng: random.Random, change: Callable[[str, dict[str, Any]], Call]) -> list[Call]:
    if not made:
        return made
    place = rng.randrange(len(made))
    return [*made[:place], change(*made[place]), *made[place + 1 :]]


def _one_value(made: list[Call], rng: random.Random, change: Callable[[str, str, Any], Any]) -> list[Call]:
    def changed(name: str, arguments: Mapping[str, Any]) -> Call:
        if not arguments:
            return name, {}
        key = rng.choice(sorted(arguments))
        return name, {**arguments, key: change(name, key, arguments[key])}

    return _at_one(made, rng, changed)


_WAYS = (
    _dropped, _repeated, _shuffled, _other_function, _other_value, _accepted_value, _accepted_value, _nearly, _nearly,
    _left_out, _added, _added, _swapped,
)  # fmt: skip

"""Random knowledge bases and random programs over them, for the benchmark and the tests of KoPL's functions."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.errors import KoplError
from grid.worlds.kopl.functions import FUNCTIONS, Function, sort_of
from grid.worlds.kopl.results import Result, is_empty
from grid.worlds.kopl.sets import Attribute, EntitySet, Fact
from grid.worlds.kopl.values import OPERATORS, Value

T = TypeVar("T")
Json = dict[str, Any]
_UNITS = ("metre", "kilogram", "1", "square kilometre")
_MOST_PAIRS = 2000  # the reference engine looks at every pair of two sets
_TRIES = 1000
_STARTS = ("FindAll", "Find")
_MIDDLES = tuple(name for name, f in FUNCTIONS.items() if f.returns in ("entities", "values") and f.results)
_ENDINGS = {"quantity": ("Num",), "time": ("Year", "Date"), "string": ("Str",)}


def random_base(seed: int, entities: int, concepts: int = 20, keys: int = 12) -> Json:
    """A base in KQA Pro's format, with all that makes KoPL's rules differ from simpler ones.

    Names that several entities share (and concepts with entities), concepts below several others, keys of mixed types
    and units, several values under one key, years below 0, relations with concepts in both directions, some twice.
    """
    rng = random.Random(seed)
    identities = [f"Q{number}" for number in range(entities)]
    classes = [f"C{number}" for number in range(concepts)]
    base: Json = {"concepts": {}, "entities": {}}
    for number, identity in enumerate(classes):
        above = rng.sample(classes[:number], min(number, rng.choice((0, 1, 1, 2))))
        base["concepts"][identity] = {"name": f"kind {number}", "subclassOf": above}
    for number, identity in enumerate(identities):
        name = f"thing {number}" if rng.random() < 0.9 else rng.choice([f"thing {number // 7}", f"kind {number % 5}"])
        base["entities"][identity] = {
            "name": name,
            "instanceOf": rng.sample(classes, rng.choice((0, 1, 1, 1, 2))),
            "attributes": [_attribute(rng, keys) for _ in range(rng.randint(1, 6))],
            "relations": [_relation(rng, keys, identities, classes) for _ in range(rng.randint(0, 4))],
        }
    for record in base["entities"].values():
        if record["relations"] and rng.random() < 0.1:
            record["relations"].append(copy.deepcopy(rng.choice(record["relations"])))
    return base


def _attribute(rng: random.Random, keys: int) -> Json:
    key = rng.randrange(keys)
    return {"key": f"key {key}", "value": _value(rng, key), "qualifiers": _qualifiers(rng)}


def _relation(rng: random.Random, keys: int, identities: Sequence[str], classes: Sequence[str]) -> Json:
    return {
        "relation": f"relation {rng.randrange(keys // 2)}",
        "direction": rng.choice(("forward", "forward", "backward")),
        "object": rng.choice(identities if rng.random() < 0.97 else classes),
        "qualifiers": _qualifiers(rng),
    }


def _qualifiers(rng: random.Random) -> Json:
    if rng.random() < 0.6:
        return {}
    keys = rng.sample(range(6), rng.choice((1, 1, 2)))
    return {f"mark {key}": [_value(rng, key) for _ in range(rng.choice((1, 1, 2)))] for key in keys}


def _value(rng: random.Random, key: int) -> Json:
    """A value of the key's own type, now and then of another."""
    kind = ("string", "quantity", "quantity", "time")[(key if rng.random() < 0.95 else rng.randrange(4)) % 4]
    if kind == "string":
        return {"type": "string", "value": f"word {rng.randrange(15)}"}
    if kind == "quantity":
        unit = _UNITS[key % 4] if rng.random() < 0.8 else rng.choice(_UNITS)
        number = rng.choice((rng.randint(-5, 60), round(rng.uniform(-5, 60), 1), f"{rng.randint(0, 9)}"))
        return {"type": "quantity", "value": number, "unit": unit}
    year = rng.choice(
        (rng.randint(1900, 2030), rng.randint(1990, 2000), rng.randint(-500, -100))
    )  # the reference dies of equal texts
    if rng.random() < 0.4 or year < 1:
        return {"type": "year", "value": year}
    return {"type": "date", "value": f"{year:04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"}


class Programs:
    """Random programs over a base, with what the base itself holds as inputs.

    Every step finds something, but for a share `wild` of the programs, whose steps may find nothing or fail.
    """

    def __init__(self, kb: KnowledgeBase, seed: int, wild: float = 0.1) -> None:
        self._kb, self._rng, self._wild = kb, random.Random(seed), wild
        self._attributes: dict[int, list[tuple[str, Attribute]]] = defaultdict(list)
        for key, index in kb.attributes.items():
            for entity, fact in zip(index.entities, index.facts, strict=True):
                self._attributes[entity].append((key, fact))
        self._relations: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for way, relation in kb.relations.items():
            for entity in relation.by_entity:
                self._relations[entity].append(way)
        facts: list[Fact] = [fact for own in self._attributes.values() for _, fact in own]
        facts += [fact for found in kb.relations.values() for fact in found.all.facts or ()]
        self._qualified = [fact for fact in facts if fact.qualifiers]

    def program(self, last: str, steps: int) -> list[Json]:
        """A program of at most so many steps that ends in a function."""
        wild = self._rng.random() < self._wild
        for _ in range(_TRIES):
            program: list[Json] = []
            results: list[Result | None] = []
            while len(program) < steps - 1:
                starts = not program or self._rng.random() < 0.15
                names = _STARTS if starts else _MIDDLES
                self._append(program, results, FUNCTIONS[self._rng.choice(names)], wild)
            for _ in range(_TRIES // 20):
                if self._append(program, results, FUNCTIONS[last], wild):
                    return _needed(program)
        raise ValueError(f"no program that ends in {last} was found")

    def _append(self, program: list[Json], results: list[Result | None], function: Function, wild: bool) -> bool:
        """Add one call, where there is something to call it with and it finds something (or may be wild)."""
        places = []
        for parameter in function.results:
            fit = [i for i, r in enumerate(results) if r is not None and sort_of(r) == function.sort(parameter)]
            if not fit:
                return False
            # The latest results are likelier, so that programs get deep.
            places.append(max(self._rng.choices(fit, k=3)))
        given = [results[place] for place in places]
        sizes = [len(one) for one in given if isinstance(one, EntitySet)]
        if len(sizes) == 2 and function.returns != "entities" and sizes[0] * sizes[1] > _MOST_PAIRS:
            return False
        inputs = self._inputs(function, given)
        try:
            result: Result | None = function.run(self._kb, *given, *inputs)
        except KoplError:
            result = None
        if (result is None or is_empty(result)) and not wild:
            return False
        program.append({"function": function.name, "inputs": inputs, "dependencies": places})
        results.append(result)
        return True

    def _inputs(self, function: Function, given: Sequence[Result | None]) -> list[str]:
        first = given[0] if given and isinstance(given[0], EntitySet) else None
        own = self._rng.choice(first.ids) if first else None
        key, fact = self._rng.choice(self._about(self._attributes, own))
        qualified: Fact = fact if fact.qualifiers else self._rng.choice(self._qualified)
        if first and first.facts and (marked := [one for one in first.facts if one.qualifiers]):
            qualified = self._rng.choice(marked)
        qkey, values = self._rng.choice(list(qualified.qualifiers.items()))
        qualifier = self._rng.choice(values)
        ending = function.name.removeprefix("Q").removeprefix("Filter").removeprefix("Verify")
        relation, direction = self._rng.choice(self._about(self._relations, own))
        op = {"SelectBetween": ("less", "greater"), "SelectAmong": ("smallest", "largest")}.get(
            function.name, OPERATORS
        )
        words: Mapping[str, str] = {
            "name": self._rng.choice(self._kb.names),
            "concept_name": self._rng.choice(self._kb.concepts),
            "key": key,
            "value": self._text(fact.value, ending),
            "qkey": qkey,
            "qvalue": self._text(qualifier, ending),
            "t_value": self._text(fact.value, ending),
            "relation": relation,
            "direction": direction,
            "op": self._rng.choice(op),
        }
        return [words[name] for name in function.texts]

    def _about(self, facts: Mapping[int, list[T]], entity: int | None) -> list[T]:
        """What an entity has of these, or some entity where it has none."""
        return facts.get(entity if entity is not None else -1) or facts[self._rng.choice(list(facts))]

    def _text(self, value: Value, ending: str) -> str:
        """A value as an input: sometimes the year of a date, sometimes with slashes."""
        if value.kind == "time" and len(value.moment) == 3 and self._rng.random() < 0.5:
            year, month, day = value.moment
            return str(year) if ending == "Year" or self._rng.random() < 0.5 else f"{year}/{month}/{day}"
        if value.kind == "quantity":  # text() may drop a fraction
            return f"{value.number}" if value.unit == "1" else f"{value.number} {value.unit}"
        return value.text()


def _needed(program: list[Json]) -> list[Json]:
    """The steps that the last one rests on, renumbered."""
    needed: set[int] = set()
    pending = [len(program) - 1]
    while pending:
        place = pending.pop()
        if place not in needed:
            needed.add(place)
            pending += program[place]["dependencies"]
    order = {place: number for number, place in enumerate(sorted(needed))}
    return [program[place] | {"dependencies": [order[i] for i in program[place]["dependencies"]]} for place in order]

"""KoPL's functions: programs per second, compared with the reference engine, and the time per item of a call."""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime as dt
import gc
import io
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from grid.worlds.kopl.functions import FUNCTIONS, Function, sort_of
from grid.worlds.kopl.functions import run as run_program
from grid.worlds.kopl.queries import Result, Values, is_empty, texts
from grid.worlds.kopl.values import OPERATORS, Attribute, EntitySet, Fact, KnowledgeBase, KoplError, Value
from grid.worlds.kopl.world import parse
from launch.benchmarks.choose import spread

Program = list[dict[str, Any]]
_SOURCE = Path("kb.json")
_SIZES = (1000, 4000, 16_000, 64_000)
_SMALL = 100  # number of items that a small call returns, whatever the size of the base


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the size of the knowledge base, and the number of programs."""
    parser.add_argument(
        "--entities", type=int, default=17_000, help="number of entities in the base (KQA Pro has 16,960)"
    )
    parser.add_argument("--concepts", type=int, default=800)
    parser.add_argument(
        "--keys", type=int, default=200, help="number of attribute keys; there are half as many relations"
    )
    parser.add_argument(
        "--programs", type=int, default=540, help="number of programs; each function is the last call of equally many"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run the two engines alternately on the same programs; then measure the time per item at growing sizes."""
    against_reference(arguments, console)
    console.print(costs(_SIZES, arguments.repeats))


def against_reference(arguments: argparse.Namespace, console: Console) -> None:
    """Print programs per second; ratios are computed within a repeat. The comparison needs the package `kopl`."""
    raw = random_base(arguments.seed, arguments.entities, arguments.concepts, arguments.keys)
    started = time.perf_counter()
    kb = parse(raw, _SOURCE)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    engine = _reference(raw)
    console.print(
        f"{len(kb.names):,} entities and concepts, read in {ours:.1f} s; the reference engine read them in "
        f"{time.perf_counter() - started:.1f} s"
    )
    made, names = Programs(kb, arguments.seed, wild=0), list(FUNCTIONS)
    programs = [made.program(names[i % len(names)], 4 + i % 11) for i in range(arguments.programs)]
    gc.collect()
    gc.freeze()  # neither engine's time may include garbage collection in the other's base
    equal = sum(_texts(run_program(kb, one)[-1]) == _their_texts(_run(engine, one)) for one in programs)
    console.print(
        f"{len(programs)} programs of {sum(map(len, programs)) / len(programs):.1f} steps on average; {equal} equal "
        "results"
    )
    table = Table(title=f"programs per second, {arguments.repeats} alternating repeats")
    for column in ("programs", "how many", "reference engine", "here", "times"):
        table.add_column(column, justify="left" if column == "programs" else "right")
    whole = [one for one in programs if any(step["function"] == "FindAll" for step in one)]
    named = [one for one in programs if one not in whole]
    for label, some in (("all", programs), ("with FindAll", whole), ("from Find alone", named)):
        theirs, mine = [], []
        for _ in range(arguments.repeats):
            theirs.append(_rate(lambda one: _run(engine, one), some))
            mine.append(_rate(lambda one: run_program(kb, one), some))
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        shown = (spread(theirs, "{:,.0f}"), spread(mine, "{:,.0f}"), spread(ratios, "{:.1f}"))
        table.add_row(label, f"{len(some)}", *shown)
    console.print(table)


def _reference(raw: Mapping[str, Any]) -> Any:
    """The reference engine; its output while it reads the base is discarded."""
    from kopl.kopl import KoPLEngine

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return KoPLEngine(copy.deepcopy(raw))


def _run(engine: Any, program: Program) -> Any:
    results: list[Any] = []
    for step in program:
        given = [results[place] for place in step["dependencies"]]
        results.append(getattr(engine, step["function"])(*given, *step["inputs"]))
    return results[-1]


def _texts(result: Result) -> list[str]:
    return sorted(texts(result) or [str(len(result)) if isinstance(result, EntitySet) else ""])


def _their_texts(result: Any) -> list[str]:
    """A result of the reference engine as texts; a set of entities is shown as its size, as in `_texts`."""
    if isinstance(result, tuple):
        return [str(len(result[0]))]
    return sorted(map(str, result)) if isinstance(result, list) else [str(result)]


def _rate(run_one: Callable[[Program], object], programs: Sequence[Program]) -> float:
    started = time.perf_counter()
    for program in programs:
        run_one(program)
    return len(programs) / (time.perf_counter() - started)


def ladder(entities: int, sizes: Sequence[int]) -> dict[str, Any]:
    """A knowledge base of numbered entities: entity i has the number, year and day i, and a link to entity i + 1.

    The last entity has a link to the first. For each size above i, entity i is in the set of that size.
    """
    concepts = {f"C{size}": {"name": f"first {size}", "subclassOf": []} for size in sizes}
    found: dict[str, Any] = {}
    for i in range(entities):
        number = {"type": "quantity", "value": i, "unit": "1"}
        below = [size for size in sizes if i < size]
        plain = [("year", {"type": "year", "value": i}), ("day", {"type": "date", "value": _day(i)})]
        plain += [("below", {"type": "string", "value": str(size)}) for size in below]
        found[f"Q{i}"] = {
            "name": f"item {i}",
            "instanceOf": [f"C{size}" for size in below],
            "attributes": [
                {"key": "number", "value": number, "qualifiers": {"mark": [number]}},
                *({"key": key, "value": value, "qualifiers": {}} for key, value in plain),
            ],
            "relations": [
                {
                    "relation": "next",
                    "direction": "forward",
                    "object": f"Q{(i + 1) % entities}",
                    "qualifiers": {"mark": [number]},
                }
            ],
        }
    return {"concepts": concepts, "entities": found}


def _day(number: int) -> str:
    return dt.date.fromordinal(366 + number).isoformat()


def calls(kb: KnowledgeBase, size: int) -> dict[str, tuple[str, Sequence[Result], Sequence[str]]]:
    """Functions with inputs for which they return or accept `size` items, keyed by their names in the table."""
    everything, some = kb.everything, kb.members[f"first {size}"]
    related = FUNCTIONS["Relate"].run(kb, some, "next", "forward")
    values = FUNCTIONS["QueryAttr"].run(kb, some, "number")
    n = str(size)
    return {
        "FilterConcept": ("FilterConcept", [everything], [f"first {size}"]),
        "FilterStr": ("FilterStr", [everything], ["below", n]),
        "FilterNum": ("FilterNum", [everything], ["number", n, "<"]),
        "FilterYear": ("FilterYear", [everything], ["year", n, "<"]),
        "FilterDate": ("FilterDate", [everything], ["day", _day(size), "<"]),
        "FilterNum of a set": ("FilterNum", [some], ["number", "-1", ">"]),
        "QFilterNum": ("QFilterNum", [related], ["mark", "-1", ">"]),
        "Relate": ("Relate", [some], ["next", "forward"]),
        "And": ("And", [some, related], []),
        "Or": ("Or", [some, related], []),
        "QueryName": ("QueryName", [some], []),
        "QueryAttr": ("QueryAttr", [some], ["number"]),
        "QueryAttrUnderCondition": ("QueryAttrUnderCondition", [some], ["number", "mark", "1"]),
        "QueryAttrQualifier": ("QueryAttrQualifier", [some], ["number", "1", "mark"]),
        "QueryRelation": ("QueryRelation", [some, related], []),
        "QueryRelationQualifier": ("QueryRelationQualifier", [some, related], ["next", "mark"]),
        "SelectAmong": ("SelectAmong", [some], ["number", "largest"]),
        "SelectBetween": ("SelectBetween", [some, some], ["number", "less"]),
        "VerifyNum": ("VerifyNum", [values], ["-1", ">"]),
    }


def costs(sizes: Sequence[int], repeats: int) -> Table:
    """Nanoseconds per item at growing sizes in one base, and microseconds per small call in growing bases.

    If larger sizes take longer per item, the processor's caches are the cause, because the number of steps is
    proportional to the number of items (tests/unit/worlds/test_kopl_costs.py counts the steps).
    """
    table = Table(
        title=f"ns per item returned (or given) in a base of {sizes[-1]:,} entities; "
        f"then µs per call with {_SMALL} items in growing bases"
    )
    table.add_column("call")
    for size in (*sizes, *sizes):
        table.add_column(f"{size:,}", justify="right")
    bases = [parse(ladder(size, (_SMALL, *sizes)), _SOURCE) for size in sizes]
    gc.collect()
    gc.freeze()
    for name in calls(bases[-1], _SMALL):
        large = [_seconds(bases[-1], calls(bases[-1], size)[name], repeats) / size * 1e9 for size in sizes]
        small = [_seconds(base, calls(base, _SMALL)[name], repeats) * 1e6 for base in bases]
        table.add_row(name, *(f"{one:,.0f}" for one in large), *(f"{one:,.1f}" for one in small))
    return table


def _seconds(kb: KnowledgeBase, call: tuple[str, Sequence[Result], Sequence[str]], repeats: int) -> float:
    """The shortest time of the repeats; each repeat has fresh inputs for which nothing is cached."""
    name, given, inputs = call
    spent = []
    for _ in range(repeats):
        fresh = [one if one is kb.everything else fresh_copy(one) for one in given]
        started = time.perf_counter()
        FUNCTIONS[name].run(kb, *fresh, *inputs)
        spent.append(time.perf_counter() - started)
    return min(spent)


def fresh_copy(result: Result) -> Result:
    """The same items in a new object that has cached nothing yet; other results than sets and values are not copied."""
    if isinstance(result, EntitySet):
        return EntitySet(list(result.ids), result.facts, result.sorted_once)
    return Values(list(result.values)) if isinstance(result, Values) else result


# Random knowledge bases and random programs over them, for the benchmark and the tests of KoPL's functions.


T = TypeVar("T")
Json = dict[str, Any]
_UNITS = ("metre", "kilogram", "1", "square kilometre")
_MOST_PAIRS = 2000  # the reference engine visits every pair of items from two sets
_TRIES = 1000
_STARTS = ("FindAll", "Find")
_MIDDLES = tuple(name for name, f in FUNCTIONS.items() if f.returns in ("entities", "values") and f.results)
_ENDINGS = {"quantity": ("Num",), "time": ("Year", "Date"), "string": ("Str",)}


def random_base(seed: int, entities: int, concepts: int = 20, keys: int = 12) -> Json:
    """A knowledge base in KQA Pro's format, with all cases in which KoPL's rules differ from simpler rules.

    Some names are shared by several entities, or by a concept and an entity. Some concepts have several parents. Some
    keys have mixed types and units, or several values. Some years are below 0. Some relations lead to or from concepts,
    and some relations occur twice.
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
    """A value, mostly of the key's own type, but sometimes of another type."""
    kind = ("string", "quantity", "quantity", "time")[(key if rng.random() < 0.95 else rng.randrange(4)) % 4]
    if kind == "string":
        return {"type": "string", "value": f"word {rng.randrange(15)}"}
    if kind == "quantity":
        unit = _UNITS[key % 4] if rng.random() < 0.8 else rng.choice(_UNITS)
        number = rng.choice((rng.randint(-5, 60), round(rng.uniform(-5, 60), 1), f"{rng.randint(0, 9)}"))
        return {"type": "quantity", "value": number, "unit": unit}
    year = rng.choice(
        (rng.randint(1900, 2030), rng.randint(1990, 2000), rng.randint(-500, -100))
    )  # the reference engine crashes on equal texts
    if rng.random() < 0.4 or year < 1:
        return {"type": "year", "value": year}
    return {"type": "date", "value": f"{year:04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"}


class Programs:
    """Random programs over a knowledge base; their inputs are values from this base.

    Every step of a program finds something, except in a fraction `wild` of the programs, whose steps may find nothing
    or fail.
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
        """A program that ends in the given function and has at most the given number of steps.

        Raises:
            ValueError: no such program was found.
        """
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
        """Add a call, if there are inputs for it and it finds something; a `wild` program's call may find nothing."""
        places = []
        for parameter in function.results:
            fit = [i for i, r in enumerate(results) if r is not None and sort_of(r) == function.sort(parameter)]
            if not fit:
                return False
            # Results of later steps are chosen more often, so that programs become deep.
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
        """The facts of an entity; if it has none, the facts of a random entity."""
        return facts.get(entity if entity is not None else -1) or facts[self._rng.choice(list(facts))]

    def _text(self, value: Value, ending: str) -> str:
        """A value as a function's input; a date is sometimes given only as its year, and sometimes with slashes."""
        if value.kind == "time" and len(value.moment) == 3 and self._rng.random() < 0.5:
            year, month, day = value.moment
            return str(year) if ending == "Year" or self._rng.random() < 0.5 else f"{year}/{month}/{day}"
        if value.kind == "quantity":  # text() may drop a fraction
            return f"{value.number}" if value.unit == "1" else f"{value.number} {value.unit}"
        return value.text()


def _needed(program: list[Json]) -> list[Json]:
    """The steps that the last step needs, renumbered."""
    needed: set[int] = set()
    pending = [len(program) - 1]
    while pending:
        place = pending.pop()
        if place not in needed:
            needed.add(place)
            pending += program[place]["dependencies"]
    order = {place: number for number, place in enumerate(sorted(needed))}
    return [program[place] | {"dependencies": [order[i] for i in program[place]["dependencies"]]} for place in order]

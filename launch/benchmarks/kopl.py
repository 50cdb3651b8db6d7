"""KoPL's functions: programs per second beside the reference engine's, and what a call costs for what it returns."""

from __future__ import annotations

import argparse
import contextlib
import copy
import datetime as dt
import gc
import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.kopl.programs import run as run_program
from grid.worlds.kopl.reading import parse
from grid.worlds.kopl.results import Result, Values, texts
from grid.worlds.kopl.sets import EntitySet
from launch.benchmarks.choose import spread
from launch.benchmarks.kopl_worlds import Programs, random_base

Program = list[dict[str, Any]]
_SOURCE = Path("kb.json")
_SIZES = (1000, 4000, 16_000, 64_000)
_SMALL = 100  # items that a call returns whatever the base's size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the base, and how many programs."""
    parser.add_argument("--entities", type=int, default=17_000, help="KQA Pro's has 16,960")
    parser.add_argument("--concepts", type=int, default=800)
    parser.add_argument("--keys", type=int, default=200, help="attribute keys; half as many relations")
    parser.add_argument("--programs", type=int, default=540, help="each function is the last of as many")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Both engines on the same programs in turn; then time per item at growing sizes."""
    against_reference(arguments, console)
    console.print(costs(_SIZES, arguments.repeats))


def against_reference(arguments: argparse.Namespace, console: Console) -> None:
    """Programs per second; ratios are taken within a repeat. Needs the package `kopl`."""
    raw = random_base(arguments.seed, arguments.entities, arguments.concepts, arguments.keys)
    started = time.perf_counter()
    kb = parse(raw, _SOURCE)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    engine = _reference(raw)
    console.print(
        f"{len(kb.names):,} entities with concepts, read in {ours:.1f} s, by the reference engine in "
        f"{time.perf_counter() - started:.1f} s"
    )
    made, names = Programs(kb, arguments.seed, wild=0), list(FUNCTIONS)
    programs = [made.program(names[i % len(names)], 4 + i % 11) for i in range(arguments.programs)]
    gc.collect()
    gc.freeze()  # neither engine is to pay for looking through the other's base
    equal = sum(_texts(run_program(kb, one)[-1]) == _their_texts(_run(engine, one)) for one in programs)
    console.print(
        f"{len(programs)} programs, {sum(map(len, programs)) / len(programs):.1f} steps; {equal} equal results"
    )
    table = Table(title=f"programs per second, {arguments.repeats} repeats in turn")
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
    """The reference engine, which prints while it reads."""
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
    """A set of entities by its size, as `_texts` has it."""
    if isinstance(result, tuple):
        return [str(len(result[0]))]
    return sorted(map(str, result)) if isinstance(result, list) else [str(result)]


def _rate(run_one: Callable[[Program], object], programs: Sequence[Program]) -> float:
    started = time.perf_counter()
    for program in programs:
        run_one(program)
    return len(programs) / (time.perf_counter() - started)


def ladder(entities: int, sizes: Sequence[int]) -> dict[str, Any]:
    """A base in which entity i has the number, year and day i, is below each larger size, and leads to i + 1."""
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
    """By what the table calls it a function with inputs such that it returns, or is given, so many items."""
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
    """Nanoseconds per item at growing sizes in one base, and microseconds of small calls in growing bases.

    That larger sizes take longer an item is the processor's caches: the steps done grow as the items do
    (tests/unit/test_kopl_costs.py counts them).
    """
    table = Table(
        title=f"ns per item returned (or given) in a base of {sizes[-1]:,}; "
        f"then us of a call of {_SMALL} items in growing bases"
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
    """The least of the repeats, each on inputs that nothing is remembered of."""
    name, given, inputs = call
    spent = []
    for _ in range(repeats):
        fresh = [one if one is kb.everything else fresh_copy(one) for one in given]
        started = time.perf_counter()
        FUNCTIONS[name].run(kb, *fresh, *inputs)
        spent.append(time.perf_counter() - started)
    return min(spent)


def fresh_copy(result: Result) -> Result:
    """The same items in an object that has worked nothing out yet."""
    if isinstance(result, EntitySet):
        return EntitySet(list(result.ids), result.facts, result.sorted_once)
    return Values(list(result.values)) if isinstance(result, Values) else result

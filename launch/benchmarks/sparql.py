"""A graph in pyoxigraph: programs per second compared with rdflib, and the costs of a large graph on disk."""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grid.core.types import Json
from grid.text.references import resolve
from grid.worlds.sparql import programs as reading
from grid.worlds.sparql.graph import Node, StoreGraph
from grid.worlds.sparql.programs import calls
from grid.worlds.sparql.queries import (
    NS,
    TYPE,
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    SparqlError,
    TimeConstraint,
    Value,
    query,
)
from grid.worlds.sparql.tools import BACKWARD, FORWARD, NAME
from grid.worlds.sparql.world import SparqlWorld
from launch.benchmarks import peak_bytes
from launch.benchmarks.choose import spread

_MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the sizes of both graphs, and the number of programs."""
    parser.add_argument(
        "--triples", type=int, default=10_000_000, help="number of triples in the graph on disk; 0: no graph on disk"
    )
    parser.add_argument(
        "--share",
        type=int,
        default=100_000,
        help="number of triples in the graph in memory; rdflib holds the same graph",
    )
    parser.add_argument(
        "--programs", type=int, default=160, help="number of programs for each graph, equally many of each form"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run the two stores alternately on the same programs; then measure the large graph on disk."""
    with tempfile.TemporaryDirectory() as scratch:
        against_rdflib(arguments, console, Path(scratch))
        if arguments.triples:
            on_disk(arguments, console, Path(scratch))


def against_rdflib(arguments: argparse.Namespace, console: Console, scratch: Path) -> None:
    """Programs per second over a graph that both stores have in memory; ratios are computed within a repeat."""
    import rdflib

    path = scratch / "share.nt"
    entities = write(path, arguments.share, arguments.seed)
    started = time.perf_counter()
    graph = StoreGraph(reading.in_memory(path)[0])
    mine = time.perf_counter() - started
    started = time.perf_counter()
    other = rdflib.Graph().parse(path, format="nt")
    theirs = time.perf_counter() - started
    console.print(
        f"in memory: {arguments.share:,} triples about {entities:,} entities, read in {mine:.1f} s; rdflib "
        f"{rdflib.__version__} read them in {theirs:.1f} s"
    )
    found = programs(graph, entities, arguments.programs, arguments.seed)
    equal = sum(set(graph.denotes(one)) == _by_rdflib(other, one) for _, one in found)
    console.print(f"{len(found)} programs with an answer; {equal} equal results")
    made = {form: [one for of, one in found if of == form] for form in FORMS}
    spent: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(arguments.repeats):
        for form, some in made.items():
            spent[form].append([_seconds(graph.denotes, some), _seconds(lambda one: _by_rdflib(other, one), some)])
    table = Table(title=f"programs per second, {arguments.repeats} alternating repeats", box=SIMPLE_HEAD)
    for column in ("programs", "how many", "rdflib", "here", "times"):
        table.add_column(column, justify="left" if column == "programs" else "right")
    every = np.array(list(spent.values()))
    counts = [len(found), *map(len, made.values())]
    for form, count, seconds in zip(["all", *made], counts, [every.sum(axis=0), *every], strict=True):
        if not count:  # no program with an answer was found
            table.add_row(form, "0")
            continue
        here, there = (count / seconds).T
        shown = (spread(list(there), "{:,.0f}"), spread(list(here), "{:,.0f}"), spread(list(here / there), "{:,.1f}"))
        table.add_row(form, f"{count}", *shown)
    console.print(table)


def _by_rdflib(graph: Any, expression: Expression) -> set[Node]:
    """The denotation of an expression, found by rdflib with the same query that would be sent to an endpoint."""
    from rdflib import URIRef

    rows = graph.query(query(expression))
    return {
        Entity(str(term).removeprefix(NS)) if isinstance(term, URIRef) else Value(str(term), str(term.datatype))
        for (term,) in rows
    }


def _seconds(one_by_one: Any, some: Sequence[Expression]) -> float:
    started = time.perf_counter()
    for expression in some:
        one_by_one(expression)
    return time.perf_counter() - started


def on_disk(arguments: argparse.Namespace, console: Console, scratch: Path) -> None:
    """Print the time and memory of loading a graph, the graph's size on disk, and the time of a world's calls."""
    path, folder = scratch / "graph.nt", scratch / "store"
    started = time.perf_counter()
    entities = write(path, arguments.triples, arguments.seed)
    console.print(
        f"on disk: {arguments.triples:,} triples about {entities:,} entities, {path.stat().st_size / _MIB:,.0f} MiB of "
        f"N-Triples, written in {time.perf_counter() - started:.0f} s"
    )
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        seconds, peak = alone.submit(_load, folder, path).result()
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    rate = arguments.triples / seconds
    console.print(
        f"loaded in {seconds:.0f} s ({rate:,.0f} triples/s), peak memory {peak / _MIB:,.0f} MiB, "
        f"{size / _MIB:,.0f} MiB on disk"
    )
    before, started = resident(), time.perf_counter()
    graph = StoreGraph(reading.opened(folder))
    opened = time.perf_counter() - started
    started = time.perf_counter()
    relations = len(graph.vocabularies["relation"])
    console.print(
        f"opened in {1000 * opened:,.0f} ms; the graph's vocabularies ({relations:,} relations, "
        f"{len(graph.vocabularies['input']):,} names and classes) were found in {time.perf_counter() - started:.1f} s"
    )
    made = [one for _, one in programs(graph, entities, arguments.programs, arguments.seed + 1)]
    spent, failed = _calls(graph, made)
    more = (resident() - before) / _MIB
    console.print(
        f"{len(made)} programs with an answer, {failed} calls failed; {more:,.0f} MiB more memory than before"
    )
    table = Table(title="ms per call to a world, including the time to write the answer's text", box=SIMPLE_HEAD)
    for column in ("call", "how many", "median", "p99", "most"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for name, values in {"all": [one for some in spent.values() for one in some], **spent}.items():
        cut = quantiles(values, n=100, method="inclusive")
        table.add_row(name, f"{len(values):,}", *(f"{1000 * one:,.2f}" for one in (cut[49], cut[98], max(values))))
    console.print(table)


def _load(folder: Path, path: Path) -> tuple[float, int]:
    """The seconds of loading, and the process's peak memory in bytes."""
    started = time.perf_counter()
    reading.on_disk(folder, path)
    return time.perf_counter() - started, peak_bytes()


def _calls(graph: StoreGraph, made: Sequence[Expression]) -> tuple[dict[str, list[float]], int]:
    """The seconds that a world takes for each call of the programs, by tool, and the number of calls that fail."""
    world = SparqlWorld(graph, ())
    found: dict[str, list[float]] = {}
    failed = 0
    for expression in made:
        state, outputs = world.start(), dict[str, dict[str, Json]]()
        for step, call in calls(expression, lambda identity: identity).items():
            asked = resolve(call, outputs)
            started = time.perf_counter()
            coroutine = world.apply(state, asked)
            try:
                coroutine.send(None)  # the coroutine never waits
            except StopIteration as done:
                state, observation = done.value
            found.setdefault(call.tool, []).append(time.perf_counter() - started)
            outputs[step] = dict(observation.content)
            failed += observation.failed
    return found, failed


# Generated graphs of any size in the form of Freebase, and questions over them.


_CLASSES = 300
_LINKS, _LINKED = 4, 5  # number of relations per class, and of links per entity that use them
_PER_ENTITY = 2 + _LINKED + 3  # number of facts per entity: name, class, links, values
_TRIES = 1_000
_SCHEMA = (NAME, TYPE)
_MOST = 1_000  # a path continues from a step with at most this many results


def write(path: Path, triples: int, seed: int) -> int:
    """Write N-Triples with the given number of facts; returns the number of entities in them.

    A few classes have most of the entities, and a few entities have most of the links. Each entity has a name, a class,
    five links that use the four relations of its class, a number, a date, and a starting year.
    """
    rng = random.Random(seed)
    entities = max(triples // _PER_ENTITY, 1)
    with path.open("w", encoding="ascii", buffering=2**20) as file:
        file.writelines(islice(_lines(rng, entities), triples))
    return entities


def _lines(rng: random.Random, entities: int) -> Iterator[str]:
    draw = rng.random
    for number in range(entities + 1):
        of = int(_CLASSES * draw() ** 2)
        domain = f"d{of % 40}.c{of}"
        subject = f"<{NS}m.{number:07x}>"
        yield f'{subject} <{NS}{NAME}> "Thing {number:x} of kind {of}"@en .\n'
        yield f"{subject} <{NS}{TYPE}> <{NS}{domain}> .\n"
        for _ in range(_LINKED):
            other = int(entities * draw() ** 3)
            yield f"{subject} <{NS}{domain}.r{int(_LINKS * draw())}> <{NS}m.{other:07x}> .\n"
        day = f"{1900 + int(120 * draw())}-{1 + int(12 * draw()):02}-{1 + int(28 * draw()):02}"
        yield f'{subject} <{NS}{domain}.size> "{int(1000 * draw())}"^^<{XSD}integer> .\n'
        yield f'{subject} <{NS}{domain}.born> "{day}"^^<{XSD}date> .\n'
        yield f'{subject} <{NS}{domain}.from> "{1950 + int(70 * draw())}"^^<{XSD}gYear> .\n'


def programs(graph: StoreGraph, entities: int, count: int, seed: int) -> list[tuple[str, Expression]]:
    """`count` questions with answers and their forms, found on random paths through a graph.

    The forms take turns. If no question of a form is found in a thousand tries, its turn is left out.
    """
    rng = random.Random(seed)
    found: list[tuple[str, Expression]] = []
    for form in islice(cycle(FORMS), count * _TRIES):
        if len(found) == count:
            break
        for _ in range(_TRIES):
            try:
                made = FORMS[form](_Way(graph, rng, entities))
            except (SparqlError, IndexError):  # the path has no such end, or too many ends
                continue
            if made is not None and graph.denotes(made):
                found.append((form, made))
                break
    return found


class _Way:
    """A random path through a graph, starting at a random entity; raises IndexError if the path cannot continue."""

    def __init__(self, graph: StoreGraph, rng: random.Random, entities: int) -> None:
        self.graph, self.rng = graph, rng
        self.start = f"m.{rng.randrange(entities):07x}"

    def joined(self, target: Expression, ids: Sequence[str]) -> Join:
        """The expression for everything reached from these entities by one of their relations, chosen at random."""
        direction = self.rng.choice((FORWARD, BACKWARD))
        properties = self.graph.properties(ids)
        links = [r for r in self.graph.relations(ids, direction) if r not in (*_SCHEMA, *properties)]
        return Join(self.rng.choice(links), target, direction == BACKWARD)

    def set(self) -> Join:
        """The expression for everything reached from the start by one of its relations, chosen at random."""
        return self.joined(Entity(self.start), [self.start])

    def ids(self, expression: Expression) -> list[str]:
        """The entities that an expression denotes; empty if there are too many, so choosing one raises IndexError."""
        found = [node.id for node in self.graph.denotes(expression) if isinstance(node, Entity)]
        return found if len(found) <= _MOST else []

    def value(self, ids: Sequence[str], ending: str) -> tuple[str, Node]:
        """A randomly chosen entity's relation whose name has this ending, and a value of this relation."""
        one = self.rng.choice(ids)
        relation = self.rng.choice([r for r in self.graph.properties([one]) if r.endswith(ending)])
        return relation, self.graph.denotes(Join(relation, Entity(one), reverse=True))[0]


def _chain(way: _Way) -> Expression:
    first = way.set()
    return way.joined(first, way.ids(first))


def _classed(way: _Way) -> Expression:
    found = way.set()
    one = way.rng.choice(way.ids(found))
    return And(Class(way.graph.types([one])[one][0]), found)


def _two(way: _Way) -> Expression:
    found = way.set()
    one = way.rng.choice(way.ids(found))
    other = way.joined(Entity(one), [one])
    return And(found, Join(other.relation, Entity(way.rng.choice(way.ids(other))), not other.reverse))


def _extreme(way: _Way) -> Expression:
    found = _classed(way)
    relation, _ = way.value(way.ids(found), way.rng.choice((".size", ".born")))
    return Arg(way.rng.choice(("ARGMAX", "ARGMIN")), found, relation)


def _compared(way: _Way) -> Expression | None:
    found = way.set()
    relation, value = way.value(way.ids(found), ".size")
    if not isinstance(value, Value):
        return None
    return And(found, Compare(way.rng.choice(("le", "ge")), relation, value))


def _timed(way: _Way) -> Expression:
    found = way.set()
    relation, _ = way.value(way.ids(found), ".from")
    return TimeConstraint(found, relation, way.rng.choice(("NOW", "1990", "2010")))


FORMS: Mapping[str, Callable[[_Way], Expression | None]] = {
    "one relation": _Way.set,
    "two relations": _chain,
    "of a class": _classed,
    "two at once": _two,
    "COUNT": lambda way: Count(_classed(way)),
    "ARGMAX, ARGMIN": _extreme,
    "compared": _compared,
    "at a time": _timed,
}
"""The functions that make a question, by the question's form; they return None if the path gives no such question."""


def resident() -> int:
    """The bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""A graph in pyoxigraph: programs per second beside rdflib, and what a large one on disk costs."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
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
from grid.worlds.sparql import reading
from grid.worlds.sparql.expressions import Entity, Expression, Value
from grid.worlds.sparql.graph import Node
from grid.worlds.sparql.programs import calls
from grid.worlds.sparql.queries import NS, query
from grid.worlds.sparql.store import StoreGraph
from grid.worlds.sparql.world import SparqlWorld
from launch.benchmarks.choose import spread
from launch.benchmarks.library import resident
from launch.benchmarks.sparql_graphs import FORMS, programs, write

_MIB = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The sizes of both graphs, and how many programs."""
    parser.add_argument("--triples", type=int, default=10_000_000, help="of the graph on disk; 0: none")
    parser.add_argument("--share", type=int, default=100_000, help="triples of the graph that rdflib holds too")
    parser.add_argument("--programs", type=int, default=160, help="over each graph, of each form as many")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Both stores on the same programs in turn; then the large graph on disk."""
    with tempfile.TemporaryDirectory() as scratch:
        against_rdflib(arguments, console, Path(scratch))
        if arguments.triples:
            on_disk(arguments, console, Path(scratch))


def against_rdflib(arguments: argparse.Namespace, console: Console, scratch: Path) -> None:
    """Programs per second over a graph that both hold in memory; ratios are taken within a repeat."""
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
        f"in memory: {arguments.share:,} triples about {entities:,} entities, read in {mine:.1f} s, by rdflib "
        f"{rdflib.__version__} in {theirs:.1f} s"
    )
    made = programs(graph, entities, arguments.programs, arguments.seed)
    equal = sum(set(graph.denotes(one)) == _by_rdflib(other, one) for one in made)
    console.print(f"{len(made)} programs with an answer; {equal} equal results")
    spent: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(arguments.repeats):
        for place, form in enumerate(FORMS):
            some = made[place :: len(FORMS)]
            spent[form].append([_seconds(graph.denotes, some), _seconds(lambda one: _by_rdflib(other, one), some)])
    table = Table(title=f"programs per second, {arguments.repeats} repeats in turn", box=SIMPLE_HEAD)
    for column in ("programs", "how many", "rdflib", "here", "times"):
        table.add_column(column, justify="left" if column == "programs" else "right")
    every = np.array(list(spent.values()))
    shares = [len(made[place :: len(FORMS)]) for place in range(len(FORMS))]
    for form, count, seconds in zip(["all", *FORMS], [len(made), *shares], [every.sum(axis=0), *every], strict=True):
        here, there = (count / seconds).T
        shown = (spread(list(there), "{:,.0f}"), spread(list(here), "{:,.0f}"), spread(list(here / there), "{:,.1f}"))
        table.add_row(form, f"{count}", *shown)
    console.print(table)


def _by_rdflib(graph: Any, expression: Expression) -> set[Node]:
    """What an expression denotes, by the same query that an endpoint is sent."""
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
    """Load, memory, size, and what a call of a world takes."""
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
        f"opened in {1000 * opened:,.0f} ms; its vocabularies ({relations:,} relations, "
        f"{len(graph.vocabularies['input']):,} names and classes) found in {time.perf_counter() - started:.1f} s"
    )
    made = programs(graph, entities, arguments.programs, arguments.seed + 1)
    spent, failed = _calls(graph, made)
    more = (resident() - before) / _MIB
    console.print(
        f"{len(made)} programs with an answer, {failed} calls failed; {more:,.0f} MiB of memory more than before"
    )
    table = Table(title="ms of a call of a world, the answer's text included", box=SIMPLE_HEAD)
    for column in ("call", "how many", "median", "p99", "most"):
        table.add_column(column, justify="left" if column == "call" else "right")
    for name, values in {"all": [one for some in spent.values() for one in some], **spent}.items():
        cut = quantiles(values, n=100, method="inclusive")
        table.add_row(name, f"{len(values):,}", *(f"{1000 * one:,.2f}" for one in (cut[49], cut[98], max(values))))
    console.print(table)


def _load(folder: Path, path: Path) -> tuple[float, int]:
    """Seconds, and the process's peak memory in bytes."""
    started = time.perf_counter()
    reading.on_disk(folder, path)
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _calls(graph: StoreGraph, made: Sequence[Expression]) -> tuple[dict[str, list[float]], int]:
    """By tool the seconds of each call of the programs, made one after another through a world; how many failed."""
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
                coroutine.send(None)  # it waits for nothing
            except StopIteration as done:
                state, observation = done.value
            found.setdefault(call.tool, []).append(time.perf_counter() - started)
            outputs[step] = dict(observation.content)
            failed += observation.failed
    return found, failed

"""How many of a query's tools retrievers find among all of a benchmark's, and what a library of 50,000 costs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from statistics import mean, median
from typing import Any, cast

from omegaconf import OmegaConf
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grid.core.problem import Dataset
from grid.core.retriever import Index, Retriever
from grid.core.types import Case, Plan, Substep, ToolSpec
from grid.datasets.slate.dataset import Slate
from grid.pools.distractors import distractors
from grid.retrievers.scored import document
from grid.settings.make import make
from launch.benchmarks.library import resident
from launch.measuring import ROOT

RETRIEVERS = ("bm25", "dense", "hybrid")
FIRST = (1, 5, 20)
_QUERIES = 50  # of the large library
_MIB = 2**20
_TRAJECT: dict[str, Any] = {"_target_": "grid.datasets.traject_bench.dataset.TrajectBench"}
_STABLE: dict[str, Any] = {"_target_": "grid.datasets.stabletoolbench.dataset.StableToolBench"}
_ULTRA: dict[str, Any] = {"_target_": "grid.datasets.ultratool.UltraTool"}
_DATA = {
    "UltraTool": ("ultratool", _ULTRA),
    "TRAJECT parallel, simple": ("traject", _TRAJECT | {"kind": "parallel", "level": "simple"}),
    "TRAJECT parallel, hard": ("traject", _TRAJECT | {"kind": "parallel", "level": "hard"}),
    "TRAJECT sequential": ("traject", _TRAJECT | {"kind": "sequential"}),
    "StableToolBench": ("stable", _STABLE),
}
"""A name for people, the flag that says where its files lie, and the dataset."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--cases", type=int, default=200, help="of each benchmark, a sample")
    parser.add_argument("--ultratool", help="UltraTool's folder")
    parser.add_argument("--traject", help="TRAJECT-Bench's folder")
    parser.add_argument("--stable", help="StableToolBench's folder")
    parser.add_argument("--tools", type=int, default=50_000, help="of the large library; 0: none")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a row a benchmark and retriever, and a line about the large library."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("queries of", "retriever", "cases", "of tools", *(f"recall at {first}" for first in FIRST)):
        table.add_column(name, justify="left" if name in ("queries of", "retriever") else "right")
    for name, (flag, config) in _DATA.items():
        path = getattr(arguments, flag)
        if path is not None:
            dataset = cast(Dataset, make("dataset", config | {"path": path, "limit": arguments.cases}))
            for retriever in RETRIEVERS:
                table.add_row(name, retriever, *_recalls(dataset, _retriever(retriever).index(dataset.tools)))
            table.add_section()
    if table.row_count:
        console.print(table)
        console.print("means over cases: the share of a query's tools that are among the first, by the query alone")
    if arguments.tools:
        console.print(_large(arguments.tools))


def _recalls(dataset: Dataset, index: Index) -> list[str]:
    found: dict[int, list[float]] = {first: [] for first in FIRST}
    for case_id in dataset.case_ids():
        problem = dataset.problem(case_id)
        right = {call.tool for call in problem.reference.calls.values() if call}
        ranked = [tool.name for tool in islice(index.nearest(problem.case.query), max(FIRST))]
        for first, shares in found.items():
            shares.append(len(right & set(ranked[:first])) / len(right))
    cases = f"{len(found[FIRST[0]]):,}"
    return [cases, f"{len(dataset.tools):,}", *(f"{mean(shares):.1%}" for shares in found.values())]


def _large(count: int) -> str:
    """What so many tools cost: real ones and, for the most part, variations of them."""
    real = Slate().tools
    tools = {tool.name: tool for tool in distractors(tuple(real.values()), None, 0, count)}
    before, began = resident(), time.perf_counter()
    index = _retriever("dense").index(tools)
    index.nearest("a tool")
    seconds, memory = time.perf_counter() - began, resident() - before
    times = sorted(_timed(index, tools))
    parts = f"{len(tools):,} tools embedded, or read where they were, in {seconds:,.0f} s, {memory / _MIB:,.0f} MiB"
    spread = f"{1000 * median(times):.1f} ms ({1000 * times[0]:.1f} to {1000 * times[-1]:.1f})"
    retriever: Any = _retriever("dense")
    embedder = retriever.embedder("retriever")
    again = time.perf_counter()
    embedder.library([document(tool) for tool in tools.values()])
    return f"{parts}; a query {spread}; read again from the cache in {time.perf_counter() - again:.2f} s"


def _timed(index: Index, tools: Mapping[str, ToolSpec]) -> Iterator[float]:
    """Seconds of queries that were not asked before: embedded, compared with all tools, the best ranked."""
    for tool in islice(tools.values(), _QUERIES):
        query = f"Please help: {tool.description[:100]}"
        began = time.perf_counter()
        index.retrieve(Case("", query, Plan(())), Substep("0", query, ""))
        yield time.perf_counter() - began


def _retriever(name: str) -> Retriever:
    return cast(Retriever, make("retriever", _config(name)))


def _config(name: str) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "retriever" / f"{name}.yaml")))

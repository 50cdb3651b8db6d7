"""What a pool of 14 to 10,014 tools costs and how hard its distractors are, without a planner (tooltree A.11)."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from grid.core.problem import Dataset, Problem
from grid.core.retriever import Index
from grid.core.types import ToolSpec
from grid.datasets.slate.dataset import Slate
from grid.datasets.ultratool import UltraTool
from grid.pools.distractors import real_tools
from grid.pools.grown import OWN, Grown
from grid.pools.tool_files import distinct
from grid.retrievers.bm25 import BM25
from grid.settings.pooled import Pooled

DISTRACTORS = (0, 10, 100, 1_000, 10_000)
_KINDS = ("real", "varied")
_MIB = 2**20


@dataclass(frozen=True)
class Decision:
    """A substep that needs a tool: the right one, what was offered, the seconds that took, and all that was ranked."""

    right: str
    offered: tuple[str, ...]
    seconds: float
    ranked: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--path", help="a folder of other benchmarks' files (pool.path)")
    parser.add_argument("--ultratool", help="UltraTool's folder: its cases instead of SLATE's")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a row a size."""
    dataset: Dataset = Slate(limit=arguments.cases)
    if arguments.ultratool:
        dataset = UltraTool(path=arguments.ultratool, limit=arguments.cases)
    began = time.perf_counter()
    real = {tool.name for tool in distinct((*dataset.tools.values(), *real_tools(arguments.path)))}
    console.print(f"{len(real):,} real tools, read in {time.perf_counter() - began:.1f} s")
    table = Table(box=SIMPLE_HEAD)
    for name in ("tools", "real", "varied", "indexed", "index s", "MiB", "pool ms", "query ms", "offered",
                 "right one", "passed", "above: real", "varied"):  # fmt: skip
        table.add_column(name, justify="right")
    for count in DISTRACTORS:
        table.add_row(*_row(Grown(distractors=count, path=arguments.path), dataset, real))
    console.print(table)
    console.print(
        "means per case: real and varied distractors, and ms to make its pool; query ms and offered a substep that "
        "needs a tool; right one: how often it is offered; passed: how often any distractor is ranked above it; above: "
        "the share of distractors that are"
    )


def _row(pool: Grown, dataset: Dataset, real: set[str]) -> list[str]:
    before, began = resident(), time.perf_counter()
    stock = pool.stock(dataset.tools)
    index = BM25(top_k=20, query_top_k=24).index(stock)
    index.nearest("a tool")  # indexes them
    indexing, memory = time.perf_counter() - began, resident() - before
    making, counts, above = list[float](), Counter[str](), {kind: list[float]() for kind in _KINDS}
    decisions, passed = list[Decision](), list[bool]()
    found, small = Pooled(dataset, pool, stock, index), Pooled(dataset, Grown(distractors=0), stock, index)
    for name in dataset.case_ids():
        began = time.perf_counter()
        problem, own = found.problem(name)
        making.append(time.perf_counter() - began)
        kinds = _kinds(small.problem(name)[0], problem, real)
        counts += Counter(kinds.values())
        for decision in _decisions(problem, own):
            decisions.append(decision)
            higher = Counter(kinds.get(tool) for tool in decision.ranked[: decision.ranked.index(decision.right)])
            passed.append(any(higher[kind] for kind in _KINDS))
            for kind, count in Counter(kinds.values()).items():
                above[kind].append(higher[kind] / count)
    cases = len(making)
    return [
        f"{OWN + pool.distractors:,}",
        *(f"{counts[kind] / cases:,.0f}" for kind in _KINDS),
        f"{len(stock):,}",
        f"{indexing:.2f}",
        f"{max(memory, 0) / _MIB:.0f}",
        f"{1000 * mean(making):.1f}",
        f"{1000 * mean(decision.seconds for decision in decisions):.1f}",
        f"{mean(len(decision.offered) for decision in decisions):.1f}",
        f"{mean(decision.right in decision.offered for decision in decisions):.1%}",
        f"{mean(passed):.1%}",
        *(f"{mean(above[kind]):.2%}" if above[kind] else "–" for kind in _KINDS),
    ]


def _kinds(small: Problem, problem: Problem, real: set[str]) -> Mapping[str, str]:
    """The distractors of a case's pool, and whether they are real."""
    return {name: "real" if name in real else "varied" for name in problem.library if name not in small.library}


def _decisions(problem: Problem, index: Index) -> Iterator[Decision]:
    whole = index.of(problem.library, at_least=len(problem.library))
    for substep in problem.case.plan.substeps:
        call = problem.reference.calls[substep.id]
        if call:
            began = time.perf_counter()
            offered = problem.candidates(problem.case, substep)
            seconds = time.perf_counter() - began
            yield Decision(call.tool, _names(offered), seconds, _names(whole.retrieve(problem.case, substep)))


def _names(tools: tuple[ToolSpec, ...]) -> tuple[str, ...]:
    return tuple(tool.name for tool in tools)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

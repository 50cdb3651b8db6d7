"""Tree search without a model, next to published agents' loops: nodes per second, the cost of a rollout, and memory."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from hydra.utils import instantiate
from rich.console import Console
from rich.table import Table

from grid import CONF
from grid.core.engine import CHOOSE, JUDGE, SAMPLE, Choice, ChoiceAnswer, Home, Prompt, Sampled, ScoreAnswer
from grid.core.types import Case, Observation, Parameter, Plan, ToolCall, ToolSpec, Usage
from grid.core.world import State, own_state
from grid.episode.episode import Episode
from grid.episode.judging import Judging
from grid.episode.progress import Budget
from grid.planners.search import TreeSearch
from launch.benchmarks import peak_bytes, public_search
from launch.benchmarks.choose import group_config, spread
from launch.readme import ROOT

REQUESTS = 200  # number of DFSDT's requests, as in ToolLLM
_TOLD = {"released": "as released", "silent": "no log"}
_SHAPE = {"branching": public_search.BRANCHING, "max_calls": public_search.DEPTH}
_ENDLESS = 2.0  # a threshold above every judge's score, so that no search ends early
_DEEP = 30  # the depth of the tree whose memory is measured
_TIMEOUT = 600  # seconds for one search of a published loop


def searches(iterations: int) -> dict[str, dict[str, Any]]:
    """The planners in `conf/planner` to time; their trees have the same shape, and their searches never end early."""
    of_each: dict[str, dict[str, Any]] = {
        "best_first": {"samples": public_search.BRANCHING, "expansions": iterations, "threshold": _ENDLESS},
        "lats": {"iterations": iterations, "success": _ENDLESS},
        "dfsdt": {"requests": REQUESTS},
        "mcts": {"rollouts": iterations},
        "tooltree": {"rollouts": iterations, "candidates": "sampled"},
    }
    there = {path.stem for path in (CONF / "planner").glob("*.yaml")}
    return {name: _SHAPE | values for name, values in of_each.items() if name in there}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the checkouts to compare with, the length of a search, and the repeats."""
    parser.add_argument("--lats", type=Path, metavar="FOLDER", help="a checkout of lapisrocks/LanguageAgentTreeSearch")
    parser.add_argument("--toolbench", type=Path, metavar="FOLDER", help="a checkout of OpenBMB/ToolBench")
    parser.add_argument("--iterations", type=int, nargs="+", default=[50], help="iterations of a search")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--nodes", type=int, help="also measure the memory of a tree with this many nodes")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Measure memory first, because a process's peak never falls; then time both sides alternately, then rollouts."""
    if arguments.nodes:
        console.print(memory(arguments.nodes))
    compare(arguments, console)
    console.print(rollouts(arguments.iterations[0], arguments.repeats))


def compare(arguments: argparse.Namespace, console: Console) -> None:
    """Compare both sides.

    On both sides, a node is an executed call; ratios of CPU time are computed within a repeat.
    """
    table = Table(
        title=f"nodes per second of CPU time, by iterations or requests: {public_search.BRANCHING} calls per node, "
        f"depth {public_search.DEPTH}, {arguments.repeats} alternating repeats"
    )
    for column in ("theirs", "nodes", "nodes/s", "here", "nodes", "nodes/s", "times"):
        table.add_column(column, justify="left" if column in ("theirs", "here") else "right")
    compared = [("LATS", "lats", arguments.lats, count) for count in arguments.iterations]
    for whose, here, folder, count in (*compared, ("DFSDT", "dfsdt", arguments.toolbench, REQUESTS)):
        if folder is None:
            continue
        own = partial(search, searcher(here, searches(count)[here]))
        own()
        for told, label in _TOLD.items():
            pairs = [(_theirs(here, folder, count, told), own(seed)[0]) for seed in range(arguments.repeats)]
            theirs, ours = ([found.nodes / found.seconds for found in side] for side in zip(*pairs, strict=True))
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            cells = (spread(theirs, "{:,.0f}"), here, f"{pairs[0][1].nodes:,}", spread(ours, "{:,.0f}"))
            table.add_row(f"{whose} {count:,}, {label}", f"{pairs[0][0].nodes:,}", *cells, spread(ratios, "{:.1f}"))
    if table.row_count:
        console.print(table)


def _theirs(loop: str, folder: Path, count: int, told: str) -> Searched:
    command = [sys.executable, "-m", "launch.benchmarks.public_search", loop, str(folder.resolve()), str(count), told]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=_TIMEOUT).stdout
    found = json.loads(said)
    return Searched(found["nodes"], count, found["seconds"])


def rollouts(iterations: int, repeats: int) -> Table:
    """The cost of a planner's rollout (or expansion, if it has no rollouts), without the cost of model and world."""
    table = Table(title=f"ms of CPU time, {repeats} alternating repeats")
    for column in ("planner", "rollouts", "nodes", "requests", "ms per rollout", "ms per node"):
        table.add_column(column, justify="left" if column == "planner" else "right")
    planners = {name: searcher(name, values) for name, values in searches(iterations).items()}
    found: dict[str, list[Searched]] = {name: [] for name in planners}
    asked = {name: len(search(planner)[1].messages) for name, planner in planners.items()}
    for seed in range(repeats):
        for name, planner in planners.items():
            found[name].append(search(planner, seed)[0])
    for name, runs in found.items():
        each, node = ([1000 * one.seconds / by for one, by in _by(runs, key)] for key in ("rollouts", "nodes"))
        counts = f"{runs[0].rollouts}", f"{runs[0].nodes}", f"{asked[name]}"
        table.add_row(name, *counts, spread(each, "{:.2f}"), spread(node, "{:.3f}"))
    return table


def _by(runs: list[Searched], key: str) -> list[tuple[Searched, int]]:
    return [(one, getattr(one, key)) for one in runs]


def memory(nodes: int) -> str:
    """A line about the memory of a tree with this many executed nodes, including all requests and answers."""
    gc.collect()
    before = peak_bytes() / 2**20
    values = searches(nodes)["lats"] | {"max_calls": _DEEP}
    found, episode = search(searcher("lats", values), steps=nodes)
    return (
        f"a tree of {found.nodes:,} executed nodes, {len(episode.messages):,} requests, {found.seconds:.0f} s of CPU "
        f"time: peak memory rose by {peak_bytes() / 2**20 - before:,.0f} MiB, from {before:,.0f} MiB"
    )


# Parts that add almost no cost: an engine that returns distinct calls and random scores, and a world that is a tree.


TOOLS = tuple(
    ToolSpec(f"tool{i}", "Looks a key up.", (Parameter("key", "string", "what"),), ("found",)) for i in range(5)
)
_UNLIMITED = 10**9
_MOST = 8  # a score of 10 would be a success and end a search; one below 5 is a failure for LATS


@dataclass(frozen=True)
class NullGuide:
    """An engine for the actor and the judge. No two calls have the same `key`; scores are from 1 to 8, out of 10."""

    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "null_guide"
    sampler: ClassVar[None] = None
    version: str = field(default="null", init=False)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` distinct calls that cycle through the tools; if a score is asked for, the same score `n` times."""
        if isinstance(prompt.answer, ScoreAnswer):
            texts = (f'{{"score": {seed % _MOST + 1}, "explanation": "drawn"}}',) * n
        else:
            key = seed & 0xFFFFFF
            texts = tuple(
                f'{{"thought": "a key", "tool": "tool{i % len(TOOLS)}", "arguments": {{"key": "{key}-{i}"}}}}'
                for i in range(n)
            )
        return Sampled(texts, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The same probability for every option."""
        options = len(cast(ChoiceAnswer, prompt.answer).options)
        return Choice((1 / options,) * options, Usage(forward_passes=1))


@dataclass(frozen=True)
class NullTree:
    """A world in which every call leads to a new state."""

    branches: ClassVar[bool] = True

    def start(self) -> State:
        """The root."""
        return 0

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """The state one level below the given state."""
        return zlib.crc32(call.text().encode(), own_state(state, int)), Observation({"found": "a value"})

    def resolved(self, state: State) -> bool:
        """False, so that the search always continues."""
        return False

    def answer(self, state: State) -> str | None:
        """None: the world has no answer."""
        return None


class Searched(NamedTuple):
    """The figures of one search: executed calls, iterations, CPU seconds."""

    nodes: int
    rollouts: int
    seconds: float


def searcher(name: str, values: dict[str, Any]) -> TreeSearch:
    """The planner in `conf/planner/<name>.yaml`, with some values replaced."""
    return cast(TreeSearch, instantiate(group_config("planner", name) | values))


def search(planner: TreeSearch, seed: int = 0, steps: int = _UNLIMITED) -> tuple[Searched, Episode]:
    """Run one search of one case, in this process and without Ray, with at most `steps` executed calls.

    Returns the figures and the episode.
    """
    engine, budget = NullGuide(), Budget(llm_calls=_UNLIMITED, steps=steps)
    episode = Episode(
        *(Case("null", "A question.", Plan(())), NullTree(), engine, lambda case, substep: TOOLS, budget, seed),
        roles={JUDGE: engine},
        judging=Judging(),
    )

    async def solve() -> float:
        started = time.process_time()
        await planner.solve(episode)
        return time.process_time() - started

    gc.collect()
    gc.freeze()  # neither side's time may include garbage collection of the imports
    spent = asyncio.run(solve())
    gc.unfreeze()
    visited = episode.nodes[0].visits_below
    expanded = sum(1 for node in episode.nodes if node.children)
    return Searched(episode.tool_calls, visited or expanded, spent), episode

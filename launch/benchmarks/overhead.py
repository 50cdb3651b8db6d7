"""The grid without a model: episodes per second with the null engine, time by layer, and two checkouts compared."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table

from grid import store
from grid.cells.rows import Outcome
from grid.cells.run import Stamp, run_cell
from grid.cluster import batch
from grid.cluster import connection as ray_cluster
from grid.cluster.fleet import Fleet
from grid.core.problem import Problem
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig, ClusterConfig
from grid.settings.plan import Plan
from grid.settings.setting import Cell, Setting, cells
from launch.readme import commit_of

T = TypeVar("T")
REPEATS = 5
TRIALS = 20
CASES = 50
BUDGET = BudgetConfig()


def null_setting() -> Setting:
    """ReAct on SLATE with the null engine: all parts of the grid except a model."""
    config = {
        "model": {"_target_": "grid.engines.null.Null"},
        "planner": {"_target_": "grid.planners.react.ReAct"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": CASES},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.scored.BM25"},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }
    labels = {
        "model": "null_engine",
        "planner": "react",
        "dataset": "slate",
        "robustness": "none",
        "retriever": "bm25",
        "pool": "all",
    }
    return Setting(config, labels, seed=0)


class Clock:
    """Adds up the time of named layers. The time of an inner layer is not counted for the outer layer."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._open: list[tuple[str, float]] = []

    def enter(self, layer: str) -> None:
        """Pause the current layer and start a new one."""
        now = time.perf_counter()
        if self._open:
            outer, since = self._open[-1]
            self.spent[outer] += now - since
        self._open.append((layer, now))

    def leave(self) -> None:
        """End the current layer and continue with the outer one."""
        now = time.perf_counter()
        layer, since = self._open.pop()
        self.spent[layer] += now - since
        if self._open:
            self._open[-1] = (self._open[-1][0], now)

    def timed(self, layer: str, function: Callable[..., T]) -> Callable[..., T]:
        """The function, wrapped so that its time counts for a layer."""

        def wrapper(*args: Any, **kwargs: Any) -> T:
            self.enter(layer)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return wrapper


class Proxy:
    """A wrapper that measures the time of some of an object's methods, plain or async."""

    def __init__(self, inner: Any, clock: Clock, layer: str, *methods: str) -> None:
        self._inner, self._clock, self._layer, self._methods = inner, clock, layer, methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in self._methods:
            return value
        if not asyncio.iscoroutinefunction(value):
            return self._clock.timed(self._layer, value)

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            self._clock.enter(self._layer)
            try:
                return await value(*args, **kwargs)
            finally:
                self._clock.leave()

        return wrapper


@dataclass(frozen=True)
class TimedBuilt(Built):
    """A built setting whose parts are timed. Cells run one after another, so that inner layers end first."""

    clock: Clock = field(default_factory=Clock)

    def problem(self, case_id: str, disturbance_seed: int) -> Problem:
        """The problem, with its world and retriever timed."""
        problem = self.clock.timed("case and world set-up", super().problem)(case_id, disturbance_seed)
        world: Any = Proxy(problem.world, self.clock, "world", "start", "apply", "resolved")
        candidates = self.clock.timed("retriever", problem.candidates)
        return replace(problem, world=world, candidates=candidates)


def timed(built: Built, clock: Clock) -> TimedBuilt:
    """The same setting, with timed parts."""
    parts: dict[str, Any] = {part.name: getattr(built, part.name) for part in fields(built)}
    parts["engine"] = Proxy(built.engine, clock, "engine", "sample", "choose")
    parts["planner"] = Proxy(built.planner, clock, "planner and prompts", "solve")
    return TimedBuilt(**parts, clock=clock)


def layers(setting: Setting, chunk: Sequence[Cell], root: Path) -> dict[str, float]:
    """The seconds of each layer for a chunk that runs in this process; writing Parquet is included."""
    clock = Clock()
    built = timed(build(setting, BUDGET), clock)
    stamp = Stamp("bench", None)

    async def run() -> list[Outcome]:
        return [await run_cell(built, setting, cell, stamp, "bench") for cell in chunk]

    clock.enter("scoring and rows")
    outcomes = asyncio.run(run())
    clock.leave()
    rows = {"episodes": [one.episode for one in outcomes]}
    rows |= {table: [row for one in outcomes for row in one.rows[table]] for table in outcomes[0].rows}
    clock.timed("Parquet", store.write)(root, rows)
    return dict(clock.spent)


def through_ray(setting: Setting, cluster: ClusterConfig, root: Path, seed: int) -> float:
    """The episodes per second of a sweep of CASES x TRIALS cells through Ray and Parquet. Needs a connection to Ray.

    Raises:
        RuntimeError: cells have no rows, or failed.
    """
    plan = plan_of(replace(setting, seed=seed), cluster, root)
    finished: list[batch.Report] = []
    started = time.perf_counter()
    with Fleet(plan.settings, cluster.replicas, cluster.ready_seconds, print) as fleet:
        batch.Run(plan, plan.finished(), finished.append, fleet).go()
    seconds = time.perf_counter() - started
    rows = int(store.read(root, "episodes", ["status"]).num_rows)
    if rows != plan.total() or any(report.error or report.failed for report in finished):
        raise RuntimeError(f"{rows} of {plan.total()} cells were written, and some may have failed")
    return rows / seconds


def plan_of(setting: Setting, cluster: ClusterConfig, root: Path) -> Plan:
    """A plan for one setting, with no cell done yet."""
    dataset = build(setting, BUDGET).dataset
    return Plan(
        name="bench",
        root=root,
        settings=[setting],
        case_ids={setting.id: dataset.case_ids()},
        dataset_versions={setting.id: dataset.version},
        trials=TRIALS,
        budget=BUDGET,
        cluster=cluster,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the checkout to compare with, and the size of the comparison."""
    parser.add_argument(
        "--against", type=Path, help="another checkout, which is measured alternately with this one and compared"
    )
    parser.add_argument("--rounds", type=int, default=6, help="rounds of --against")
    parser.add_argument(
        "--trials", type=int, default=TRIALS, help=f"with --against: number of trials of each case; default: {TRIALS}"
    )


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run the null engine: episodes per second through Ray and Parquet, and the time by layer.

    With `--against`, only compare the two checkouts.
    """
    if arguments.against:
        compare(arguments.against, arguments.rounds, arguments.trials, console)
        return
    setting, cluster = null_setting(), ClusterConfig(kind="local", dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        ray_cluster.connect(cluster)
        try:
            warm_up = through_ray(setting, cluster, Path(folder) / "warm", seed=0)
            rates = [through_ray(setting, cluster, Path(folder) / str(n), seed=n) for n in range(1, REPEATS + 1)]
            cpus = ray_cluster.cpus()
        finally:
            ray_cluster.disconnect()
        dataset = build(setting, BUDGET).dataset
        chunk = list(cells(setting, dataset.version, dataset.case_ids(), TRIALS))
        layers(setting, chunk[:CASES], Path(folder) / "cold")
        runs = [layers(setting, chunk, Path(folder) / f"layers-{n}") for n in range(REPEATS)]
    median = statistics.median(rates)
    console.print(
        f"null engine, ReAct on {CASES} SLATE cases x {TRIALS} trials, {cpus} CPUs, {REPEATS} runs: "
        f"{median:,.0f} episodes/s through Ray and Parquet "
        f"(lowest {min(rates):,.0f}, highest {max(rates):,.0f}; first run, with cold caches, {warm_up:,.0f})"
    )
    table = Table(title="time per episode in one process, by layer")
    for column in ("layer", "ms per episode", "lowest to highest", "share"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    sums = [sum(run.values()) for run in runs]
    medians = {layer: statistics.median(run[layer] for run in runs) for layer in runs[0]}
    for layer, seconds in sorted(medians.items(), key=lambda item: -item[1]):
        each = [1000 * run[layer] / len(chunk) for run in runs]
        share = statistics.median(run[layer] / total for run, total in zip(runs, sums, strict=True))
        table.add_row(
            layer, f"{1000 * seconds / len(chunk):.3f}", f"{min(each):.3f} to {max(each):.3f}", f"{100 * share:.1f}%"
        )
    table.add_row("all", f"{1000 * statistics.median(sums) / len(chunk):.3f}", "", "100.0%")
    console.print(table)
    alone = len(chunk) / statistics.median(sums)
    console.print(
        f"one process alone: {alone:,.0f} episodes/s; {cpus} workers through Ray reach {median / alone:.2f} times this "
        f"rate ({min(rates) / alone:.2f} to {max(rates) / alone:.2f})"
    )


# Comparing two checkouts, which run the null engine alternately, each with its own code and in its own processes.


HERE = Path(__file__).parents[2]
# The probe only uses names that both checkouts' benchmarks have. The probe measures the CPU seconds of a chunk that
# runs in one process without Ray, and the episodes per second of a sweep through Ray.
_PROBE = """
import json, sys, tempfile, time
from pathlib import Path
from launch.benchmarks import overhead

overhead.TRIALS = int(sys.argv[2])
setting, cluster = overhead.null_setting(), overhead.ClusterConfig(kind="local", dashboard=False)
built = overhead.build(setting, overhead.BUDGET)
chunk = list(overhead.cells(setting, built.dataset.version, built.dataset.case_ids(), overhead.TRIALS))
with tempfile.TemporaryDirectory() as folder:
    spent = []
    for number in range(4):
        started = time.process_time()
        overhead.layers(setting, chunk, Path(folder) / f"alone-{number}")
        spent.append((time.process_time() - started) / len(chunk))
    overhead.ray_cluster.connect(cluster)
    try:
        rates = [overhead.through_ray(setting, cluster, Path(folder) / str(seed), seed) for seed in range(3)]
    finally:
        overhead.ray_cluster.disconnect()
Path(sys.argv[1]).write_text(json.dumps({"rate": max(rates[1:]), "cpu": min(spent[1:])}))
"""


def compare(other: Path, rounds: int, trials: int, console: Console) -> None:
    """Run both checkouts in turn, `rounds` times, alternating which is first; print the ratios' median and spread.

    `trials`: the number of trials of each of the `overhead.CASES` cases.
    """
    folders = {"there": other.resolve(), "here": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
    for number in range(rounds):
        for name in list(folders) if number % 2 else reversed(folders):
            found[name].append(_measured(folders[name], trials))
    console.print(table("null engine, ReAct on SLATE", other, found, _FIGURES))


class Figure(NamedTuple):
    """A row of a comparison: its title, its key in a round's results, and the factor that multiplies its values.

    `more_is_better`: whether the checkout with the larger value is the better one.
    """

    name: str
    key: str
    unit: float = 1.0
    more_is_better: bool = False


_FIGURES = (
    Figure("episodes/s through Ray and Parquet", "rate", more_is_better=True),
    Figure("CPU ms per cell", "cpu", 1000.0),
)


def table(
    title: str, other: Path, found: Mapping[str, Sequence[Mapping[str, float]]], figures: Sequence[Figure]
) -> Table:
    """A table of both checkouts' medians over rounds, and of the rounds' ratios (above 1: this checkout is better)."""
    ours, theirs = (commit_of(folder) for folder in (HERE, other))
    rounds = len(found["here"])
    made = Table(
        title=f"{title}, {rounds} alternating rounds; here: this checkout ({ours}); "
        f"there: the other checkout ({theirs})"
    )
    for column in ("figure", "there", "here", "ratio of each round: median", "lowest to highest"):
        made.add_column(column, justify="left" if column == "figure" else "right")
    for figure in figures:
        there, here = ([figure.unit * one[figure.key] for one in found[name]] for name in ("there", "here"))
        ratios = [b / a if figure.more_is_better else a / b for a, b in zip(there, here, strict=True)]
        made.add_row(figure.name, *map(_median, (there, here, ratios)), f"{min(ratios):.2f} to {max(ratios):.2f}")
    return made


def _measured(folder: Path, trials: int) -> dict[str, float]:
    """The results of one process that runs the folder's own code."""
    result = Path(os.environ.get("TMPDIR", "/tmp")) / f"overhead-{os.getpid()}.json"  # noqa: S108
    environment = os.environ | {"PYTHONPATH": str(folder), "RAY_ADDRESS": ""}
    command: Sequence[Any] = [sys.executable, "-c", _PROBE, result, str(trials)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{folder}: {done.stderr[-2000:]}")
    told: dict[str, float] = json.loads(result.read_text())
    result.unlink()
    return told


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.2f}"

"""Two checkouts side by side: each runs the null engine with its own code, in turn, in processes of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from launch.commits import commit_of

HERE = Path(__file__).parents[2]
# What both checkouts' benchmark has, wherever its parts lie. CPU seconds: a chunk in one process, no Ray.
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


def run(other: Path, rounds: int, trials: int, console: Console) -> None:
    """`rounds` times each in turn, the first of a round by turns; the ratio of each round, its median and spread.

    `trials`: of each of `overhead.CASES` cases.
    """
    folders = {"there": other.resolve(), "here": HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
    for number in range(rounds):
        for name in list(folders) if number % 2 else reversed(folders):
            found[name].append(_measured(folders[name], trials))
    console.print(table("null engine, ReAct on SLATE", other, found, _FIGURES))


class Figure(NamedTuple):
    """A row of a comparison: what it is called, where a round has it, and by what it is multiplied to be shown."""

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
    """Medians of the rounds `there` and `here`, and the ratio of each round: above 1 is better here."""
    ours, theirs = (commit_of(folder) for folder in (HERE, other))
    rounds = len(found["here"])
    made = Table(title=f"{title}: {ours} here, {theirs} there, {rounds} rounds in turn")
    for column in ("figure", "there", "here", "ratio of each round: median", "lowest to highest"):
        made.add_column(column, justify="left" if column == "figure" else "right")
    for figure in figures:
        there, here = ([figure.unit * one[figure.key] for one in found[name]] for name in ("there", "here"))
        ratios = [b / a if figure.more_is_better else a / b for a, b in zip(there, here, strict=True)]
        made.add_row(figure.name, *map(_median, (there, here, ratios)), f"{min(ratios):.2f} to {max(ratios):.2f}")
    return made


def _measured(folder: Path, trials: int) -> dict[str, float]:
    """One process with the folder's own code."""
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

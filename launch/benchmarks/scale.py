"""A large sweep of almost empty cells: the grid's own cells per second, the driver's memory, and the size on disk."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from rich.console import Console

from grid import store
from grid.store import files
from launch.benchmarks import overhead, peak_bytes

T = TypeVar("T")
_ENDS = 10_000  # the rates of at most this many first and last cells are compared
_SETTINGS, _TRIALS = 2, 200
_LOOK_SECONDS = 0.2
_REPEATS = 7  # repeats of reading with and without verification, in turn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the number of cells, the folder, the checkout to compare with, and results to verify."""
    parser.add_argument(
        "--cells", type=int, default=1_000_000, help=f"the number of cells, a multiple of {_SETTINGS * _TRIALS}"
    )
    parser.add_argument("--root", type=Path, help="a folder in which results are kept; default: a temporary folder")
    parser.add_argument(
        "--against", type=Path, help="another checkout, which is measured alternately with this one and compared"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of --against")
    parser.add_argument(
        "--verification",
        type=Path,
        metavar="RESULTS",
        help="measure only the cost of verifying the results in this folder",
    )


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run the null engine on one-step cases, as a user would, then run the same command again.

    Print the measurements, and the cost of verifying hashes and checksums. With `--verification`, only that cost is
    measured; with `--against`, two checkouts are compared instead.
    """
    if arguments.verification:
        _verification(arguments.verification, console)
        return
    if arguments.against:
        _versus(arguments.against, arguments.cells, arguments.rounds, console)
        return
    with tempfile.TemporaryDirectory() as scratch:
        root: Path = arguments.root or Path(scratch)
        command = _command(root, arguments.cells)
        seconds, peak = _measured(command)
        console.print(
            f"{arguments.cells:,} cells in {seconds:.1f} s for the whole command: "
            f"{arguments.cells / seconds:,.0f} cells/s"
        )
        folder = root / "scale"
        ends, first, last = _rates(folder)
        console.print(
            f"rows: {first:,.0f} cells/s over the first {ends:,}, {last:,.0f} over the last {ends:,} "
            f"({last / first:.2f} times the first rate)"
        )
        console.print(f"driver's peak memory {peak / 2**20:,.0f} MiB; {len(list(folder.rglob('*.parquet'))):,} files")
        again, peak = _measured(command)
        console.print(
            f"the same command again, with all cells done: {again:.1f} s, driver's peak memory {peak / 2**20:,.0f} MiB"
        )
        taken, table = _timed(lambda: _success(folder))
        console.print(f"a table of success by planner over {table['count'].sum():,} rows: {taken:.2f} s")
        console.print(table.to_string())
        _verification(folder, console)


def _versus(other: Path, cells: int, rounds: int, console: Console) -> None:
    """Run both checkouts in turn, alternating which is first.

    Prints the cells per second, the time of a rerun, and the driver's memory.
    """
    folders = {"there": other.resolve(), "here": overhead.HERE}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
    for number in range(rounds):
        for name in list(folders) if number % 2 else reversed(folders):
            with tempfile.TemporaryDirectory() as scratch:
                command = _command(Path(scratch), cells)
                seconds, peak = _measured(command, folders[name])
                again, _ = _measured(command, folders[name])
            found[name].append({"rate": cells / seconds, "again": again, "peak": peak / 2**20})
    console.print(overhead.table(f"{cells:,} null cells", other, found, _FIGURES))


_FIGURES = (
    overhead.Figure("cells/s of the whole command", "rate", more_is_better=True),
    overhead.Figure("the same command again, with all cells done, s", "again"),
    overhead.Figure("driver's peak memory, MiB", "peak"),
)


def _verification(folder: Path, console: Console) -> None:
    """The cost of verifying hashes and checksums.

    Each use of the results runs alternately with and without verification, as if in a new process.
    """
    size = sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    console.print(f"verification of {size / 2**20:,.0f} MiB in {len(list(folder.glob('*/*.parquet'))):,} files:")
    uses: dict[str, Callable[[], object]] = {
        "finished": lambda: store.finished(folder),
        "success by planner": lambda: _success(folder),
        "all episodes": lambda: store.read(folder, "episodes"),
    }
    for name, use in uses.items():
        use()  # so that the system has the files in memory
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(_REPEATS):
            seconds["with"].append(_timed(use, anew=True)[0])
            with _unverified():
                seconds["without"].append(_timed(use, anew=True)[0])
        told = [
            f"{statistics.median(taken):.2f} s {how} ({min(taken):.2f}-{max(taken):.2f})"
            for how, taken in seconds.items()
        ]
        more = statistics.median(seconds["with"]) / statistics.median(seconds["without"]) - 1
        console.print(f"  {name}: {', '.join(told)}: {100 * more:+.0f}%")


@contextmanager
def _unverified() -> Iterator[None]:
    """A context manager in which neither hashes nor checksums are compared, as in versions without verification."""
    files.VERIFIED = False
    try:
        yield
    finally:
        files.VERIFIED = True


def _command(root: Path, cells: int) -> list[str]:
    return [
        sys.executable,
        "launch/sweep.py",
        "-m",
        "model=null_engine",
        "dataset=null_cases",
        f"dataset.cases={cells // (_SETTINGS * _TRIALS)}",
        "planner=baseline_llm,react",
        "robustness=none",
        f"trials={_TRIALS}",
        "name=scale",
        f"store.root={root}",
    ]


def _measured(command: list[str], folder: Path = overhead.HERE) -> tuple[float, int]:
    """The seconds that a command takes with a checkout's code, and the peak memory of its process in bytes."""
    started, peak = time.monotonic(), 0
    with subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}) as process:
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            time.sleep(_LOOK_SECONDS)
    if process.returncode:
        raise RuntimeError(f"the sweep ended with status {process.returncode}")
    return time.monotonic() - started, peak


def _rates(folder: Path) -> tuple[int, float, float]:
    """A number of rows, and the cells per second over this many first rows, and over this many last rows."""
    made = np.sort(store.read(folder, "episodes", ["created_at"])["created_at"].to_numpy())
    ends = min(_ENDS, len(made) // 2)
    spans = made[ends] - made[0], made[-1] - made[-ends - 1]
    first, last = (float(ends / (span / np.timedelta64(1, "s"))) for span in spans)
    return ends, first, last


def _success(folder: Path) -> pd.DataFrame:
    rows: pd.DataFrame = store.read(folder, "episodes", ["planner", "success"]).to_pandas()
    return rows.groupby("planner")["success"].agg(["mean", "count"])


def _timed(function: Callable[[], T], anew: bool = False) -> tuple[float, T]:
    """The seconds that a function takes, and its result; `anew`: as in a process that has read no file yet."""
    if anew:
        files.forget()
    started = time.monotonic()
    result = function()
    return time.monotonic() - started, result

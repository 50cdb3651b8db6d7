"""The viewer on a large folder: seconds from the command to the first page, and of each page that is asked for."""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from analysis.viewer.links import address
from launch.benchmarks import viewer_rows

_STARTS, _REPEATS = 5, 15
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Times:
    """Seconds on the clock and of the viewer's CPU."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def told(self) -> list[str]:
        """Median and range of both, in a table's cells."""
        return [f"{statistics.median(one):.2f} ({min(one):.2f}-{max(one):.2f})" for one in (self.wall, self.cpu)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How large."""
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--root", type=Path, help="a folder that stays; rows are made there unless it has some")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Make the rows; start the viewer some times; ask for pages."""
    with tempfile.TemporaryDirectory() as scratch:
        root: Path = arguments.root or Path(scratch) / "large"
        if not (root / "episodes").is_dir():
            viewer_rows.write(root, arguments.episodes)
        size = sum(path.stat().st_size for path in root.glob("*/*.parquet"))
        steps = arguments.episodes * viewer_rows.STEPS
        console.print(f"{arguments.episodes:,} episodes, {steps:,} decisions, {size / 2**20:,.0f} MiB")
        first, second = Times(), Times()
        for _ in range(_STARTS):
            began = time.monotonic()
            with _viewer(root) as (pid, at):
                _get(at)
                first.wall.append(time.monotonic() - began)
                first.cpu.append(_cpu(pid))
                _timed(pid, [at], second)
        with _viewer(root) as (pid, at):
            _get(at)
            _settled(pid)
            pages = _pages(at, arguments.episodes)
            rows = {name: _timed(pid, paths, Times()) for name, paths in pages.items()}
            peak = _peak(pid)
        _print(console, {"first page, from the command": first, "first page, again": second, **rows})
        console.print(
            f"the viewer's peak memory {peak / 2**20:,.0f} MiB; medians and ranges of {_STARTS} starts and {_REPEATS} "
            "pages, each of another filter or case; pages but the first when all files' hashes had been compared, "
            "which begins with the start"
        )


def _pages(at: str, episodes: int) -> dict[str, list[str]]:
    rng = random.Random(0)
    cases = episodes // (len(viewer_rows.PLANNERS) * viewer_rows.TRIALS)
    cells = [viewer_rows.name_of(rng.randrange(episodes)) for _ in range(_REPEATS)]
    planners = [rng.choice(viewer_rows.PLANNERS) for _ in range(_REPEATS)]
    pages = [rng.randrange(1, cases // 50 + 2) for _ in range(_REPEATS)]
    return {
        "cases, failed first": [at + address("/cases", {"page": page, "planner": one})
                                for page, one in zip(pages, planners, strict=True)],
        "cases, flipped first": [at + address("/cases", {"sort": "flipped", "category": f"template-{page}"})
                                 for page in pages],
        "cases that fit a filter": [at + address("/cases", {"planner": one, "outcome": "unresolved", "case": str(page)})
                                    for page, one in zip(pages, planners, strict=True)],
        "one case": [at + address("/episode", {"cell": cell}) for cell in cells],
    }  # fmt: skip


@contextmanager
def _viewer(root: Path) -> Iterator[tuple[int, str]]:
    """A viewer as a user starts it, without a browser: its process, and where it is."""
    command = [sys.executable, "-u", "-m", "launch.view", str(root), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101
            at = next(line for line in process.stdout if line.startswith("viewer: ")).split()[1]
            yield process.pid, at.rstrip("/")
        finally:
            process.kill()


def _timed(pid: int, addresses: Sequence[str], times: Times) -> Times:
    for one in addresses:
        began, spent = time.monotonic(), _cpu(pid)
        _get(one)
        times.wall.append(time.monotonic() - began)
        times.cpu.append(_cpu(pid) - spent)
    return times


def _get(one: str) -> None:
    with urllib.request.urlopen(one, timeout=600) as answer:  # noqa: S310
        answer.read()


def _settled(pid: int) -> None:
    """Wait until the viewer has read ahead: it spends no more time."""
    spent = -1.0
    while _cpu(pid) > spent + 0.02:
        spent = _cpu(pid)
        time.sleep(2)


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has spent, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _print(console: Console, rows: dict[str, Times]) -> None:
    table = Table(box=SIMPLE_HEAD)
    table.add_column("page")
    for name in ("seconds", "of the viewer's CPU"):
        table.add_column(name, justify="right")
    for name, times in rows.items():
        table.add_row(name, *times.told())
    console.print(table)

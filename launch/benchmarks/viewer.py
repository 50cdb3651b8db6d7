"""The viewer on a large folder: seconds from the command to the first page, and for each requested page."""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from analysis.viewer.addresses import address
from grid.store.scanning import map_array
from grid.store.schema import COSTS, EPISODES, SCORES, TABLES
from grid.store.writing import new_file

_STARTS, _REPEATS = 5, 15
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Times:
    """The seconds that pages took: wall-clock time, and CPU time of the viewer."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def told(self) -> list[str]:
        """The median and the range of both times, as cells of a table."""
        return [f"{statistics.median(one):.2f} ({min(one):.2f}-{max(one):.2f})" for one in (self.wall, self.cpu)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the size of the folder."""
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--root", type=Path, help="a folder that is kept; rows are created in it if it has none")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Make the rows, start the viewer several times, and request pages."""
    with tempfile.TemporaryDirectory() as scratch:
        root: Path = arguments.root or Path(scratch) / "large"
        if not (root / "episodes").is_dir():
            write(root, arguments.episodes)
        size = sum(path.stat().st_size for path in root.glob("*/*.parquet"))
        steps = arguments.episodes * STEPS
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
        _print(console, {"first page, from the start of the command": first, "first page, again": second, **rows})
        console.print(
            f"the viewer's peak memory is {peak / 2**20:,.0f} MiB; the times are medians and ranges: over {_STARTS} "
            f"starts for the first page, and over {_REPEATS} requests, each with a different filter or case, for each "
            "other page; these requests were sent after the comparison of all files' hashes, which begins when the "
            "viewer starts"
        )


def _pages(at: str, episodes: int) -> dict[str, list[str]]:
    rng = random.Random(0)
    cases = episodes // (len(PLANNERS) * TRIALS)
    cells = [name_of(rng.randrange(episodes)) for _ in range(_REPEATS)]
    planners = [rng.choice(PLANNERS) for _ in range(_REPEATS)]
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
    """Start a viewer as a user would, but without a browser; yields its process id and its address."""
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
    """Wait until the viewer has read ahead, that is, until it uses no more CPU time."""
    spent = -1.0
    while _cpu(pid) > spent + 0.02:
        spent = _cpu(pid)
        time.sleep(2)


def _cpu(pid: int) -> float:
    """The CPU seconds that a process has used in all its threads."""
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


# A results folder of any size for the viewer's benchmark, with files as they are after compaction.


PLANNERS = ("react", "zero_shot", "egb_logits", "egb_names", "tooltree", "lats", "mcts", "cot", "direct", "plan_first")
TRIALS, STEPS = 5, 4
AGAIN = 100
"""The number of cells that ran a second time, and then succeeded."""
_GROUP, _GROUPS = 65_536, 4  # rows per row group and row groups per file, as after compaction
_CHUNK = 200  # cells per attempt
_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_MIX = 0x9E3779B97F4A7C15  # odd, so that each place maps to a different number; these are in no order

Places = npt.NDArray[np.int64]
Made = dict[str, Any]


def write(root: Path, episodes: int, seed: int = 0) -> None:
    """Write a sweep of ten planners and five trials with about `episodes` episodes, of four decisions each."""
    rng = np.random.default_rng(seed)
    cases = episodes // (len(PLANNERS) * TRIALS)
    count = cases * len(PLANNERS) * TRIALS
    skill = rng.uniform(0.2, 0.8, cases)
    success = rng.random(count) < skill[_case_of(np.arange(count), cases)]
    _files(root, "cases", cases, _cases)
    _files(root, "steps", count * STEPS, lambda places: _steps(places, cases))
    _files(root, "episodes", count, lambda places: _episodes(places, cases, success[places]))
    second = min(AGAIN, count)
    _files(root, "episodes", second, lambda places: _episodes(places, cases, np.ones(len(places), dtype=bool), hours=1))


def name_of(place: int) -> str:
    """The id of the cell with this number."""
    return f"{(place + 1) * _MIX % 2**64:016x}"


def _case_of(places: Places, cases: int) -> Places:
    return places // TRIALS % cases


def _files(root: Path, table: str, count: int, made: Callable[[Places], Made]) -> None:
    for start in range(0, count, _GROUP * _GROUPS):
        with new_file(root, table) as file:
            for first in range(start, min(start + _GROUP * _GROUPS, count), _GROUP):
                places = np.arange(first, min(first + _GROUP, count))
                columns = made(places)
                schema = TABLES[table]
                file.write(
                    pa.table(
                        [
                            columns[field.name]
                            if isinstance(columns.get(field.name), pa.Array)
                            else pa.array(columns[field.name], field.type)
                            if field.name in columns
                            else pa.nulls(len(places), field.type)
                            for field in schema
                        ],
                        schema,
                    )
                )


def _episodes(places: Places, cases: int, success: npt.NDArray[np.bool_], hours: int = 0) -> Made:
    count, case = len(places), _case_of(places, cases)
    failed = (places % 97 == 0) & ~success
    planner = [PLANNERS[place] for place in places // (cases * TRIALS)]
    names = [name_of(int(place)) for place in places]
    labels = {
        "sweep": "large", "model": "made-up", "engine": "simulated", "dataset": "made_up", "robustness": "none",
        "dataset_version": "made-up-1", "retriever": "bm25", "pool": "all", "refine": "none", "config": "{}",
        "memory": "none", "code": "made-up", "created_at": _NOON + dt.timedelta(hours=hours), "n_steps": STEPS,
        "n_messages": 0, "n_nodes": 0, "n_improvements": 0, "tool_calls": STEPS, "resolved_checks": 0, "branches": 1,
    }  # fmt: skip
    scores = {"solvable": 1.0, "tool_match_rate": 0.8, "action_accuracy": 0.9}
    spent = [{"llm_calls": 4, "output_tokens": 100, "input_tokens": 1_000 + place % 500} for place in places.tolist()]
    return {
        **{name: [value] * count for name, value in labels.items()},
        "cell_id": names,
        "cell_key": names,
        "setting_id": planner,
        "planner": planner,
        "case_id": [f"case-{one:06}" for one in case],
        "case_digest": [f"{one:032x}" for one in case],
        "cluster": [f"template-{one % 500}" for one in case],
        "trial": places % TRIALS,
        "attempt_id": _attempts(places, hours),
        "status": np.where(failed, "failed", "ok"),
        "error_kind": [("timeout" if one else None) for one in failed],
        "budget_reached": [(None if place % 31 else "steps") for place in places],
        "success": success,
        "depth": 2 + case % 5,
        SCORES: map_array([scores] * count, EPISODES.field(SCORES).type),
        COSTS: map_array([{"actor": one} for one in spent], EPISODES.field(COSTS).type),
    }


def _steps(places: Places, cases: int) -> Made:
    cells, step = places // STEPS, places % STEPS
    case, right = _case_of(cells, cases), cells % 3 > 0
    calls = [f'{{"list_id": "OUTPUT_FROM_STEP_1.0.list_id", "since": "2023-09-04", "case": {one}}}' for one in case]
    chosen = np.where(right, "rank_by_ratings", "rank_by_price")
    options = [{"tool": "rank_by_ratings", "probability": 0.8}, {"tool": "rank_by_price", "probability": 0.2}]
    return {
        "cell_id": [name_of(int(cell)) for cell in cells],
        "attempt_id": _attempts(cells, 0),
        "branch": np.zeros(len(places), dtype=int),
        "step": step,
        "substep_id": [f"1.{one}" for one in step],
        "substep": [f"Put what is left of case {one} in order" for one in case],
        "on_path": np.ones(len(places), dtype=bool),
        "tool_required": np.ones(len(places), dtype=bool),
        "reference_tool": ["rank_by_ratings"] * len(places),
        "chosen_tool": chosen,
        "thought": [f"Step 1.{one} of case {number} takes a tool." for one, number in zip(step, case, strict=True)],
        "arguments": calls,
        "written": [f'{{"tool": "{tool}", "arguments": {call}}}' for tool, call in zip(chosen, calls, strict=True)],
        "observation": [f'{{"list_id": "{hashlib.blake2b(place.tobytes()).hexdigest()}"}}' for place in places],
        "failed": np.zeros(len(places), dtype=bool),
        "entropy": np.full(len(places), 0.5),
        "n_options": np.full(len(places), 2),
        "options": [options] * len(places),
        "tool_matches": right,
        "input_tokens": np.full(len(places), 250),
        "output_tokens": np.full(len(places), 25),
    }


def _attempts(cells: Places, hours: int) -> list[str]:
    return [f"{hours}{cell // _CHUNK:031x}" for cell in cells]


def _cases(places: Places) -> Made:
    count = len(places)
    steps = [f"1.{step}" for step in range(STEPS)]
    return {
        "digest": [f"{place:032x}" for place in places],
        "case_id": [f"case-{place:06}" for place in places],
        "domain": [f"domain-{place % 12}" for place in places],
        "query": [f"Rank what is written of case {place}, please." for place in places],
        "messages": [[]] * count,
        "outline": [[{"id": one, "goal": "Rank", "text": "Put what is left in order"} for one in steps]] * count,
        "calls": [
            [
                {"substep_id": one, "tool": "rank_by_ratings", "arguments": f'{{"list_id": "L", "case": {place}}}'}
                for one in steps
            ]
            for place in places
        ],
        "followed": [True] * count,
        "ordered": [True] * count,
    }

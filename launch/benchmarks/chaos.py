"""Kills at random moments: what a sweep loses, counts twice or computes otherwise than an undisturbed one."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from grid import store
from grid.store.schema import TIMES

DRIVER, WORKER, RAYLET = "driver", "worker", "raylet"
KINDS = (DRIVER, RAYLET, *[WORKER] * 6)  # a worker's death ends no run, so that more fit in
_END_SECONDS = 120.0  # for a driver whose cluster has died
_NAMES = {WORKER: "ray::_chunk", RAYLET: "/raylet/raylet"}
_ENVIRONMENT = {  # a dead raylet is noticed after 2 s, and not after 15
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
_COMMAND = ["launch/sweep.py", "-m", "robustness=none", "cluster.dashboard=false"]


@dataclass
class Log:
    """What was killed, how often the sweep was started, and how its rows differ from an undisturbed run's."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    lost: int = 0
    twice: int = 0
    differing: int = 0
    spent: int = 0  # tokens of all attempts
    counted: int = 0  # tokens of the episodes


def chaos(root: Path, kills: int, seed: int, overrides: list[str], say: Callable[[str], None]) -> Log:
    """Run a sweep undisturbed, and again and again with SIGKILLs until there were so many; then to its end.

    Each round is a results folder of its own; within one, the sweep is resumed after whatever it was killed by.
    """
    rng, log = random.Random(seed), Log()
    _sweep_to_end(root, "undisturbed", overrides)
    rounds = 0
    while sum(log.kills.values()) < kills:
        name, rounds = f"round-{rounds}", rounds + 1
        while True:
            code = _disturbed(root, name, overrides, rng, kills, log, say)
            if code == 0:
                break
        _compare(root, name, log)
        say(f"{name}: {sum(log.kills.values())} kills so far, {log.lost} rows lost, {log.twice} twice")
    return log


def _disturbed(
    root: Path, name: str, overrides: list[str], rng: random.Random, kills: int, log: Log, say: Callable[[str], None]
) -> int:
    """One start of the sweep, killed at random moments; its exit status."""
    log.starts += 1
    with _Sweep(root, name, overrides) as process:
        while process.poll() is None and sum(log.kills.values()) < kills:
            time.sleep(rng.uniform(0.1, 1.5))
            kind = rng.choice(KINDS)
            victims = victims_of(process.pid, kind) if _working(process.pid) else []
            if not victims:
                continue
            victim = rng.choice(victims)
            os.kill(victim, signal.SIGKILL)
            log.kills[kind] += 1
            say(f"{time.strftime('%H:%M:%S')} {name}: killed {kind} {victim}")
            if kind != WORKER:
                break
        return process.wait(_END_SECONDS)


class _Sweep:
    """The sweep in a session of its own, all of whose processes are gone afterwards."""

    def __init__(self, root: Path, name: str, overrides: list[str]) -> None:
        self._log = (root / f"{name}.log").open("a")
        command = [sys.executable, *_COMMAND, f"store.root={root}", f"name={name}", *overrides]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=os.environ | _ENVIRONMENT, start_new_session=True
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *error: object) -> None:
        for pid in [self._process.pid, *_descendants(self._process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        self._log.close()


def _sweep_to_end(root: Path, name: str, overrides: list[str]) -> None:
    with _Sweep(root, name, overrides) as process:
        if process.wait() != 0:
            raise RuntimeError(f"the sweep failed: {root / name}.log")


def _compare(root: Path, name: str, log: Log) -> None:
    """Count rows that are missing, doubled or not as those of the undisturbed run."""
    expected, found = (_rows(root / folder) for folder in ("undisturbed", name))
    log.lost += len(expected.keys() - found.keys())
    log.twice += store.read(root / name, "episodes").num_rows - len(found)
    log.differing += sum(found.get(cell) not in (None, row) for cell, row in expected.items())
    for table in ("episodes", "attempts"):
        data = store.read(root / name, table, ["input_tokens", "output_tokens"])
        tokens = sum(sum(column.to_pylist()) for column in data.columns)
        if table == "episodes":
            log.counted += tokens
        else:
            log.spent += tokens


def _rows(root: Path) -> dict[str, object]:
    data = store.read(root, "episodes")
    kept = [column for column in data.column_names if column not in TIMES]
    return {row["cell_id"]: row for row in data.select(kept).to_pylist()}


def _working(driver: int) -> bool:
    """Whether the driver's cluster runs chunks."""
    return bool(victims_of(driver, WORKER))


def victims_of(driver: int, kind: str) -> list[int]:
    """The processes of a kind under a driver."""
    if kind == DRIVER:
        return [driver]
    return [pid for pid in _descendants(driver) if _NAMES[kind] in _command(pid)]


def _descendants(parent: int) -> Iterator[int]:
    """All processes under a process, deepest last."""
    found = [parent]
    for pid in found:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return iter(found[1:])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many kills, and of what."""
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "overrides",
        nargs="*",
        default=["planner=react,egb_logits", "dataset.limit=100", "trials=5"],
        help="of the sweep",
    )


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the log, kill by kill, and the sums."""
    with tempfile.TemporaryDirectory() as folder:
        log = chaos(Path(folder), arguments.kills, arguments.seed, arguments.overrides, console.print)
    console.print(
        f"{sum(log.kills.values())} kills ({dict(log.kills)}) in {log.starts} starts: rows lost {log.lost}, rows twice "
        f"{log.twice}, rows differing from the undisturbed run's {log.differing}; tokens of attempts {log.spent:,}, of "
        f"episodes {log.counted:,}"
    )

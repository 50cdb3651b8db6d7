"""Kills at random moments: what a sweep loses, counts twice or computes otherwise than an undisturbed one."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from grid import store
from grid.store.schema import TIMES
from launch.benchmarks.nodes import Local, Nodes
from launch.benchmarks.victims import DRIVER, KINDS, RAYLET, Deck, Session, kill

UNDISTURBED = "undisturbed"
_END_SECONDS = 600.0  # for a driver whose cluster has died, on a busy machine too
_SPARE_ROUNDS = 20  # at most, after the last kill, for chunks on the node that joined last: it may join late
_IDLE_ROUNDS = 30  # without a kill, after which something must be wrong
_PAUSE_SECONDS = 0.1, 1.5  # between two looks, at each of which something is killed
# A cell whose worker died three times while it ran alone is a row that says so, and is run again at the next start.
_COMMAND = ["launch/sweep.py", "-m", "robustness=none", "retry_failed=true"]


class Tokens(NamedTuple):
    """Of prompts and answers: those of all attempts, and those of the episodes."""

    spent: int
    counted: int


@dataclass
class Log:
    """What was killed, how often the sweep was started, and how its rows differ from an undisturbed run's."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failed: int = 0
    """Starts that ended with another status than 0 though neither driver nor Ray was killed."""
    joined: int = 0
    """Nodes that took the place of a killed one."""
    used: int = 0
    """Those of them on which chunks ran."""
    lost: int = 0
    twice: int = 0
    differing: int = 0
    tokens: dict[str, Tokens] = field(default_factory=dict)
    """By results folder."""

    def wrong(self) -> list[str]:
        """What ought not to be, a line each."""
        rows = {"lost": self.lost, "twice": self.twice, "differing from the undisturbed run's": self.differing}
        lines = [f"{count} rows {what}" for what, count in rows.items() if count]
        for name, (spent, counted) in self.tokens.items():
            if spent < counted or (name == UNDISTURBED and spent != counted):
                lines.append(f"{name}: {spent:,} tokens in attempts, {counted:,} in episodes")
        return lines


@dataclass
class _Chaos:
    """One run of the benchmark."""

    root: Path
    kills: int
    overrides: list[str]
    say: Callable[[str], None]
    rng: random.Random
    place: Local | Nodes
    kinds: Sequence[str]

    def __post_init__(self) -> None:
        self.log, self._deck = Log(), Deck(self.kinds, self.rng)

    def run(self) -> Log:
        with self._sweep(UNDISTURBED) as sweep:
            if sweep.process.wait() != 0:
                raise RuntimeError(f"the sweep failed: {self.root / UNDISTURBED}.log")
        self._compare(UNDISTURBED)
        rounds = spare = idle = 0
        while self._killed() < self.kills or (not self.place.settled and spare < _SPARE_ROUNDS):
            spare += self._killed() == self.kills
            name, rounds, before = f"round-{rounds}", rounds + 1, self._killed()
            while self._disturbed(name) != 0:
                pass
            idle = idle + 1 if self._killed() == before < self.kills else 0
            if idle == _IDLE_ROUNDS:
                raise RuntimeError(f"no process was found to kill in {idle} rounds, of {', '.join(self.kinds)}")
            self._compare(name)
            spent, counted = self.log.tokens[name]
            self.say(
                f"{name}: {self._killed()} kills so far, {self.log.lost} rows lost, {self.log.twice} twice, "
                f"{self.log.differing} differing; tokens of attempts {spent:,}, of episodes {counted:,}"
            )
        self.log.joined, self.log.used = self.place.joined, self.place.used
        return self.log

    def _disturbed(self, name: str) -> int:
        """One start of the sweep, killed at random moments; its exit status."""
        self.log.starts += 1
        with self._sweep(name) as sweep:
            while sweep.process.poll() is None:
                time.sleep(self.rng.uniform(*_PAUSE_SECONDS))
                self.place.look()
                if self._killed() < self.kills and self._kill_one(name, sweep.id) in (DRIVER, RAYLET):
                    return sweep.process.wait(_END_SECONDS)
            code = sweep.process.wait()
            self.log.failed += code != 0
            return code

    def _kill_one(self, name: str, driver: int) -> str | None:
        """Kill one of those that are there; its kind."""
        victims = self.place.victims(driver)
        kind = self._deck.draw(victims)
        if kind is None:
            return None
        victim = self.rng.choice(victims[kind])
        if not kill(victim):
            return None
        self.log.kills[kind] += 1
        self.say(f"{time.strftime('%H:%M:%S')} {name}: killed {kind} {victim}")
        return kind

    def _killed(self) -> int:
        return sum(self.log.kills.values())

    def _sweep(self, name: str) -> Session:
        command = [sys.executable, *_COMMAND, f"store.root={self.root}", f"name={name}"]
        return Session(
            [*command, *self.place.overrides, *self.overrides], self.place.environment, self.root / f"{name}.log"
        )

    def _compare(self, name: str) -> None:
        """Count rows that are missing, doubled or not as those of the undisturbed run, and tokens."""
        expected, found = (_rows(self.root / folder) for folder in (UNDISTURBED, name))
        self.log.lost += len(expected.keys() - found.keys())
        self.log.twice += store.read(self.root / name, "episodes").num_rows - len(found)
        self.log.differing += sum(found.get(cell) not in (None, row) for cell, row in expected.items())
        self.log.tokens[name] = Tokens(_tokens(self.root / name, "attempts"), _tokens(self.root / name, "episodes"))


def chaos(
    root: Path,
    kills: int,
    seed: int,
    overrides: list[str],
    say: Callable[[str], None],
    nodes: int = 1,
    kinds: Sequence[str] = KINDS,
) -> Log:
    """Run a sweep undisturbed, and again and again with SIGKILLs until there were so many; then to its end.

    Each round is a results folder of its own; within one, the sweep is resumed after whatever it was killed by. With
    more than one of `nodes` it joins a cluster of so many raylets, some of which die and are replaced. Each of `kinds`
    is killed as often as it is named, where it is there.

    Raises:
        RuntimeError: the undisturbed sweep, or the cluster, fails by itself, or nobody is found to kill.
        subprocess.TimeoutExpired: a driver whose Ray was killed does not end.
    """
    rng = random.Random(seed)
    with Local() if nodes == 1 else Nodes(nodes, root, rng, say) as place:
        return _Chaos(root, kills, overrides, say, rng, place, kinds).run()


def _rows(root: Path) -> dict[str, object]:
    data = store.read(root, "episodes", wide=True)
    kept = [column for column in data.column_names if column not in TIMES]
    return {row["cell_id"]: row for row in data.select(kept).to_pylist()}


def _tokens(root: Path, table: store.Table) -> int:
    data = store.read(root, table, ["input_tokens", "output_tokens"])
    return sum(sum(column.to_pylist()) for column in data.columns)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many kills, of what, and where."""
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--nodes", type=int, default=1, help="raylets of a cluster that the sweep joins; 1: its own Ray"
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        default=["model=lexical", "planner=react,egb_logits", "dataset.limit=100", "trials=5"],
        help="of the sweep",
    )


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the sums, and kill by kill as progress; exit status 1 where anything is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        log = chaos(Path(folder), arguments.kills, arguments.seed, arguments.overrides, print, arguments.nodes)
    disturbed = [tokens for name, tokens in log.tokens.items() if name != UNDISTURBED]
    console.print(
        f"{sum(log.kills.values())} kills ({dict(log.kills)}) in {log.starts} starts, of which {log.failed} failed by "
        f"themselves: rows lost {log.lost}, rows twice {log.twice}, rows differing from the undisturbed run's "
        f"{log.differing}"
    )
    told = {UNDISTURBED: log.tokens[UNDISTURBED], "with kills": Tokens(*map(sum, zip(*disturbed, strict=True)))}
    for name, (spent, counted) in told.items():
        console.print(f"{name}: tokens of attempts {spent:,}, of episodes {counted:,}")
    if log.joined:
        console.print(f"nodes that joined in the place of killed ones {log.joined}, of them with chunks {log.used}")
    if log.wrong():
        sys.exit("\n".join(log.wrong()))

"""Kill processes at random times; count rows that are lost, are duplicated, or differ from an undisturbed sweep's."""

from __future__ import annotations

import argparse
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console

from grid import store
from grid.store.schema import TIMES

# Finding the processes that can be killed, by session and by kind.


DRIVER, WORKER, REPLICA, RAYLET, NODE = "driver", "worker", "replica", "raylet", "node"
KINDS = (DRIVER, RAYLET, *[NODE] * 2, *[REPLICA] * 4, *[WORKER] * 6)  # kinds whose death needs a restart are rarer
_NAMES = {WORKER: r"^ray::.* · \d+-\d+", REPLICA: "^ray::Replica", RAYLET: "/raylet/raylet"}
"""Patterns for the names of the processes, by kind; a worker has the name of the chunk that it runs."""
_SESSION = 3  # index of the field in /proc/PID/stat, counted after the name in brackets


class Session:
    """A command in a new session; all processes of the session are killed at the end. A context manager.

    Args:
        command: the command with its arguments.
        environment: the environment variables of the command.
        log: the file to which the command's output is appended.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        with log.open("a") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=dict(environment), start_new_session=True
            )
        self.id = self.process.pid

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while found := members(self.id):  # killed processes may have just started others
            for pid in found:
                kill(pid)
            self.process.poll()
        self.process.wait()


class Deck:
    """Kinds of victims in random order. In each pass, a kind comes up as many times as it occurs in `kinds`."""

    def __init__(self, kinds: Sequence[str], rng: random.Random) -> None:
        self._all, self._rng, self._kinds = kinds, rng, list[str]()

    def draw(self, there: Collection[str]) -> str | None:
        """The next kind of which a process is running; None if there is no such kind."""
        if any(kind in there for kind in self._all) and not any(kind in there for kind in self._kinds):
            self._kinds += self._rng.sample(self._all, len(self._all))  # kinds without processes stay in the deck
        kind = next((kind for kind in self._kinds if kind in there), None)
        if kind:
            self._kinds.remove(kind)
        return kind


def victims_of(session: int, kind: str) -> list[int]:
    """The processes of a kind in a session; the driver is the session's first process."""
    if kind == DRIVER:
        return [session]
    return [pid for pid in members(session) if re.search(_NAMES[kind], _command(pid))]


def members(session: int) -> list[int]:
    """The living processes of a session."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _lives_in(path, session)]


def kill(pid: int) -> bool:
    """Send SIGKILL to a process; returns False if the process had already ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _lives_in(process: Path, session: int) -> bool:
    try:
        fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[_SESSION]) == session


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


# Where a disturbed sweep runs: on its own Ray, or on a cluster of several raylets, some of which die and are replaced.


_ENVIRONMENT = {  # a dead raylet is noticed after 2 s instead of 15 s
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_START_SECONDS = 60.0
_AWAY_SECONDS = 0.0, 5.0  # between a node's death and the start of its replacement
_START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
_START += ["--include-log-monitor=false"]  # nobody reads what the workers print
_PORTS = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]  # free ports


class Local:
    """A local Ray, which the sweep starts anew each time the sweep is started. A context manager."""

    overrides: Sequence[str] = ("cluster.dashboard=false",)
    environment = os.environ | _ENVIRONMENT
    joined = used = 0
    settled = True

    def victims(self, driver: int) -> dict[str, list[int]]:
        """The processes that can be killed, by kind; empty if no chunk runs."""
        return _found({kind: victims_of(driver, kind) for kind in (DRIVER, WORKER, REPLICA, RAYLET)})

    def look(self) -> None:
        """Do nothing, because no node joins this cluster."""

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@dataclass
class _Node:
    """A raylet that joined the cluster, and whether chunks have run on it."""

    session: Session
    number: int
    used: bool = False


@dataclass
class Nodes:
    """A cluster of `count` raylets with one CPU each and token authentication. A context manager.

    The first raylet, the head, lives as long as the cluster. If another raylet dies, a new one joins some seconds
    later.
    """

    count: int
    root: Path
    rng: random.Random
    say: Callable[[str], None]
    joined: int = 0
    """The number of nodes that replaced a dead node."""
    used: int = 0
    """The number of replacement nodes on which chunks ran."""
    _nodes: list[_Node] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _joining: float | None = None

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.environment = os.environ | _ENVIRONMENT
        self.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "1"  # replaces any earlier value in this process
        self.overrides = ["cluster=address", f"cluster.address=127.0.0.1:{self._port}", "cluster.auth=token"]

    def __enter__(self) -> Nodes:
        folder = tempfile.mkdtemp(prefix="ray-")  # it contains sockets, whose paths have a limited length
        self._open.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            self._head = self._start(
                "--head", "--no-monitor", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={folder}"
            )
            until = time.monotonic() + _START_SECONDS
            while socket.socket().connect_ex(("127.0.0.1", self._port)):
                if time.monotonic() > until or self._head.process.poll() is not None:
                    raise RuntimeError(f"the head node did not start; see {self._log}")
                time.sleep(0.2)
            for _ in range(self.count - 1):
                self._join()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def victims(self, driver: int) -> dict[str, list[int]]:
        """The processes that can be killed, by kind; empty if no chunk runs. The head is never killed."""
        sessions = [self._head.id, *(node.session.id for node in self._nodes)]
        found = {kind: [pid for one in sessions for pid in victims_of(one, kind)] for kind in (WORKER, REPLICA)}
        raylets = [pid for one in sessions[1:] for pid in victims_of(one, RAYLET)]
        return _found({DRIVER: [driver], NODE: raylets, **found})

    @property
    def settled(self) -> bool:
        """Whether all nodes of the cluster except the head are running, and each of them has run chunks."""
        return all(node.used and node.session.process.poll() is None for node in self._nodes)

    def look(self) -> None:
        """Record which nodes run chunks; if a node has died, start a replacement after some seconds."""
        for node in self._nodes:
            workers = [] if node.used else victims_of(node.session.id, WORKER)
            if workers:
                node.used = True
                if node.number >= self.count:
                    self.used += 1
                    self.say(f"{time.strftime('%H:%M:%S')} node {node.number} runs chunks: workers {workers}")
        dead = [node for node in self._nodes if node.session.process.poll() is not None]
        if dead and self._joining is None:
            self._joining = time.monotonic() + self.rng.uniform(*_AWAY_SECONDS)
        if dead and self._joining is not None and time.monotonic() > self._joining:
            self._nodes.remove(dead[0])
            self._joining = None
            self.joined += 1
            self._join()

    def _join(self) -> None:
        number = len(self._nodes) + 1 if self.joined == 0 else self.count - 1 + self.joined
        session = self._start(f"--address=127.0.0.1:{self._port}")
        self._nodes.append(_Node(session, number))
        self.say(f"{time.strftime('%H:%M:%S')} node {number} starts (session {session.id})")

    def _start(self, *arguments: str) -> Session:
        return self._open.enter_context(Session([*_START, *_PORTS, *arguments], self.environment, self._log))

    @property
    def _log(self) -> Path:
        return self.root / "nodes.log"


def _found(victims: dict[str, list[int]]) -> dict[str, list[int]]:
    """The victims by kind, without the kinds that have no processes; empty if no chunk runs."""
    return {kind: pids for kind, pids in victims.items() if pids} if victims[WORKER] else {}


UNDISTURBED = "undisturbed"
_END_SECONDS = 600.0  # time for a driver to end after its cluster has died, even on a busy machine
_SPARE_ROUNDS = 20  # maximum rounds after the last kill until chunks run on the last node, which may join late
_IDLE_ROUNDS = 30  # after this many rounds without a kill, something must be wrong
_PAUSE_SECONDS = 0.1, 1.5  # between two looks at the cluster; after each look, a process is killed
# If a worker died three times while it ran a single cell, the cell's row says so, and the next start of the sweep runs
# the cell again.
_COMMAND = ["launch/sweep.py", "-m", "robustness=none", "retry_failed=true"]


class Tokens(NamedTuple):
    """Tokens of prompts and answers: `spent` in all attempts, `counted` in the episodes."""

    spent: int
    counted: int


@dataclass
class Log:
    """The kills, the number of starts of the sweep, and the differences of its rows from an undisturbed run's rows."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failed: int = 0
    """The number of starts with a nonzero exit status although neither the driver nor Ray was killed."""
    joined: int = 0
    """The number of nodes that replaced a killed node."""
    used: int = 0
    """The number of replacement nodes on which chunks ran."""
    lost: int = 0
    twice: int = 0
    differing: int = 0
    tokens: dict[str, Tokens] = field(default_factory=dict)
    """The tokens of each results folder, by the folder's name."""

    def wrong(self) -> list[str]:
        """The errors that were found, one line each."""
        rows = {
            "lost": self.lost,
            "written twice": self.twice,
            "different from the undisturbed run's rows": self.differing,
        }
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
                raise RuntimeError(f"the undisturbed sweep failed; see {self.root / UNDISTURBED}.log")
        self._compare(UNDISTURBED)
        rounds = spare = idle = 0
        while self._killed() < self.kills or (not self.place.settled and spare < _SPARE_ROUNDS):
            spare += self._killed() == self.kills
            name, rounds, before = f"round-{rounds}", rounds + 1, self._killed()
            while self._disturbed(name) != 0:
                pass
            idle = idle + 1 if self._killed() == before < self.kills else 0
            if idle == _IDLE_ROUNDS:
                raise RuntimeError(
                    f"in {idle} rounds, no process of the kinds {', '.join(self.kinds)} was found to kill"
                )
            self._compare(name)
            spent, counted = self.log.tokens[name]
            self.say(
                f"{name}: {self._killed()} kills so far, {self.log.lost} rows lost, {self.log.twice} written "
                f"twice, {self.log.differing} different; {spent:,} tokens in attempts, {counted:,} in episodes"
            )
        self.log.joined, self.log.used = self.place.joined, self.place.used
        return self.log

    def _disturbed(self, name: str) -> int:
        """Start the sweep once, with kills at random times; returns its exit status."""
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
        """Kill one process, if any can be killed; returns its kind."""
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
        """Count the tokens, and the rows that are missing, duplicated, or different from the undisturbed run's rows."""
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
    """Run a sweep undisturbed, then in rounds with SIGKILLs until `kills` is reached; the last round runs to its end.

    Each round has a new results folder. Within a round the sweep is resumed after each kill that ends it. If `nodes` is
    more than one, the sweep joins a cluster of this many raylets, some of which die and are replaced. In each pass, a
    process is killed for each entry of `kinds`, if a process of that kind is running.

    Raises:
        RuntimeError: the undisturbed sweep or the cluster fails without a kill, or no process to kill is found.
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
    """The options: the number of kills, and where the sweep runs."""
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--nodes",
        type=int,
        default=1,
        help="number of raylets of a cluster that the sweep joins; 1: the sweep starts its own Ray",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        default=["model=lexical", "planner=react,egb_logits", "dataset.limit=100", "trials=5"],
        help="keys of the sweep",
    )


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the totals, and each kill as progress; exits with status 1 if anything is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        log = chaos(Path(folder), arguments.kills, arguments.seed, arguments.overrides, print, arguments.nodes)
    disturbed = [tokens for name, tokens in log.tokens.items() if name != UNDISTURBED]
    console.print(
        f"{sum(log.kills.values())} kills ({dict(log.kills)}) in {log.starts} starts, of which {log.failed} failed "
        f"although neither the driver nor Ray was killed: {log.lost} rows lost, {log.twice} written twice, "
        f"{log.differing} different from the undisturbed run's rows"
    )
    total = Tokens(sum(one.spent for one in disturbed), sum(one.counted for one in disturbed))
    told = {UNDISTURBED: log.tokens[UNDISTURBED], "with kills": total}
    for name, (spent, counted) in told.items():
        console.print(f"{name}: {spent:,} tokens in attempts, {counted:,} in episodes")
    if log.joined:
        console.print(f"{log.joined} new nodes replaced killed nodes; chunks ran on {log.used} of the new nodes")
    if log.wrong():
        sys.exit("\n".join(log.wrong()))

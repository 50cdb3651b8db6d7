"""Where a disturbed sweep runs: on a Ray of its own, or on a cluster of several raylets of which some die and join."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from launch.benchmarks.victims import DRIVER, NODE, RAYLET, REPLICA, WORKER, Session, victims_of

_ENVIRONMENT = {  # a dead raylet is noticed after 2 s, and not after 15
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_START_SECONDS = 60.0
_AWAY_SECONDS = 0.0, 5.0  # of a node that died, until another joins
_START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
_PORTS = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]  # any: there are others


class Local:
    """A Ray that each start of the sweep brings up for itself. A context manager."""

    overrides: Sequence[str] = ("cluster.dashboard=false",)
    environment = os.environ | _ENVIRONMENT
    joined = used = 0
    settled = True

    def victims(self, driver: int) -> dict[str, list[int]]:
        """By kind, what can be killed; nothing where no chunk runs."""
        return _found({kind: victims_of(driver, kind) for kind in (DRIVER, WORKER, REPLICA, RAYLET)})

    def look(self) -> None:
        """Nothing joins here."""

    def __enter__(self) -> Local:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@dataclass
class _Node:
    """A raylet that joined, and whether chunks have run there."""

    session: Session
    number: int
    used: bool = False


@dataclass
class Nodes:
    """A cluster of `count` raylets with one CPU each and token authentication. A context manager.

    The first, the head, lives as long as the cluster; for each other that dies another joins, some seconds later.
    """

    count: int
    root: Path
    rng: random.Random
    say: Callable[[str], None]
    joined: int = 0
    """Nodes that took the place of one that died."""
    used: int = 0
    """Those of them on which chunks ran."""
    _nodes: list[_Node] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)
    _joining: float | None = None

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.environment = os.environ | _ENVIRONMENT
        self.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.overrides = ["cluster=address", f"cluster.address=127.0.0.1:{self._port}", "cluster.auth=token"]

    def __enter__(self) -> Nodes:
        folder = tempfile.mkdtemp(prefix="ray-")  # sockets lie in it, whose paths are bounded
        self._open.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            self._head = self._start(
                "--head", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={folder}"
            )
            until = time.monotonic() + _START_SECONDS
            while socket.socket().connect_ex(("127.0.0.1", self._port)):
                if time.monotonic() > until or self._head.process.poll() is not None:
                    raise RuntimeError(f"the head did not start: {self._log}")
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
        """By kind, what can be killed; nothing where no chunk runs. The head is spared."""
        sessions = [self._head.id, *(node.session.id for node in self._nodes)]
        found = {kind: [pid for one in sessions for pid in victims_of(one, kind)] for kind in (WORKER, REPLICA)}
        raylets = [pid for one in sessions[1:] for pid in victims_of(one, RAYLET)]
        return _found({DRIVER: [driver], NODE: raylets, **found})

    @property
    def settled(self) -> bool:
        """Whether the cluster is whole, and chunks have run on all its nodes."""
        return all(node.used and node.session.process.poll() is None for node in self._nodes)

    def look(self) -> None:
        """Note where chunks run, and have another node join some time after one has died."""
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
    """Those kinds that are there, where chunks run at all."""
    return {kind: pids for kind, pids in victims.items() if pids} if victims[WORKER] else {}

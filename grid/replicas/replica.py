"""One engine in a Ray actor: it answers, counts, reports what it does, and ends its process when the engine died."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from grid.build import make
from grid.engines.base import Choice, HostedEngine, Prompt, Sampled
from grid.engines.probe import unassigned
from grid.errors import EngineDiedError
from grid.types import Usage

T = TypeVar("T", Sampled, Choice)
CONTROL = "control"
"""The concurrency group whose event loop stays free while the engine loads or hangs."""
_DIED = 70  # the process's exit status after the engine's death
_LOOK_SECONDS = 0.5
_TAIL_BYTES = 20_000
_ATTEMPTS = 10_000  # whose usage is kept


@dataclass(frozen=True)
class ReplicaStats:
    """What one process of a replica has done since it started.

    `busy_seconds` is the time in which something was computed, `batch` the mean number of requests in computation
    over it; `kv_cache` is the highest share seen, None where the engine has no such figure.
    """

    name: str
    pid: int
    ready: bool = False
    requests: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    running: int = 0
    waiting: int = 0
    busy_seconds: float = 0.0
    batch: float = 0.0
    kv_cache: float | None = None


class Replica:
    """An actor's class; Ray restarts its process. `load` is awaited by every request, so none comes too early.

    Args:
        name: of the actor.
        model: the config of the model group.
        threads: for computing on a CPU.
    """

    def __init__(self, name: str, model: Mapping[str, Any], threads: int) -> None:
        # Before torch is imported. Ray sets 1 thread for actors without CPUs. A thread that waits spins for about
        # 0.1 ms: none at all doubles the time of a small model's step, more stalls those who share the cores.
        os.environ.update(OMP_NUM_THREADS=str(threads), GOMP_SPINCOUNT="20000")
        from grid.replicas.metrics import ReplicaMetrics

        self._engine = cast(HostedEngine, make("model", model))
        self._stats = ReplicaStats(name, os.getpid())
        self._metrics = ReplicaMetrics(name)
        self._attempts: dict[str, Usage] = {}  # the latest at the end
        self._loading: asyncio.Task[float | None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: asyncio.Task[None] | None = None

    async def load(self) -> float | None:
        """Make the engine ready, once; returns what `probe.unassigned` does.

        Raises what keeps it from ever working.
        """
        if self._loading is None:
            self._loop = asyncio.get_running_loop()
            self._loading = asyncio.create_task(self._load())
        share = await asyncio.shield(self._loading)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            self._stats = replace(self._stats, ready=True)
        return share

    async def _load(self) -> float | None:
        await self._engine.load()
        return await unassigned(self._engine)

    async def sample(self, attempt_id: str, prompt: Prompt, **how: Any) -> tuple[Sampled, int]:
        """The engine's answer, and how many requests this replica has in hand."""
        return await self._answer(attempt_id, self._engine.sample(prompt, **how))

    async def choose(self, attempt_id: str, prompt: Prompt, **how: Any) -> tuple[Choice, int]:
        """The engine's answer, and how many requests this replica has in hand."""
        return await self._answer(attempt_id, self._engine.choose(prompt, **how))

    async def spent(self, attempt_id: str) -> Usage:
        """What this process has answered for one attempt, of the last ones that it answered for."""
        return self._attempts.get(attempt_id, Usage())

    async def stats(self) -> ReplicaStats:
        """What this process has done so far."""
        return self._stats

    async def check(self) -> None:
        """Return if the engine would answer (or is still loading); end the process where it is dead."""
        if self._loop is None or not self._stats.ready:
            return
        try:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._engine.check(), self._loop))
        except EngineDiedError:
            os._exit(_DIED)

    async def log_tail(self, lines: int) -> list[str]:
        """The last lines that this process wrote; empty where they cannot be found."""
        found: deque[str] = deque(maxlen=lines)
        for stream in ("1", "2"):
            path = Path(os.readlink(f"/proc/self/fd/{stream}"))
            if path.is_file():
                with path.open("rb") as file:
                    file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
                    found.extend(file.read().decode(errors="replace").splitlines())
        return list(found)

    async def _answer(self, attempt_id: str, asked: Coroutine[Any, Any, T]) -> tuple[T, int]:
        try:
            await self.load()
            answer = await asked
        except EngineDiedError:
            os._exit(_DIED)  # Ray restarts the process; whoever asked sends the request again
        except BaseException:
            asked.close()
            self._stats = replace(self._stats, failed=self._stats.failed + 1)
            raise
        self._stats = replace(self._stats, requests=self._stats.requests + 1, usage=self._stats.usage + answer.usage)
        self._metrics.count(answer.usage)
        self._attempts[attempt_id] = self._attempts.pop(attempt_id, Usage()) + answer.usage
        while len(self._attempts) > _ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]
        return answer, self._stats.running + self._stats.waiting

    async def _watch(self) -> None:
        """Look at the engine at short intervals for as long as the process lives."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            seen, stats = self._engine.occupancy(), self._stats
            busy = now - before if seen.running else 0.0
            total = stats.busy_seconds + busy
            peak = [use for use in (stats.kv_cache, seen.kv_cache) if use is not None]
            self._stats = replace(
                stats,
                running=seen.running,
                waiting=seen.waiting,
                busy_seconds=total,
                batch=(stats.batch * stats.busy_seconds + seen.running * busy) / total if total else 0.0,
                kv_cache=max(peak, default=None),
            )
            self._metrics.look(seen)
            before = now

"""One engine in a Ray actor that answers, counts, reports its figures, and ends its process if the engine has died."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar, cast

from grid.core.engine import Choice, Prompt, Sampled
from grid.core.errors import ConfigError, EngineDiedError, EngineError, GridError, UnfinishedError
from grid.core.types import Usage
from grid.engines import hosted
from grid.engines.hosted import HostedEngine, Probe, Probed, unassigned
from grid.settings.make import make

T = TypeVar("T", Sampled, Choice)
CONTROL = "control"
"""The concurrency group whose event loop stays free, even while the engine loads or hangs."""
_DIED = 70  # the process's exit status after the engine's death
_LOOK_SECONDS = 0.5
_ATTEMPTS = 10_000  # number of attempts whose usage is kept


@dataclass(frozen=True)
class ReplicaStats:
    """The figures of one process of a replica since it started.

    `busy_seconds` is the time during which the engine was computing, and `batch` is the mean number of requests that it
    processed at once during this time. `kv_cache` is the highest share of the KV cache that was in use; it is None if
    the engine does not report this share. `failed` does not include cancelled requests. `counts`: whether the engine
    can count the tokens of its answers.
    """

    name: str
    pid: int
    label: str = ""
    gpus: float = 0
    ready: bool = False
    requests: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    running: int = 0
    waiting: int = 0
    busy_seconds: float = 0.0
    batch: float = 0.0
    kv_cache: float | None = None
    counts: bool = True


@dataclass(frozen=True)
class Hosting:
    """The data that a replica gets in addition to its name and its model.

    Args:
        label: the model's name as shown to people.
        threads: the number of threads for computing on a CPU.
        ready_seconds: the time limit for loading, after which `check` ends the process.
        environment: the driver's environment variables that the engine needs. These variables are secrets, so they are
            passed as arguments of the actor, which Ray does not show; a runtime environment would appear in Ray's logs
            and dashboard.
    """

    label: str
    threads: int
    ready_seconds: float
    environment: Mapping[str, str] = field(repr=False)


class Replica:
    """The class of an actor whose process Ray restarts.

    Every request awaits `load`, so a request may arrive before the engine is loaded.

    Args:
        name: the actor's name.
        model: the config of the model group.
        hosting: all other data that the replica needs.
    """

    def __init__(self, name: str, model: Mapping[str, Any], hosting: Hosting) -> None:
        # This must come before torch is imported. Ray sets 1 thread for actors without CPUs. A waiting thread spins for
        # about 0.1 ms: without spinning, a small model's step takes twice as long; with longer spinning, other
        # processes stall.
        os.environ.update(hosting.environment, OMP_NUM_THREADS=str(hosting.threads), GOMP_SPINCOUNT="20000")
        os.environ.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", str(math.ceil(hosting.ready_seconds)))
        import ray

        from grid.cluster.metrics import ReplicaMetrics

        self._hosting = hosting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refused: UnfinishedError | None = None
        try:
            self._engine = cast(HostedEngine, make("model", model))
        except UnfinishedError as error:  # if raised here, every restarted process would print a traceback
            self._refused = error
            return
        self._stats = ReplicaStats(name, os.getpid(), hosting.label, self._engine.gpus)
        self._again: bool = ray.get_runtime_context().was_current_actor_reconstructed
        if len(getattr(self._engine, "bundles", ())) > 1:  # the engine starts processes with Ray
            os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
        self._metrics = ReplicaMetrics(name, self._again)
        self._attempts: dict[str, Usage] = {}  # the latest attempt is last
        self._loading: asyncio.Task[float | None] | None = None
        self._began = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def load(self, probes: Sequence[Probe] = ()) -> float | None:
        """Load the engine if it is not loaded yet; returns the result of `hosted.unassigned`.

        `probes`: the ways in which the model will be asked; each way is tried if the model's server may refuse it.

        If the engine cannot work, the actor's first process raises the error. A restarted process ends instead, so that
        Ray starts a new process and requests do not fail.
        """
        if self._refused:
            raise self._refused
        if self._loading is None:
            self._loop, self._began = asyncio.get_running_loop(), time.monotonic()
            self._loading = asyncio.create_task(self._load())
        share = await asyncio.shield(self._loading)
        if probes and isinstance(self._engine, Probed):
            await self._engine.probe(probes)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            # A plugin's engine may have no `counts`.
            self._stats = replace(self._stats, ready=True, counts=getattr(self._engine, "counts", True))
        return share

    async def sample(self, attempt_id: str, prompt: Prompt, **how: Any) -> tuple[Sampled, int]:
        """The engine's answer, and the number of the engine's requests when its load was last read."""
        return await self._answer(attempt_id, self._engine.sample(prompt, **how))

    async def choose(self, attempt_id: str, prompt: Prompt, **how: Any) -> tuple[Choice, int]:
        """The engine's answer, and the number of the engine's requests when its load was last read."""
        return await self._answer(attempt_id, self._engine.choose(prompt, **how))

    async def spent(self, attempt_id: str) -> Usage:
        """The usage of one attempt in this process; only the latest attempts are kept."""
        return self._attempts.get(attempt_id, Usage())

    async def stats(self) -> ReplicaStats:
        """The figures of this process so far."""
        return self._stats

    async def check(self) -> None:
        """Return if the engine works or is still loading; end the process if it is dead, hangs or loads for too long.

        If the event loop of the requests hangs, this call does not return.
        """
        if self._loop is None:
            return
        if not self._stats.ready:
            waited = time.monotonic() - self._began
            if waited > self._hosting.ready_seconds:
                _end(f"not loaded after {waited:.0f} s (cluster.ready_seconds)")
            return
        try:
            await self._engine.check()
        except EngineDiedError as error:
            _end(str(error))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop))

    async def log_tail(self, lines: int) -> list[str]:
        """The last lines of this process's log; empty if they cannot be found."""
        return hosted.tail(lines)

    async def _load(self) -> float | None:
        """Load the engine, and let it choose once; if loading fails for a possibly temporary reason, load once more."""
        try:
            try:
                await self._engine.load()
            except (ConfigError, EngineError):  # final errors: a server has already been asked several times
                raise
            except Exception as error:  # noqa: BLE001 - libraries raise many kinds if memory or a device is short
                print(f"loading is tried once more after this error: {error}", file=sys.stderr, flush=True)
                await self._engine.load()
            return await unassigned(self._engine)
        except Exception as error:
            if self._again:
                _end(f"not loaded: {error}")
            if isinstance(error, GridError):
                raise
            raise EngineDiedError(f"{type(error).__name__}: {error}") from error

    async def _answer(self, attempt_id: str, asked: Coroutine[Any, Any, T]) -> tuple[T, int]:
        try:
            await self.load()
            answer = await asked
        except EngineDiedError as error:
            _end(str(error))  # the client sends the request again
        except asyncio.CancelledError:
            asked.close()
            raise
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
        """Sample the engine's load at short intervals for as long as the process lives."""
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


def _end(why: str) -> NoReturn:
    """End this process, with a line in its log; Ray starts a new one."""
    print(f"this replica ends: {why}", file=sys.stderr, flush=True)
    os._exit(_DIED)

"""Waiting until replicas are loaded. If only some replicas fail, the sweep continues with the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grid.cluster.pool import Pool, Say, log_tail
from grid.core.errors import ConfigError, EngineError, UnfinishedError
from grid.engines.hosted import warning

_LOOK_SECONDS = 5.0
# The time after which the rest is late: a multiple of the time until every pool has a replica; minimum in seconds.
_PATIENCE = 3.0, 60.0


@dataclass(frozen=True)
class Late:
    """A replica that the sweep no longer waits for: the reason, and the call that loads it (None if loading failed)."""

    why: str
    task: Any = None


class _Loading:
    """All replicas of the pools: `pending` ones, by the call that loads them, and those that are `ready` or `late`."""

    def __init__(self, pools: Sequence[Pool], say: Say) -> None:
        self._pools, self._say = pools, say
        self._handles = {name: pool.handles[name] for pool in pools for name in pool.names}
        self._probes = {name: pool.probes for pool in pools for name in pool.names}
        self.pending = {handle.load.remote(self._probes[name]): name for name, handle in self._handles.items()}
        self.ready: set[str] = set()
        self.late: dict[str, Late] = {}
        self._again: set[str] = set()
        self._warned: set[str] = set()

    @property
    def usable(self) -> bool:
        """Whether every pool has a replica that is ready."""
        return all(self.ready.intersection(pool.names) for pool in self._pools)

    def expect_some(self, seconds: float, waited: float) -> None:
        """Raise EngineError, with the reasons, if all replicas of a pool are late."""
        for pool in self._pools:
            if not self.late.keys() >= set(pool.names):
                continue
            out_of_time = any(self.late[name].task is not None for name in pool.names)
            what = (
                f" within cluster.ready_seconds={seconds:g}"
                if out_of_time
                else f": loading failed after {waited:.0f} s"
            )
            reasons = "\n".join(f"{name}: {self.late[name].why}" for name in pool.names)
            raise EngineError(f"{pool.label}: no replica is ready{what}; {reasons}")

    def take(self, task: Any) -> None:
        """Handle an ended call to `load`. If the replica's process has ended too, `load` is called once more."""
        import ray

        name = self.pending.pop(task)
        try:
            share = ray.get(task)
            self.ready.add(name)
            self._warn(next(pool.label for pool in self._pools if name in pool.names), share)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ConfigError | UnfinishedError):
                raise error.cause from None
            self.late[name] = Late(str(error.cause))
        except ray.exceptions.RayActorError as error:
            if name in self._again:
                self.late[name] = Late(f"ended while it loaded: {error}{log_tail(self._handles[name], name)}")
            else:
                self._again.add(name)
                self._say(f"replica {name} ended while it loaded; it is started once more")
                self.pending[self._handles[name].load.remote(self._probes[name])] = name

    def _warn(self, label: str, share: float | None) -> None:
        """Print a warning, once, about a model whose choices put much of the probability outside the options."""
        told = warning(label, share)
        if told and label not in self._warned:
            self._warned.add(label)
            self._say(told)

    def leave(self, seconds: float) -> None:
        """Count all pending replicas as late."""
        for task, name in self.pending.items():
            self.late[name] = Late(f"not ready after {seconds:.0f} s{log_tail(self._handles[name], name)}", task)
        self.pending = {}


def wait(pools: Sequence[Pool], seconds: float, say: Say) -> dict[str, Late]:
    """Load all replicas; returns, by name, those that failed, or that take much longer than the others.

    `say` is called with a line of text from time to time.

    Raises:
        ConfigError, UnfinishedError: an error that keeps an engine from ever working.
        EngineError: all replicas of a pool failed, or no replica was ready within `seconds`. The error contains the
            replicas' errors or the ends of their logs. The error is raised as soon as the last replica has failed.
    """
    import ray

    started, loading, limit = time.monotonic(), _Loading(pools, say), seconds
    while loading.pending:
        waited = time.monotonic() - started
        if limit == seconds and loading.usable:
            limit = min(seconds, max(_PATIENCE[0] * waited, _PATIENCE[1]))
        if waited > limit:
            loading.leave(waited)
            break
        done, _ = ray.wait(list(loading.pending), num_returns=1, timeout=min(_LOOK_SECONDS, limit - waited + 0.1))
        for task in done:
            loading.take(task)
        loading.expect_some(seconds, time.monotonic() - started)
        if loading.ready or int(waited / _LOOK_SECONDS) % 6 == 1:
            total = sum(len(pool.names) for pool in pools)
            say(f"{len(loading.ready)} of {total} replicas are ready after {waited:.0f} s")
    loading.expect_some(seconds, time.monotonic() - started)
    return loading.late

"""Pools of replicas: started once for all settings that name the same model, watched, summed up, stopped."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from grid.engines.base import HostedEngine
from grid.engines.probe import warning
from grid.errors import ConfigError, EngineError
from grid.replicas.client import NAMESPACE
from grid.replicas.replica import CONTROL, Replica, ReplicaStats
from grid.types import Usage

_RESTARTS = 100
_LOOK_SECONDS = 5.0
_TAIL_LINES = 15
Say = Callable[[str], None]


@dataclass(frozen=True)
class Pool:
    """The replicas of one model. A `detached` pool outlives the program that started it."""

    label: str
    model: Mapping[str, Any]
    names: tuple[str, ...]
    handles: Mapping[str, Any] = field(repr=False)
    detached: bool = False


def pool_name(model: Mapping[str, Any]) -> str:
    """A pool's name: equal for equal configs of a model."""
    return "pool-" + hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()[:12]


def start(
    label: str,
    model: Mapping[str, Any],
    engine: HostedEngine,
    replicas: int,
    *,
    detached: bool,
    actor: type[Replica] = Replica,
) -> Pool:
    """Create the actors of a pool; nothing is loaded yet. Needs a connection to Ray.

    Args:
        label: the model's name for people.
        model: the config of the model group.
        engine: the same, built.
        replicas: how many; a gateway always has one.
        detached: whether it outlives this program.
        actor: the class of the replicas.
    """
    import ray

    count = 1 if engine.home == "gateway" else replicas
    stem = pool_name(model) if detached else f"{pool_name(model)}-{ray.get_runtime_context().get_job_id()}"
    threads = max((os.cpu_count() or 1) // count, 1)
    remote = ray.remote(
        num_cpus=0,  # those who ask wait, so that their CPUs are free
        num_gpus=engine.gpus,
        max_restarts=_RESTARTS,
        concurrency_groups={CONTROL: 16},
    )(actor)
    handles = {
        name: remote.options(name=name, namespace=NAMESPACE, lifetime="detached" if detached else None).remote(
            name, dict(model), threads
        )
        for name in (f"{stem}-{index}" for index in range(count))
    }
    return Pool(label, model, tuple(handles), handles, detached)


def find(label: str, model: Mapping[str, Any]) -> Pool | None:
    """The detached pool of a model, if one runs."""
    import ray

    stem = pool_name(model) + "-"
    names = sorted(
        found["name"]
        for found in ray.util.list_named_actors(all_namespaces=True)
        if found["namespace"] == NAMESPACE and found["name"].startswith(stem) and found["name"].count("-") == 2
    )
    handles = {name: ray.get_actor(name, namespace=NAMESPACE) for name in names}
    return Pool(label, model, tuple(names), handles, detached=True) if names else None


def check_gpus(wanted: Sequence[tuple[str, int, int]]) -> None:
    """Raise ConfigError where (label, replicas, GPUs per replica) ask for more GPUs than the cluster has."""
    import ray

    asked = ", ".join(f"{replicas} x {gpus} for {label}" for label, replicas, gpus in wanted if gpus)
    nodes = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
    total = sum(replicas * gpus for _, replicas, gpus in wanted)
    if total > sum(nodes):
        allowed = f"{total} GPUs are needed ({asked}), the cluster has {sum(nodes):g}; lower it, or sweep fewer models"
        raise ConfigError("cluster.replicas", max(replicas for _, replicas, _ in wanted), allowed)
    largest = max((gpus for _, _, gpus in wanted), default=0)
    if largest > max(nodes, default=0):
        allowed = f"a replica needs {largest} GPUs on one machine, the largest has {max(nodes, default=0):g}"
        raise ConfigError("model.serving.tensor_parallel", largest, allowed)


def wait(pools: Sequence[Pool], seconds: float, say: Say) -> None:
    """Load all replicas; `say` gets a line now and then, and a warning of a model that does not choose.

    Raises:
        ConfigError: what keeps an engine from ever working.
        EngineError: a replica that is not ready within `seconds`, with the tail of its log, or that keeps dying.
    """
    import ray

    started, handles = time.monotonic(), {name: pool.handles[name] for pool in pools for name in pool.names}
    labels = {name: pool.label for pool in pools for name in pool.names}
    pending = {handle.load.remote(): name for name, handle in handles.items()}
    warned: set[str] = set()
    while pending:
        waited = time.monotonic() - started
        if waited > seconds:
            names = ", ".join(pending.values())
            tails = "".join(_tail(handles[name], name) for name in pending.values())
            raise EngineError(f"not ready within cluster.ready_seconds={seconds:g}: {names}{tails}")
        done, _ = ray.wait(list(pending), num_returns=1, timeout=min(_LOOK_SECONDS, seconds - waited + 0.1))
        for task in done:
            name = pending.pop(task)
            try:
                share = ray.get(task)
                if labels[name] not in warned and (told := warning(labels[name], share)):
                    warned.add(labels[name])
                    say(told)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayActorError as error:
                tail = _tail(handles[name], name)
                raise EngineError(f"replica {name} ended while it loaded: {error}{tail}") from None
        if len(handles) > len(pending) or int(waited / _LOOK_SECONDS) % 6 == 1:
            say(f"replicas ready {len(handles) - len(pending)} of {len(handles)} after {waited:.0f} s")


def stop(pool: Pool) -> None:
    """End the actors of a pool."""
    import ray

    for handle in pool.handles.values():
        ray.kill(handle)


def restart(pool: Pool, name: str) -> None:
    """End a replica's process; Ray starts another."""
    import ray

    ray.kill(pool.handles[name], no_restart=False)


def well(pool: Pool, seconds: float) -> dict[str, bool]:
    """Whether each replica says within `seconds` that it is well, or is known to be starting again."""
    import ray

    asked = {name: _control(handle.check) for name, handle in pool.handles.items()}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    found = {}
    for name, task in asked.items():
        try:
            ray.get(task, timeout=0)
            found[name] = True
        except ray.exceptions.GetTimeoutError:
            found[name] = False
        except ray.exceptions.RayError:
            found[name] = True
    return found


def _control(method: Any, *arguments: object) -> Any:
    """Call a method on the event loop that stays free."""
    return method.options(concurrency_group=CONTROL).remote(*arguments)


def _tail(handle: Any, name: str) -> str:
    import ray

    try:
        lines = ray.get(_control(handle.log_tail, _TAIL_LINES), timeout=5)
    except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
        lines = ["(its log cannot be read)"]
    return "".join(f"\n  {name}: {line}" for line in lines)


def spent(pool: Pool, attempt_id: str, seconds: float = 5.0) -> Usage:
    """What the replicas that answer within `seconds` have done for one attempt."""
    import ray

    asked = [_control(handle.spent, attempt_id) for handle in pool.handles.values()]
    ended, _ = ray.wait(asked, num_returns=len(asked), timeout=seconds)
    usage = Usage()
    for task in ended:
        with suppress(ray.exceptions.RayError):
            usage += ray.get(task)
    return usage


def stats_of(pools: Sequence[Pool], seconds: float = 5.0) -> dict[str, ReplicaStats | None]:
    """What each replica has done; None for one that does not answer."""
    import ray

    asked = {name: _control(pool.handles[name].stats) for pool in pools for name in pool.names}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    found: dict[str, ReplicaStats | None] = {}
    for name, task in asked.items():
        try:
            found[name] = ray.get(task, timeout=0.1)
        except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
            found[name] = None
    return found

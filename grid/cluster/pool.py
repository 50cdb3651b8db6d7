"""Pools of replicas: starting, watching and stopping them. All settings with the same model share one pool."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from grid.cluster.client import NAMESPACE
from grid.cluster.replica import CONTROL, Hosting, Replica, ReplicaStats
from grid.core.types import Usage
from grid.engines.hosted import HostedEngine, Probe

_RESTARTS = 100
_TAIL_LINES = 15
_DETACHED = re.compile(r"pool-[0-9a-f]{12}")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Pool:
    """The replicas of one model. A `detached` pool outlives the program that started it.

    `probes`: the ways in which the program that is waiting for the pool will ask the pool's model.
    """

    label: str
    model: Mapping[str, Any]
    names: tuple[str, ...]
    handles: Mapping[str, Any] = field(repr=False)
    detached: bool = False
    probes: tuple[Probe, ...] = ()


def pool_name(model: Mapping[str, Any]) -> str:
    """The name of a model's pool; equal configs have equal names."""
    return "pool-" + hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()[:12]


def start(
    label: str,
    model: Mapping[str, Any],
    engine: HostedEngine,
    replicas: int,
    *,
    ready_seconds: float,
    detached: bool,
    turn: int = 0,
    actor: type[Replica] = Replica,
) -> Pool:
    """Create the actors of a pool; nothing is loaded yet. Needs a connection to Ray.

    The processes of a replica with GPUs are placed close together. In a cluster that can grow, these processes wait
    until there is room.

    Args:
        label: the model's name as shown to people.
        model: the config of the model group.
        engine: the engine built from this config.
        replicas: the number of replicas, as returned by `count`.
        ready_seconds: the time limit for loading.
        detached: whether the pool outlives this program.
        turn: a number that differs between the pools of one program, because Ray keeps an ended actor's name for a
            while.
        actor: the class of the replicas.
    """
    import ray

    stem = pool_name(model) if detached else f"{pool_name(model)}-{ray.get_runtime_context().get_job_id()}-{turn}"
    environment = {name: os.environ[name] for name in engine.environment if name in os.environ}
    hosting = Hosting(label, max((os.cpu_count() or 1) // replicas, 1), ready_seconds, environment)
    lifetime = "detached" if detached else None
    remote = ray.remote(
        num_cpus=0,  # tasks wait while they ask, so their CPUs are free
        max_restarts=_RESTARTS,
        concurrency_groups={CONTROL: 16},
    )(actor)
    names = [f"{stem}-{index}" for index in range(replicas)]
    places = {name: _place(name, bundles(engine), lifetime) for name in names if engine.gpus}
    handles = {
        name: remote.options(
            name=name, namespace=NAMESPACE, lifetime=lifetime, **_where(engine, places.get(name))
        ).remote(name, dict(model), hosting)
        for name in names
    }
    return Pool(label, model, tuple(names), handles, detached)


def count(engine: HostedEngine, asked: int) -> int:
    """The number of a model's replicas: 1 for a gateway, else the number in the config or, without one, `asked`."""
    if engine.home == "gateway":
        return 1
    return getattr(engine, "replicas", None) or asked


def bundles(engine: HostedEngine) -> tuple[float, ...]:
    """The number of GPUs for each process of a replica; a process's GPUs are on one machine. Empty on CPUs."""
    found: tuple[float, ...] = getattr(engine, "bundles", None) or ((engine.gpus,) if engine.gpus else ())
    return found


def _place(name: str, shares: Sequence[float], lifetime: str | None) -> Any:
    """Ask Ray for the GPUs of one replica; Ray gives all of them or none."""
    import ray

    return ray.util.placement_group([{"GPU": share} for share in shares], "PACK", name=name, lifetime=lifetime)


def _where(engine: HostedEngine, place: Any) -> dict[str, Any]:
    """The options that place an actor; if several processes need GPUs, the GPUs are left to the engine's processes."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    if place is None:
        return {}
    alone = len(place.bundle_specs) == 1
    there = PlacementGroupSchedulingStrategy(place, 0, placement_group_capture_child_tasks=not alone)
    return {"num_gpus": engine.gpus if alone else 0, "scheduling_strategy": there}


def running() -> dict[str, list[str]]:
    """The actors of the detached pools on this cluster, by pool name."""
    import ray

    found: dict[str, list[str]] = {}
    for actor in ray.util.list_named_actors(all_namespaces=True):
        stem, _, index = actor["name"].rpartition("-")
        if actor["namespace"] == NAMESPACE and _DETACHED.fullmatch(stem) and index.isdigit():
            found.setdefault(stem, []).append(actor["name"])
    return found


def named(stem: str, label: str = "", model: Mapping[str, Any] | None = None) -> Pool | None:
    """The detached pool with the given name; None if it is not running."""
    import ray

    names = sorted(running().get(stem, []))
    handles = {name: ray.get_actor(name, namespace=NAMESPACE) for name in names}
    return Pool(label or stem, model or {}, tuple(names), handles, detached=True) if names else None


def find(label: str, model: Mapping[str, Any]) -> Pool | None:
    """The detached pool of a model; None if it is not running."""
    return named(pool_name(model), label, model)


def stop(pool: Pool) -> None:
    """End the actors of a pool, and give their GPUs back."""
    import ray

    for handle in pool.handles.values():
        ray.kill(handle)
    for place in _places(pool.names):
        ray.util.remove_placement_group(place)


def placed(pool: Pool) -> bool:
    """Whether Ray has found the GPUs of at least one of the pool's replicas; true if the replicas need no GPUs."""
    states = [one["state"] for one in _table(pool.names)]
    return not states or "CREATED" in states


def _table(names: Sequence[str]) -> list[dict[str, Any]]:
    import ray

    return [one for one in ray.util.placement_group_table().values() if one["name"] in names]


def _places(names: Sequence[str]) -> list[Any]:
    """The placement groups of the replicas with these names, including groups created by another program."""
    from ray._raylet import PlacementGroupID  # a look-up by name would only search one namespace
    from ray.util.placement_group import PlacementGroup

    there = (one for one in _table(names) if one["state"] != "REMOVED")
    return [PlacementGroup(PlacementGroupID.from_hex(one["placement_group_id"])) for one in there]


def restart(pool: Pool, name: str) -> None:
    """End a replica's process; Ray starts a new one."""
    import ray

    ray.kill(pool.handles[name], no_restart=False)


def well(pool: Pool, seconds: float) -> dict[str, bool]:
    """Whether each replica is well; false only if it neither answers within `seconds` nor is known to have ended."""
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
    """Call an actor's method on the event loop that requests never block (`CONTROL`)."""
    return method.options(concurrency_group=CONTROL).remote(*arguments)


def log_tail(handle: Any, name: str) -> str:
    """The last lines of a replica's log, or one line that it cannot be read, with a line break before each."""
    import ray

    try:
        lines = ray.get(_control(handle.log_tail, _TAIL_LINES), timeout=5)
    except (ray.exceptions.RayError, ray.exceptions.GetTimeoutError):
        lines = ["(its log cannot be read)"]
    return "".join(f"\n  {name}: {line}" for line in lines)


def spent(pool: Pool, attempt_id: str, seconds: float = 5.0) -> Usage:
    """The usage of one attempt, summed over the replicas that answer within `seconds`."""
    import ray

    asked = [_control(handle.spent, attempt_id) for handle in pool.handles.values()]
    ended, _ = ray.wait(asked, num_returns=len(asked), timeout=seconds)
    usage = Usage()
    for task in ended:
        with suppress(ray.exceptions.RayError):
            usage += ray.get(task)
    return usage


def stats_of(pools: Sequence[Pool], seconds: float = 5.0) -> dict[str, ReplicaStats | None]:
    """The figures of each replica; None for a replica that does not answer within `seconds`."""
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

"""The GPUs of a cluster: whether the replicas' GPUs exist and are free, and which pools hold the other GPUs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from grid.cluster import pool
from grid.cluster.turns import Machines, machine, placed
from grid.core.errors import ConfigError

SETTLE_SECONDS = 10.0  # time until the GPUs of replicas that have just ended become free
_LOOK_SECONDS = 0.5


def every() -> list[list[float]]:
    """All GPUs of each machine that is alive, free or not."""
    import ray

    return [machine(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]]


def free() -> list[list[float]]:
    """The free GPUs of each machine."""
    from ray._private.state import available_resources_per_node  # Ray has no public function for it

    return [machine(float(resources.get("GPU", 0))) for resources in available_resources_per_node().values()]


def expect_place(team: Mapping[str, Sequence[float]], machines: Machines) -> None:
    """Raise ConfigError if the machines, with all their GPUs free, cannot hold one replica of each model of a team.

    `team`: the GPUs of each process of one replica, by the model's label.
    """
    shares = [share for one in team.values() for share in one]
    if placed(shares, machines) is not None:
        return
    largest, most = max(shares), max(map(len, machines), default=0)
    if largest > most and most:
        allowed = f"a replica needs {largest:g} GPUs on one machine, but the largest machine has {most:g}"
        raise ConfigError("model.serving.tensor_parallel", largest, allowed)
    asked = ", ".join(f"{sum(one):g} for {label}" for label, one in team.items())
    allowed = f"{sum(shares):g} GPUs are needed at once ({asked}), but the cluster has {sum(map(sum, machines)):g}"
    raise ConfigError("model", ", ".join(team), allowed)


def check(label: str, replicas: int, shares: Sequence[float]) -> None:
    """Raise ConfigError if the free GPUs cannot hold this many replicas of a model, even after `SETTLE_SECONDS`.

    `shares`: the GPUs of each process of one replica. The error names the running pools that hold GPUs, and the
    command that stops each pool.
    """
    expect_place({label: shares} if shares else {}, every())
    until = time.monotonic() + SETTLE_SECONDS
    while placed([*shares] * replicas, now := free()) is None:
        if placed([*shares] * replicas, every()) is None or time.monotonic() > until:
            raise no_room({label: [*shares] * replicas}, now)
        time.sleep(_LOOK_SECONDS)


def no_room(wanted: Mapping[str, Sequence[float]], now: Sequence[Sequence[float]]) -> ConfigError:
    """The error for models that do not fit in the GPUs that are free `now`.

    `wanted`: the GPUs of the models' processes, by label.
    """
    asked = ", ".join(f"{sum(shares):g} for {label}" for label, shares in wanted.items())
    total = sum(map(sum, wanted.values()))
    told = f"{sum(map(sum, now)):g} of {sum(map(sum, every())):g} GPUs are free"
    told += f", at most {max(map(sum, now), default=0):g} of them on one machine"
    return ConfigError("cluster", f"{total:g} GPUs", f"{total:g} GPUs are needed ({asked}), but {told}{holders()}")


def holders() -> str:
    """The detached pools that hold GPUs, each with the command that stops it, as a sentence's end; empty if none."""
    import ray

    address = ray.get_runtime_context().gcs_address
    told = ""
    for stem in pool.running():
        found = pool.named(stem)
        stats = [one for one in pool.stats_of([found]).values() if one] if found else []
        held = sum(one.gpus for one in stats)
        if held:
            line = f"agent-grid replicas stop {stem} cluster=address cluster.address={address}"
            told += f"; a pool of {stats[0].label} holds {held:g} GPUs, and `{line}` frees them"
    return told

"""Whether the GPUs that replicas ask for are there and free, and who holds them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from grid.cluster import pool
from grid.core.errors import ConfigError

_SETTLE_SECONDS = 10.0  # in which GPUs of replicas that have just ended become free
_LOOK_SECONDS = 0.5


def check(wanted: Sequence[tuple[str, int, float]]) -> None:
    """Raise ConfigError where (label, replicas, GPUs per replica) ask for more GPUs than the cluster has free.

    The error names running pools that hold some, and the line that stops each.
    """
    import ray

    asked = ", ".join(f"{replicas} x {gpus:g} for {label}" for label, replicas, gpus in wanted if gpus)
    nodes = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
    total, most = sum(replicas * gpus for _, replicas, gpus in wanted), max((one[1] for one in wanted), default=0)
    if total > sum(nodes):
        allowed = (
            f"{total:g} GPUs are needed ({asked}), the cluster has {sum(nodes):g}; lower it, or sweep fewer models"
        )
        raise ConfigError("cluster.replicas", most, allowed)
    largest = max((gpus for _, _, gpus in wanted), default=0)
    if largest > max(nodes, default=0):
        allowed = f"a replica needs {largest:g} GPUs on one machine, the largest has {max(nodes, default=0):g}"
        raise ConfigError("model.serving.tensor_parallel", largest, allowed)
    until = time.monotonic() + _SETTLE_SECONDS
    while total > sum(free := _free()) or largest > max(free, default=0):
        if time.monotonic() > until:
            told = f"{sum(free):g} of {sum(nodes):g} GPUs are free, {max(free, default=0):g} on one machine"
            allowed = f"{total:g} GPUs are needed ({asked}), {told}{_holders()}"
            raise ConfigError("cluster.replicas", most, allowed)
        time.sleep(_LOOK_SECONDS)


def _free() -> list[float]:
    """The free GPUs of each machine."""
    from ray._private.state import available_resources_per_node  # Ray has no public way

    return [float(resources.get("GPU", 0)) for resources in available_resources_per_node().values()]


def _holders() -> str:
    """Pools that hold GPUs, and how each is stopped, as the end of a sentence."""
    import ray

    address = ray.get_runtime_context().gcs_address
    told = ""
    for stem in pool.running():
        found = pool.named(stem)
        stats = [one for one in pool.stats_of([found]).values() if one] if found else []
        held = sum(one.gpus for one in stats)
        if held:
            line = f"agent-grid replicas stop {stem} cluster=address cluster.address={address}"
            told += f"; a pool of {stats[0].label} holds {held:g}, which `{line}` frees"
    return told

"""A replica's figures as Ray metrics: `ray_grid_replica_*` on Ray's Prometheus page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grid.core.types import Usage
from grid.engines.hosted import Occupancy

GAUGES = {
    "grid_replica_running_requests": "requests being computed now (the batch size)",
    "grid_replica_waiting_requests": "requests in the queue",
    "grid_replica_kv_cache_use": "share of the KV cache in use, 0 to 1",
}
COUNTERS = {
    "grid_replica_requests": "requests answered",
    "grid_replica_prefill_tokens": "prompt tokens computed",
    "grid_replica_cached_tokens": "prompt tokens read from a cache",
    "grid_replica_decode_tokens": "tokens generated",
    "grid_replica_restarts": "processes that replaced a process that had ended",
}


class ReplicaMetrics:
    """The metrics of one replica, tagged with its name; `again`: whether this process replaced one that ended."""

    def __init__(self, name: str, again: bool) -> None:
        self._meters, self._tags = Meters(COUNTERS, GAUGES, ("replica",)), {"replica": name}
        if again:
            self._add("restarts", 1)

    def count(self, usage: Usage) -> None:
        """Count one answered request."""
        self._add("requests", 1)
        self._add("prefill_tokens", usage.input_tokens - usage.cached_input_tokens)
        self._add("cached_tokens", usage.cached_input_tokens)
        self._add("decode_tokens", usage.output_tokens)

    def look(self, seen: Occupancy) -> None:
        """Set the gauges for the current requests and the KV cache."""
        self._set("running_requests", seen.running)
        self._set("waiting_requests", seen.waiting)
        if seen.kv_cache is not None:
            self._set("kv_cache_use", seen.kv_cache)

    def _add(self, name: str, amount: int) -> None:
        self._meters.add(f"grid_replica_{name}", amount, self._tags)

    def _set(self, name: str, value: float) -> None:
        self._meters.set(f"grid_replica_{name}", value, self._tags)


# Ray metrics by name. On Ray's Prometheus page, all names get the prefix `ray_`, and names of counters also the suffix
# `_total`.


class Meters:
    """Counters and gauges that all have the same tags. Ray must be connected when they are created.

    Args:
        counters: descriptions by name.
        gauges: descriptions by name.
        tags: the tags' names.
    """

    def __init__(self, counters: Mapping[str, str], gauges: Mapping[str, str], tags: tuple[str, ...]) -> None:
        from ray.util.metrics import Counter, Gauge

        def made(kind: Any, names: Mapping[str, str]) -> dict[str, Any]:
            return {name: kind(name, description=text, tag_keys=tags) for name, text in names.items()}

        self._counters, self._gauges = made(Counter, counters), made(Gauge, gauges)

    def add(self, name: str, amount: float, tags: Mapping[str, str]) -> None:
        """Add an amount to a counter."""
        if amount > 0:  # Ray refuses to add 0
            self._counters[name].inc(amount, dict(tags))

    def set(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._gauges[name].set(value, dict(tags))

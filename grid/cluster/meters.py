"""Ray metrics by name. On Ray's Prometheus page names get `ray_` in front, and counters `_total` behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Meters:
    """Counters and gauges that all carry the same tags; made in a process that is connected to Ray.

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
        """Count so many more of them."""
        if amount > 0:  # Ray refuses to count nothing
            self._counters[name].inc(amount, dict(tags))

    def set(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._gauges[name].set(value, dict(tags))

"""A running sweep's figures by setting as Ray metrics: `ray_grid_sweep_*` on Ray's Prometheus page."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from grid.cluster.batch import Report
from grid.cluster.metrics import Meters
from grid.settings.setting import GROUPS, Setting

COUNTERS = {
    "grid_sweep_cells_done": "cells that this run has given a row, failed ones included",
    "grid_sweep_cells_failed": "cells whose row says failed",
    "grid_sweep_input_tokens": "prompt tokens, cached ones and those of tries that died included",
    "grid_sweep_cached_input_tokens": "prompt tokens read from a cache",
    "grid_sweep_output_tokens": "tokens generated",
    "grid_sweep_worker_seconds": "seconds that tries of chunks took, those that died included",
}
GAUGES = {
    "grid_sweep_cells_in_flight": "cells of the chunks that were begun and have not ended",
    "grid_sweep_cells_per_second": "cells done a second, over the last minute",
    "grid_sweep_tokens_per_second": "prompt and generated tokens a second, over the last minute",
}
TAGS = ("sweep", *GROUPS, "setting_id")  # the tables' id tells apart runs of a name whose seed or budget differs
_WINDOW_SECONDS = 60.0


class SweepMetrics:
    """The metrics of a sweep, kept by its driver.

    Rates are gauges: Prometheus' own leave out what a counter holds when it is first seen, which is all that a short
    setting has.

    Args:
        sweep: its name.
        settings: those with cells to run.
    """

    def __init__(self, sweep: str, settings: Sequence[Setting]) -> None:
        self._meters = Meters(COUNTERS, GAUGES, TAGS)
        self._tags = {
            one.id: {"sweep": sweep, **{group: one.labels[group] for group in GROUPS}, "setting_id": one.id}
            for one in settings
        }
        self._started = time.monotonic()
        self._recent: deque[tuple[float, Report]] = deque()

    def count(self, report: Report) -> None:
        """Count what a try of a chunk did."""
        usage = report.usage
        amounts = {
            "cells_done": report.ok + report.failed,
            "cells_failed": report.failed,
            "input_tokens": usage.input_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "output_tokens": usage.output_tokens,
            "worker_seconds": report.seconds,
        }
        for name, amount in amounts.items():
            self._meters.add(f"grid_sweep_{name}", amount, self._tags[report.setting_id])
        self._recent.append((time.monotonic(), report))

    def look(self, in_flight: Mapping[str, int]) -> None:
        """Set what is in flight now, by setting id, and the rates."""
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] > _WINDOW_SECONDS:
            self._recent.popleft()
        cells, tokens = Counter[str](), Counter[str]()
        for _, report in self._recent:
            cells[report.setting_id] += report.ok + report.failed
            tokens[report.setting_id] += report.usage.input_tokens + report.usage.output_tokens
        seconds = max(min(now - self._started, _WINDOW_SECONDS), 1e-9)
        for setting_id, tags in self._tags.items():
            self._meters.set("grid_sweep_cells_in_flight", in_flight.get(setting_id, 0), tags)
            self._meters.set("grid_sweep_cells_per_second", cells[setting_id] / seconds, tags)
            self._meters.set("grid_sweep_tokens_per_second", tokens[setting_id] / seconds, tags)

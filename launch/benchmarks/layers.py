"""What a benchmark's processes did meanwhile: requests in hand over time, CPU seconds by kind of process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import psutil

_BOUNDS = (1, 8, 32, 128)


def in_hand(spans: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Seconds between the first beginning and the last end, by how many of the spans were open: `0`, `1 to 7`, ..."""
    changes = sorted([(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans])
    labels = ["0", *(f"{low} to {high - 1}" for low, high in pairwise(_BOUNDS))]
    labels.append(f"{_BOUNDS[-1]} or more")
    found = dict.fromkeys(labels, 0.0)
    count, since = 0, changes[0][0]
    for moment, change in changes:
        found[labels[sum(count >= bound for bound in _BOUNDS)]] += moment - since
        count, since = count + change, moment
    return found


def cpu_seconds() -> dict[str, float]:
    """CPU seconds of this machine by layer, since it or the process began; processes that ended count as other."""
    found: Counter[str] = Counter()
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
            found[_layer(process)] += times.user + times.system
        except psutil.Error:
            continue  # it has ended
    every = psutil.cpu_times()
    return dict(found) | {"other programs": every.user + every.nice + every.system - sum(found.values())}


def _layer(process: psutil.Process) -> str:
    name = " ".join(process.cmdline())
    if process.pid == os.getpid():
        return "the driver"
    if "EngineCore" in name:
        return "the engine"
    if "Replica" in name:
        return "the replica round the engine"
    if "launch.benchmarks.replay" in name:
        return "the replay, waiting"
    return "workers" if "ray::" in name else "Ray's own processes"

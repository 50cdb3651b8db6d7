"""The metrics that are ours, as `declared.txt` has them, in the order in which tables of columns do.

A data set, a planner or a scorer of a user's declares further ones in its attribute `metrics`; nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from grid.core.metric import Better, Kind, Metric

_FILE = Path(__file__).with_name("declared.txt")


def _read() -> Iterator[Metric]:
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, kind, unit, better, paper, meaning, null = (part.strip() for part in line.split("|"))
            yield Metric(name, unit, cast(Better, better), paper, cast(Kind, kind), meaning, null)


METRICS: tuple[Metric, ...] = tuple(_read())
BY_NAME = {metric.name: metric for metric in METRICS}

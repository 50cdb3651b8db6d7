"""A sweep's rates, and the dashboard's names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from grid.cluster import metrics as replica_metrics
from grid.cluster.batch import Report
from grid.core.types import Usage
from grid.settings.setting import GROUPS, Setting
from grid.sweeps import session
from grid.sweeps.session import SweepMetrics

DASHBOARD = Path(__file__).parents[3] / "launch" / "grafana.json"


class Written:
    """Keeps what would go to Ray, by name and setting id."""

    def __init__(self, *declared: object) -> None:
        self.values: dict[tuple[str, str], float] = {}

    def add(self, name: str, amount: float, tags: Mapping[str, str]) -> None:
        self.set(name, self.values.get((name, tags["setting_id"]), 0) + amount, tags)

    def set(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        assert set(tags) == set(session.TAGS)
        self.values[name, tags["setting_id"]] = value


def test_rates_are_of_the_last_minute_and_alike_labels_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(session, "Meters", Written)
    one, other = (Setting({group: {} for group in GROUPS}, dict.fromkeys(GROUPS, "x"), seed) for seed in (0, 1))
    shown = SweepMetrics("s", [one, other])
    written: Written = shown._meters  # type: ignore[assignment]

    def rates(setting: Setting) -> tuple[float, ...]:
        names = ("cells_per_second", "tokens_per_second", "cells_in_flight")
        return tuple(written.values[f"grid_sweep_{name}", setting.id] for name in names)

    now[0] += 10
    shown.count(Report(one.id, 4, ok=3, failed=1, usage=Usage(input_tokens=30, output_tokens=10), seconds=2.5))
    shown.look({one.id: 5})
    assert (rates(one), rates(other)) == ((0.4, 4.0, 5), (0, 0, 0))
    now[0] += 40
    shown.count(Report(other.id, 0, usage=Usage(input_tokens=20), seconds=1.0))
    shown.count(Report(other.id, 6, error="broken"))
    now[0] += 10
    shown.look({other.id: 6})
    assert rates(one) == (4 / 60, 40 / 60, 0)
    assert rates(other) == (0, 20 / 60, 6)
    now[0] += 11
    shown.look({})
    assert (rates(one), rates(other)) == ((0, 0, 0), (0, 20 / 60, 0))
    assert written.values["grid_sweep_cells_done", one.id] == 4
    assert written.values["grid_sweep_cells_done", other.id] == 0
    assert written.values["grid_sweep_worker_seconds", other.id] == 1.0


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    shown = set(re.findall(r"ray_(grid_\w+)", " ".join(expressions)))
    gauges, counters = session.GAUGES | replica_metrics.GAUGES, session.COUNTERS | replica_metrics.COUNTERS
    assert shown == set(gauges) | {f"{name}_total" for name in counters}
    sweeps = [expression for expression in expressions if "ray_grid_sweep_" in expression]
    by = f"sum by ({', '.join(tag for tag in session.TAGS if tag != 'setting_id')})"
    assert all(expression.startswith(by) for expression in sweeps), "seeds of a setting are one line"

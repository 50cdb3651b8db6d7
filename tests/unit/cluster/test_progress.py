"""The line that a sweep prints, also while no chunk of cells ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from grid.cluster.batch import Report
from grid.cluster.fleet import Fleet, Totals
from grid.cluster.replica import ReplicaStats
from grid.cluster.signs import Sign
from grid.core.types import Usage
from grid.settings.setting import GROUPS, Setting
from grid.sweeps import progress
from grid.sweeps.progress import SweepProgress


def test_a_line_comes_while_nothing_ends_and_says_what_the_replicas_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    settings = [Setting({group: {} for group in GROUPS}, dict.fromkeys(GROUPS, "x"), seed) for seed in (0, 1)]
    output = io.StringIO()
    fleet = Fleet([], 1, 1.0, print)
    stats = ReplicaStats("one", 1, requests=7, usage=Usage(input_tokens=1200, output_tokens=34))
    fleet._totals = {"one": Totals("model", "one", {1: stats, 2: stats}), "two": Totals("model", "two")}
    pending = {settings[0].id: 4, settings[1].id: 2}
    with SweepProgress(Console(file=output), tmp_path, settings, pending, total=1240) as shown:
        for _ in range(14):
            now[0] += 5
            shown.tick(fleet, in_flight=6, signs=[])
        now[0] += 5
        shown.update(Report(settings[0].id, 4, ok=3, failed=1, usage=Usage(input_tokens=10)))
        told = json.loads((tmp_path / "progress.json").read_text())
    lines = output.getvalue().splitlines()
    assert len(lines) == 4  # after 30, 60 and 75 s, and the last
    assert lines[0].startswith("cells 0/6 (1,234 of 1,240 were done before)  settings")
    assert "elapsed 0:30" in lines[0]
    assert lines[0].endswith("replicas answered 14 requests, 2,468 tokens")
    assert (told["state"], told["done"], told["in_flight"], told["seconds"]) == ("running", 4, 6, 75)
    assert [(one["done"], one["tokens"]) for one in told["settings"]] == [(4, 10), (0, 0)]
    assert json.loads((tmp_path / "progress.json").read_text())["state"] == "ended"
    assert "cells 4/6 (1,234 of 1,240 were done before)  settings 1/2  ok 3  failed 1" in lines[2]
    del told["total"]  # as in a file of earlier code
    (tmp_path / "progress.json").write_text(json.dumps(told))
    assert progress.line(progress.read_told(tmp_path)).startswith("cells 4/6  settings 1/2")


def test_cells_count_as_soon_as_they_end_and_once(tmp_path: Path) -> None:
    setting = Setting({group: {} for group in GROUPS}, dict.fromkeys(GROUPS, "x"), 0)
    with SweepProgress(Console(file=io.StringIO()), tmp_path, [setting], {setting.id: 9}, 9) as shown:
        signs = [(setting.id, Sign(1, 1, "node", ended=3, ok=2, tokens=50)), (setting.id, Sign(2, 1, "node", ended=1))]
        shown.tick(Fleet([], 1, 1.0, print), 5, signs)
        told = shown.document()
        assert (told["done"], told["ok"], told["failed"], told["settings"][0]["tokens"]) == (4, 2, 2, 50)
        shown.update(Report(setting.id, 5, ok=4, failed=1, usage=Usage(input_tokens=80)), signs[1:])
        told = shown.document()
        assert (told["done"], told["ok"], told["failed"], told["settings"][0]["tokens"]) == (6, 4, 2, 80)


def test_without_replicas_nothing_is_said_of_them() -> None:
    assert Fleet([], 1, 1.0, print).told() == ""

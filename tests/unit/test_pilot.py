"""A dry run's forecast against what the cells then spend."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from grid.engines.lexical.engine import Lexical
from grid.runner.build import build
from grid.runner.check import check_sweep
from grid.runner.pilot import tokens_per_cell
from grid.runner.plan import Plan
from grid.runner.run import Stamp, run_chunk
from tests.configs import job


def plan(root: Path, cases: int) -> Plan:
    return check_sweep([job(root, name="pilot", dry_run=True, dataset__limit=cases)]).plan


def test_the_forecast_is_near_what_is_spent(tmp_path: Path) -> None:
    checked = plan(tmp_path, cases=30)
    (setting,) = checked.settings
    forecast = tokens_per_cell(checked, setting)
    cells = list(checked.cells_of(setting))
    usage = asyncio.run(run_chunk(build(setting, checked.budget), setting, cells, Stamp("x", None))).usage
    spent = (usage.input_tokens + usage.output_tokens) / len(cells)
    assert forecast == pytest.approx(spent, rel=0.5)
    assert not (tmp_path / "pilot").exists(), "a pilot keeps nothing"


def test_an_engine_that_lives_elsewhere_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lexical, "home", "replica")
    checked = plan(tmp_path, cases=2)
    assert tokens_per_cell(checked, checked.settings[0]) is None

"""Whatever is killed, and whenever: no row is lost, doubled or otherwise than an undisturbed sweep's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from launch.benchmarks.chaos import DRIVER, NODE, RAYLET, REPLICA, UNDISTURBED, WORKER, Log, chaos

CASES = ("planner=react", "dataset.limit=80")
SWEEP, LONG_SWEEP = [*CASES, "trials=2"], [*CASES, "trials=4"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sweep has run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("chaos")
    chaos(folder, 0, 0, SWEEP, print)
    return folder


@pytest.fixture
def folder(undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, for a few kills, which follow one another so fast that so short a sweep has room for them."""
    monkeypatch.setattr("launch.benchmarks.chaos._PAUSE_SECONDS", (0.05, 0.6))
    monkeypatch.setattr("launch.benchmarks.chaos._AWAY_SECONDS", (0.0, 1.0))
    return shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)


def survived_moments(log: Log, kills: int, *kinds: str) -> None:
    """A sweep with a Ray of its own lost nothing."""
    assert log.wrong() == []
    assert log.failed == 0
    assert sum(log.kills.values()) == kills
    assert set(log.kills) == set(kinds)
    spent, counted = log.tokens[UNDISTURBED]
    assert spent == counted > 0


@pytest.mark.slow  # drivers, and whole machines with their raylets, are killed every time, below
def test_a_sweep_survives_kills_at_random_moments(folder: Path) -> None:
    survived_moments(chaos(folder, 2, 0, SWEEP, print, kinds=(DRIVER, RAYLET)), 2, DRIVER, RAYLET)


@pytest.mark.slow
def test_a_longer_sweep_survives_many_kills_at_random_moments(tmp_path: Path) -> None:
    survived_moments(chaos(tmp_path, 30, 0, LONG_SWEEP, print), 30, DRIVER, RAYLET, WORKER)


@pytest.mark.slow
def test_a_sweep_survives_killed_replicas(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.support.models import make_model

    # One request at a time, so that a draw does not hang on what else is in the batch.
    model = ["model=local", f"model.path={make_model(tmp_path, context=16384)}", "model.serving.max_batch=1"]
    model += ["model.max_tokens=48", "cluster.replicas=2", "cluster.chunk_cells=4"]
    cases = ["planner=react", "dataset.limit=4", "dataset.max_substeps=11", "retriever.top_k=4", "trials=2"]
    log = chaos(tmp_path, 20, 0, [*model, *cases], print)
    assert log.wrong() == []
    assert {REPLICA, WORKER} <= set(log.kills)


def survived_nodes(log: Log) -> None:
    """A sweep on a cluster whose machines come and go lost nothing."""
    assert log.wrong() == []
    assert set(log.kills) == {DRIVER, NODE, WORKER}
    assert log.failed == 0, "a node's death ends no driver"
    assert log.used > 0, "chunks run on a node that joined"


def test_a_sweep_survives_nodes_that_die_and_join(folder: Path) -> None:
    survived_nodes(chaos(folder, 3, 0, SWEEP, print, nodes=2, kinds=(DRIVER, NODE, WORKER)))


@pytest.mark.slow
def test_a_longer_sweep_survives_many_nodes_that_die_and_join(tmp_path: Path) -> None:
    survived_nodes(chaos(tmp_path, 30, 0, LONG_SWEEP, print, nodes=2))

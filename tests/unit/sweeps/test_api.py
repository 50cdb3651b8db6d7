"""What `grid.sweep` leaves of the process that calls it, and of its other threads, without a cluster."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

import grid
from grid.plugins import VARIABLE
from grid.sweeps import jobs

SWEEP = ("planner=react", "model=lexical", "robustness=none")


@pytest.fixture
def hydra(tmp_path: Path) -> Iterator[object]:
    """A Hydra of the caller's own."""
    (tmp_path / "own.yaml").write_text("mine: 1\n")
    with initialize_config_dir(str(tmp_path), version_base=None):
        yield GlobalHydra.instance().hydra


def test_the_callers_hydra_plugins_and_random_numbers_are_as_before(
    hydra: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    allowed = []

    def run(found: object) -> bool:
        random.seed(1)
        allowed.append(os.environ[VARIABLE])
        return True

    monkeypatch.setattr(jobs, "run", run)
    before = dict(os.environ), list(sys.meta_path), random.getstate()
    assert grid.sweep(*SWEEP, "plugins=[mylab]").complete
    assert "mylab" in allowed[0]
    assert (dict(os.environ), list(sys.meta_path), random.getstate()) == before
    assert GlobalHydra.instance().hydra is hydra
    assert compose("own").mine == 1


def test_sweeps_of_two_threads_run_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, ended = list[int](), list[int](), list[bool | None]()

    def run(found: object) -> bool:
        inside.append(1)
        time.sleep(0.2)  # room for the other
        most.append(len(inside))
        inside.pop()
        return True

    def sweep() -> None:
        with suppress(grid.ConfigError):
            ended.append(grid.sweep(*SWEEP).complete)

    monkeypatch.setattr(jobs, "run", run)
    threads = [threading.Thread(target=sweep) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (most, ended) == ([1, 1], [True, True])

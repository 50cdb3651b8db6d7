"""`agent-grid replicas`: what it refuses before it asks a cluster for anything, and which pools it stops."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from rich.console import Console

from grid.cluster import gpus, pool
from grid.core.errors import ConfigError, EngineError
from grid.settings.config import sweep_config
from launch import replicas
from tests.support.configs import SHARED, yaml
from tests.support.in_process import called


@pytest.mark.parametrize("model", ["simulated", "lexical", "null_engine"])
def test_a_model_that_runs_in_each_worker_has_no_pool(model: str) -> None:
    with pytest.raises(ConfigError, match="a model that runs in replicas") as caught:
        replicas.start(model, sweep_config(SHARED), yaml("model", model), Console())
    assert (caught.value.key, caught.value.value) == ("model", model)


def test_a_config_that_cannot_be_resolved_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(replicas.main, monkeypatch, capsys)("status", "model=simulated", "cluster=address", "name=${nope}")
    assert ended.status == 2
    assert ended.out.startswith("error: Interpolation key 'nope' not found")
    assert len(ended.out.splitlines()) == 1


@pytest.mark.parametrize("running", [False, True])
def test_a_pool_that_was_running_already_is_not_stopped(running: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started, stopped = SimpleNamespace(), list[object]()

    def fail(pools: Sequence[Any], seconds: float, say: object) -> NoReturn:
        raise EngineError("no replica is ready")

    monkeypatch.setattr(replicas, "wait", fail)
    monkeypatch.setattr(replicas, "build_engine", lambda model: SimpleNamespace(home="replica"))
    monkeypatch.setattr(gpus, "check", lambda *_: None)
    for name, made in {
        "find": lambda *_: started if running else None,
        "start": lambda *_, **__: started,
        "count": lambda *_: 1,
        "bundles": lambda _: (),
        "stop": stopped.append,
    }.items():
        monkeypatch.setattr(pool, name, made)
    with pytest.raises(EngineError, match="no replica is ready"):
        replicas.start("local", sweep_config(SHARED), {}, Console())
    assert stopped == ([] if running else [started])

"""GPUs that replicas ask for: how long they are waited for, on a clock of its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import ray

from grid.cluster import gpus
from grid.core.errors import ConfigError


def test_gpus_that_become_free_are_waited_for_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, freed = [100.0], 105.0

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(gpus, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"GPU": 1.0}}])
    monkeypatch.setattr(gpus, "_free", lambda: [float(clock[0] >= freed)])
    monkeypatch.setattr(gpus, "_holders", lambda: "")
    gpus.check([("tiny", 1, 1.0)])
    assert clock == [freed]
    freed = 1000.0
    with pytest.raises(ConfigError, match=r"1 GPUs are needed \(1 x 1 for tiny\), 0 of 1 GPUs are free"):
        gpus.check([("tiny", 1, 1.0)])
    assert clock[0] < freed

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
    monkeypatch.setattr(gpus, "free", lambda: [[1.0] if clock[0] >= freed else []])
    monkeypatch.setattr(gpus, "holders", lambda: "")
    gpus.check("tiny", 1, [1.0])
    assert clock == [freed]
    freed = 1000.0
    with pytest.raises(ConfigError, match=r"1 GPUs are needed \(1 for tiny\), but 0 of 1 GPUs are free"):
        gpus.check("tiny", 1, [1.0])
    assert clock[0] < freed


def test_what_never_fits_is_refused_by_what_there_is() -> None:
    machines = [[1.0, 1.0], [1.0]]
    gpus.expect_place({"actor": [2.0], "judge": [1.0]}, machines)
    gpus.expect_place({}, [])
    with pytest.raises(
        ConfigError, match="a replica needs 3 GPUs on one machine, but the largest machine has 2"
    ) as caught:
        gpus.expect_place({"actor": [3.0]}, machines)
    assert caught.value.key == "model.serving.tensor_parallel"
    with pytest.raises(
        ConfigError, match=r"4 GPUs are needed at once \(2 for actor, 2 for judge\), but the cluster has 3"
    ):
        gpus.expect_place({"actor": [2.0], "judge": [2.0]}, machines)

"""A fleet whose GPUs somebody else takes, on a clock of its own and without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from grid.cluster import fleet as fleets
from grid.cluster import gpus
from grid.cluster.fleet import Fleet, Hosted
from grid.cluster.turns import Turns
from grid.engines.hosted import HostedEngine

TEAM = frozenset({"a"})


def waiting(said: list[str], monkeypatch: pytest.MonkeyPatch, clock: list[float], **how: Any) -> Fleet:
    """One whose only model waits, with a machine of one GPU that others hold."""
    monkeypatch.setattr(fleets, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda _: None))
    monkeypatch.setattr(gpus, "free", lambda: [[]])
    monkeypatch.setattr(gpus, "every", lambda: [[1.0]])
    monkeypatch.setattr(gpus, "holders", lambda: "")
    found = Fleet([], 1, 30.0, said.append, **how)
    engine = cast(HostedEngine, SimpleNamespace(gpus=1.0, home="replica"))
    found._models = {"a": Hosted("llama", {}, engine)}
    found._turns = Turns({"a": [1.0]}, [TEAM])
    return found


def test_gpus_that_others_took_are_waited_for_and_then_only_that_model_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    said, clock = list[str](), [100.0]
    fleet = waiting(said, monkeypatch, clock)
    for _ in range(20):
        fleet.advance()
        clock[0] += 1.4
    assert fleet.lost(TEAM) is None
    assert said == ["llama (1 GPU): waits at most cluster.ready_seconds=30 for GPUs that others hold"], "once"
    assert "waiting: llama (1 GPU)" in fleet.told()
    clock[0] += 30
    fleet.advance()
    assert "1 GPUs are needed (1 for llama), but 0 of 1 GPUs are free" in str(fleet.lost(TEAM))
    assert fleet._turns.waiting == []
    fleet.need([TEAM])
    assert fleet.lost(TEAM) is None, "a further run tries again"


def test_a_cluster_that_grows_is_asked_for_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    said, clock, begun = list[str](), [100.0], list[str]()
    fleet = waiting(said, monkeypatch, clock, grows_to=1)
    monkeypatch.setattr(fleet, "_load", begun.append)
    fleet.advance()
    assert begun == ["a"]
    assert fleet._free() == [[]], "all that it will have is taken"

"""Replicas that end while they load, without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import ray

from grid.cluster import ready
from grid.core.errors import EngineError


class Ending:
    """A replica whose process ends as it loads, so many times; a call is its number."""

    def __init__(self, ends: int) -> None:
        self.ends, self.calls, self.probed = ends, 0, list[str]()
        self.load = SimpleNamespace(remote=self._load)

    def _load(self, probes: str) -> int:
        self.calls += 1
        self.probed.append(probes)
        return self.calls

    def get(self, task: int) -> float | None:
        if task <= self.ends:
            raise ray.exceptions.RayActorError
        return None


def loaded(replica: Ending, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """What is known of the replica once no call is pending, and what was said."""
    monkeypatch.setattr(ray, "get", replica.get)
    monkeypatch.setattr(ready, "log_tail", lambda *_: "")
    pool = SimpleNamespace(label="tiny", names=("one",), handles={"one": replica}, probes="probes")
    said = list[str]()
    found = ready._Loading([cast(Any, pool)], said.append)
    while found.pending:
        found.take(next(iter(found.pending)))
    return found, said


def test_a_replica_that_ends_while_it_loads_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found, said = loaded(replica := Ending(1), monkeypatch)
    assert found.usable
    assert replica.probed == ["probes"] * 2, "the new process is asked what the first one was"
    assert said == ["replica one ended while it loaded; it is started once more"]


def test_one_that_ends_twice_is_late_with_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = loaded(replica := Ending(2), monkeypatch)
    assert replica.calls == 2
    assert not found.usable
    with pytest.raises(EngineError, match="one: ended while it loaded"):
        found.expect_some(10.0, 3.0)

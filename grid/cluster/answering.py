"""One engine for a program other than a sweep; it runs in the program's process, or in replicas if it holds weights."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

from grid.cluster import connection as cluster
from grid.cluster.client import PooledEngine
from grid.cluster.fleet import Fleet
from grid.cluster.pool import Say
from grid.core.engine import Engine
from grid.engines.hosted import HostedEngine, Probe, Probed
from grid.settings.build import build_engine
from grid.settings.config import ClusterConfig
from grid.settings.extras import expect_installed
from grid.settings.setting import Setting


@dataclass(frozen=True)
class Answering:
    """A model to ask: its label, its config, the cluster for its replicas, and the ways in which it will be asked."""

    label: str
    model: Mapping[str, Any]
    cluster: ClusterConfig
    probes: tuple[Probe, ...] = ()


@contextmanager
def answering(asked: Answering, say: Say) -> Iterator[Engine]:
    """Yield the engine. If the engine runs in replicas, they are ready to answer; any other engine is not loaded yet.

    Raises:
        ConfigError: the model's config is invalid, there are not enough GPUs, the engine can never work, packages that
            it needs are not installed, or the cluster cannot be used (`connect`).
        EngineError: no replica becomes ready.
        GridError: Ray has run in the process that this one was forked from.
        UnfinishedError: Ray does not start on this machine.
    """
    engine = build_engine(asked.model)
    if engine.home != "replica":
        yield engine
        return
    setting = Setting({"model": asked.model}, {"model": asked.label}, seed=0)
    for line in expect_installed([setting], here=asked.cluster.kind != "address"):
        say(line)
    say(cluster.connect(asked.cluster))
    try:
        with Fleet([setting], asked.cluster.replicas, asked.cluster.ready_seconds, say) as fleet:
            yield cast(Engine, PooledEngine(engine, fleet.handles(asked.model), uuid.uuid4().hex))
    finally:
        cluster.disconnect()


async def loaded(asked: Answering, say: Say, stack: ExitStack) -> Engine:
    """The engine of `answering`, loaded and ready wherever it runs. It stays ready until `stack` is closed.

    Raises the errors of `answering`, and those of the engine's `load` and `probe`.
    """
    engine = stack.enter_context(answering(asked, say))
    if engine.home == "gateway":
        await cast(HostedEngine, engine).load()
        if isinstance(engine, Probed):
            await engine.probe(asked.probes)
    return engine

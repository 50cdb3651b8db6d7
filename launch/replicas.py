"""Pools of replicas that outlive a sweep: `agent-grid replicas start|status|stop model=... cluster=address ...`.

A sweep on the same cluster joins the pool automatically if it names the same model with the same config values.
`status` and `stop` also accept a pool's name in place of its model: `stop pool-0123456789ab cluster=address ...`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra_plugins.grid_sweeper import register
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.markup import escape

from analysis.page.render import wide
from grid import CONF
from grid.cluster import connection as cluster
from grid.cluster import gpus, pool
from grid.cluster.fleet import Totals
from grid.cluster.pool import Pool
from grid.cluster.ready import wait
from grid.core.errors import ConfigError, GridError
from grid.core.untrusted import shown_lines
from grid.engines.hosted import HostedEngine
from grid.settings.build import build_engine
from grid.settings.config import SweepConfig, sweep_config
from grid.settings.make import unpriced
from grid.settings.weights import identified
from grid.sweeps.arguments import refusal
from grid.sweeps.composing import prepared
from grid.sweeps.session import replicas_table


def start(label: str, config: SweepConfig, model: Mapping[str, Any], console: Console) -> None:
    """Start a pool that outlives this program, or find one already running; returns when it is loaded.

    Replicas that fail, or take much longer than the others, are named and not waited for.

    Raises:
        ConfigError: the model does not run in replicas, the cluster has no room for it, or it can never work.
        GridError: no replica can be loaded. After an error of loading, a pool that was started here is stopped.
    """
    built = build_engine(model)
    if built.home == "task":
        raise ConfigError(
            "model", label, "a model that runs in replicas; this one runs in each worker, and loads nothing"
        )
    engine = cast(HostedEngine, built)
    found = running = pool.find(label, model)
    if not found:
        replicas = pool.count(engine, config.cluster.replicas)
        if not config.cluster.grows_to:
            gpus.check(label, replicas, pool.bundles(engine))
        seconds = config.cluster.ready_seconds
        found = pool.start(label, model, engine, replicas, ready_seconds=seconds, detached=True)
    say = partial(console.print, markup=False, soft_wrap=True)
    try:
        late = wait([found], config.cluster.ready_seconds, say)
    except GridError:
        if not running:  # a sweep may be using a pool that was running
            pool.stop(found)
        raise
    for name, one in late.items():
        say(f"replica {name} is not ready: {one.why}")
        if one.task is None:
            pool.restart(found, name)
    ready = len(found.names) - len(late)
    console.print(f"{label}: {ready} replicas are running; sweeps on this cluster will join them", soft_wrap=True)


def status(label: str, found: Pool | None, console: Console) -> None:
    """Print the figures of a running pool's replicas, or that there is no such pool."""
    if not found:
        console.print(f"{label}: no running pool has this model configuration", soft_wrap=True)
        return
    totals = []
    for name, stats in pool.stats_of([found]).items():
        if stats is None:
            console.print(f"{name}: does not answer (it is being started again, or hangs)", soft_wrap=True)
        else:
            totals.append(Totals(label, name, {stats.pid: stats}, stats.busy_seconds))
    if totals:
        wide(console).print(replicas_table(totals))


def stop(label: str, found: Pool | None, console: Console) -> None:
    """End a running pool."""
    if found:
        pool.stop(found)
    console.print(f"{label}: {len(found.names) if found else 0} replicas stopped", soft_wrap=True)


def main() -> int:
    """Exit status 0, or 2 if the command cannot run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["start", "status", "stop"])
    parser.add_argument("overrides", nargs="*", help="keys as for a sweep: model=..., cluster=address, ...")
    arguments = parser.parse_args()
    stem = next((one for one in arguments.overrides if "=" not in one), None) if arguments.command != "start" else None
    overrides = [one for one in arguments.overrides if one != stem]
    console = Console(highlight=False, emoji=False)
    register()
    try:
        with initialize_config_dir(str(CONF), version_base=None):
            composed = compose("config", prepared(overrides), return_hydra_config=True)
        label = str(composed.hydra.runtime.choices.model)
        plain = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
        values = cast(dict[str, Any], OmegaConf.to_container(plain, resolve=True))
        config, model = sweep_config(values), unpriced(identified(values["model"]))
        if config.cluster.kind != "address":
            raise ConfigError(
                "cluster",
                config.cluster.kind,
                "must be address, because a pool that stays loaded needs a cluster that keeps running",
            )
        console.print(cluster.connect(config.cluster), soft_wrap=True)
        if arguments.command == "start":
            start(label, config, model, console)
        else:
            found = pool.named(stem) if stem else pool.find(label, model)
            {"status": status, "stop": stop}[arguments.command](stem or label, found, console)
    except (GridError, HydraException, OmegaConfBaseException) as error:
        several = isinstance(error, GridError) and not isinstance(error, ConfigError)  # a line for each replica
        told = str(error) if several else refusal(error, overrides)
        console.print(f"[bold red]error:[/] {escape(shown_lines(told))}", soft_wrap=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

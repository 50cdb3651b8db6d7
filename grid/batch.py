"""A checked sweep on a Ray cluster: chunks of cells as tasks, a bounded number of them in flight."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from grid import store
from grid.build import BudgetConfig, ClusterConfig, build
from grid.cell import Cell, Setting, cells
from grid.errors import ConfigError
from grid.replicas.client import PooledEngine
from grid.replicas.fleet import Fleet
from grid.run import Stamp, run_chunk
from grid.types import Usage

_ANSWER_SECONDS = 5.0
_WAITING_CPUS = 0.25  # of a task whose engine is elsewhere
_TICK_SECONDS = 5.0
_RETRIES = 3  # of a task whose process died; a raised exception is never retried by Ray


@dataclass(frozen=True)
class Plan:
    """A checked sweep: its settings with their cells, lazily, and where results go."""

    name: str
    root: Path
    settings: Sequence[Setting]
    case_ids: dict[str, Sequence[str]]
    dataset_versions: dict[str, str]
    trials: int
    budget: BudgetConfig
    cluster: ClusterConfig
    retry: store.Retry = "none"
    git_commit: str | None = None

    def cells_of(self, setting: Setting) -> Iterator[Cell]:
        """All cells of a setting, finished ones included."""
        return cells(setting, self.dataset_versions[setting.id], self.case_ids[setting.id], self.trials)

    def total(self) -> int:
        """Cells in all."""
        return sum(len(self.case_ids[setting.id]) * self.trials for setting in self.settings)

    def finished(self) -> set[str]:
        """The ids of the cells that need not run; hold the folder's lock from here to the run."""
        return store.finished(self.root, self.retry)

    def chunks(self, done: set[str]) -> Iterator[tuple[Setting, list[Cell]]]:
        """The cells that are not `done`, setting by setting, `cluster.chunk_cells` at a time."""
        for setting in self.settings:
            pending = (cell for cell in self.cells_of(setting) if cell.cell_id not in done)
            while chunk := list(islice(pending, self.cluster.chunk_cells)):
                yield setting, chunk


@dataclass
class Report:
    """What a chunk did; `error` where the chunk as a whole was lost."""

    setting_id: str
    cells: int
    ok: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    error: str | None = None


def connect(cluster: ClusterConfig) -> str:
    """Start or join Ray; returns what to tell the user about where it can be watched.

    Raises:
        ConfigError: no cluster answers at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if cluster.kind == "address":
        _expect_an_answer(cluster.address or "")
        os.environ["RAY_AUTH_MODE"] = cluster.auth
    import ray  # reads its authentication mode when it is imported, so not before the line above

    logging.getLogger("ray").setLevel(logging.ERROR)
    quiet: dict[str, Any] = {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "configure_logging": False,
    }
    if cluster.kind == "local":
        # Ray makes a token of its own here, which guards the ports that it opens on all addresses; naming the mode
        # before the token exists would stop the head from starting.
        context = ray.init(
            num_cpus=cluster.cpus,
            include_dashboard=cluster.dashboard,
            dashboard_host="127.0.0.1",
            **quiet,
        )
        return (
            f"Ray dashboard: http://{context.dashboard_url}" if context.dashboard_url else "Ray runs without dashboard"
        )
    try:
        ray.init(address=cluster.address, **quiet)
    except ray.exceptions.AuthenticationError:
        allowed = "how the cluster was started: token (and this machine holds its token) or disabled"
        raise ConfigError("cluster.auth", cluster.auth, allowed) from None
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            "cluster.address",
            cluster.address,
            f"a Ray cluster that answers with cluster.auth={cluster.auth} ({error})",
        ) from None
    return f"joined the Ray cluster at {cluster.address}"


def cpus() -> int:
    """The CPUs of the cluster."""
    import ray

    return int(ray.cluster_resources().get("CPU", 1))


def disconnect() -> None:
    """Leave the cluster, or stop the one that was started here."""
    import ray

    ray.shutdown()


def _expect_an_answer(address: str) -> None:
    """Raise ConfigError where nothing listens at `host:port`; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdigit()):
        raise ConfigError("cluster.address", address, "the address of a running cluster, host:port")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError("cluster.address", address, f"no Ray cluster answers there ({error})") from None


def run(
    plan: Plan, done: set[str], report: Callable[[Report], None], fleet: Fleet, tick: Callable[[], None] | None = None
) -> None:
    """Run every cell that is not `done`; `report` is called in the driver as each ends, in the order of ending.

    The `fleet` holds the replicas of the plan's models; `tick` is called now and then while no chunk ends.
    """
    import ray

    limit = plan.cluster.chunks_in_flight or 2 * cpus()
    pending = plan.chunks(done)
    in_flight: dict[Any, Report] = {}
    remote_chunk = ray.remote(max_retries=_RETRIES)(_chunk)
    while True:
        for setting, chunk in islice(pending, limit - len(in_flight)):
            stamp = Stamp(plan.name, plan.git_commit)
            handles = fleet.handles(setting.config["model"])
            task = remote_chunk.options(num_cpus=_WAITING_CPUS if handles else 1).remote(
                setting, chunk, plan.budget, str(plan.root.absolute()), stamp, handles
            )
            in_flight[task] = Report(setting.id, len(chunk))
        if not in_flight:
            return
        ended, _ = ray.wait(list(in_flight), num_returns=1, timeout=_TICK_SECONDS)
        if not ended and tick:
            tick()
        for task in ended:
            lost = in_flight.pop(task)
            try:
                report(ray.get(task))
            except ray.exceptions.RayError as error:
                lost.error = str(error).strip().splitlines()[-1]
                report(lost)


def _chunk(
    setting: Setting, chunk: list[Cell], budget: BudgetConfig, root: str, stamp: Stamp, replicas: Mapping[str, Any]
) -> Report:
    """Run a chunk in a worker and write its rows from there; only its sums travel back."""
    built = build(setting, budget)
    if replicas:
        built = replace(built, engine=PooledEngine(built.engine, replicas))
    result = asyncio.run(run_chunk(built, setting, chunk, stamp))
    store.write(Path(root), result.rows)
    return Report(setting.id, len(chunk), result.ok, result.failed, result.usage)

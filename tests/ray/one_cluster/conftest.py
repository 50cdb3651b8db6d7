"""One Ray cluster for all tests of this folder, which run in one process: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grid.cluster.connection import held
from grid.settings.config import ClusterConfig


@pytest.fixture(scope="package")
def cluster() -> Iterator[None]:
    """Two CPUs; this process is a driver, and so is every sweep that `in_process.launch` runs in it."""
    with held(ClusterConfig(kind="local", cpus=2, dashboard=False)):
        yield


@pytest.fixture(scope="package")
def joined(cluster: None) -> tuple[str, ...]:
    """What has a command in a process of its own join it."""
    import ray

    address = ray.get_runtime_context().gcs_address
    return "cluster=address", f"cluster.address={address}", "cluster.auth=token"

"""The Ray cluster of a sweep: started here, or joined."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from grid.build import ClusterConfig
from grid.errors import ConfigError

_ANSWER_SECONDS = 5.0


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
        auth = "token, the same on both sides" if cluster.auth == "token" else cluster.auth
        allowed = f"a Ray cluster of the same Ray and Python version that answers with cluster.auth={auth} ({error})"
        raise ConfigError("cluster.address", cluster.address, allowed) from None
    return f"joined the Ray cluster at {cluster.address}"


def cpus() -> int:
    """The CPUs of the cluster."""
    import ray

    return int(ray.cluster_resources().get("CPU", 1))


def alive() -> bool:
    """Whether a machine is left that could run a task."""
    import ray

    try:
        return any(node["Alive"] for node in ray.nodes())
    except ray.exceptions.RayError:
        return False


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

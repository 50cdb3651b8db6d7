"""The Ray cluster of a sweep: started here, or joined."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from grid import plugins
from grid.core.errors import ConfigError, UnfinishedError, one_line
from grid.settings.config import ClusterConfig

_ANSWER_SECONDS = 5.0
_LONGEST = 17  # characters of the folder for temporary files: a socket's path has at most 107, Ray's part is 70
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""At 0, Ray's name for a cluster of one machine: all its ports listen on loopback, on Linux as well."""
_held = False
_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}


@contextmanager
def held(cluster: ClusterConfig) -> Iterator[str]:
    """One cluster for all sweeps of this process that begin in here: to start one takes seconds.

    Gives `connect`'s text; where one is held already, it does nothing more.

    Raises:
        ConfigError: as for `connect`.
        UnfinishedError: as for `connect`.
    """
    global _held
    told = connect(cluster)
    if _held:
        yield told
        return
    _held = True
    try:
        yield told
    finally:
        _held = False
        disconnect()


def connect(cluster: ClusterConfig) -> str:
    """Start or join Ray, unless one is `held`; returns what to tell the user about where it can be watched.

    Raises:
        ConfigError: no cluster answers at the address.
        UnfinishedError: Ray does not start here.
    """
    if _held:
        return "the cluster that runs here already"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return _start(cluster) if cluster.kind == "local" else _join(cluster)


def _start(cluster: ClusterConfig) -> str:
    """A Ray of this sweep's own on this machine, whatever RAY_ADDRESS says; its ports listen on loopback."""
    try:
        folder = _own_folder()
        _guard_token()
        os.environ[_LOOPBACK] = "0"
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")  # 30 are too few where much else runs

        logging.getLogger("ray").setLevel(logging.ERROR)
        context = _begun(
            address="local",
            num_cpus=cluster.cpus,
            include_dashboard=cluster.dashboard,
            dashboard_host="127.0.0.1",
            _temp_dir=str(folder),
            **_with_plugins(inherited=True),
            **_QUIET,
        )
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds
        raise UnfinishedError(
            one_line(f"Ray does not start on this machine ({type(error).__name__}: {error})")
        ) from None
    where = f"Ray dashboard: http://{context.dashboard_url}" if context.dashboard_url else "Ray runs without dashboard"
    token = "its token: ray get-auth-token; " if os.environ.get("RAY_AUTH_MODE", "token") == "token" else ""
    return f"{where} ({token if context.dashboard_url else ''}its session: {folder}/session_latest)"


def _begun(**how: Any) -> Any:
    """As `ray.init`; once more where its node was not up in time, which Ray gives 30 s and lets nobody change."""
    import ray

    try:
        return ray.init(**how)
    except Exception as error:
        ray.shutdown()
        if "timed out during startup" not in str(error):
            raise
    return ray.init(**how)


def _own_folder() -> Path:
    """Where Ray keeps its sessions: below a folder that only this user can enter, as Ray opens its own to everybody."""
    above = Path(tempfile.gettempdir())
    if len(str(above)) > _LONGEST:
        above = Path("/tmp")  # noqa: S108 - what follows is the user's own
    folder = above / f"agent-grid-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(dir=above, prefix="agent-grid-"))  # somebody else took the name
    folder.chmod(0o700)
    return folder / "ray"


def _guard_token() -> None:
    """Ray would make the token that guards its ports readable for all."""
    if {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        return  # of the user's own
    token = Path.home() / ".ray" / "auth_token"
    token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not token.exists():
        with tempfile.NamedTemporaryFile("w", dir=token.parent) as draft, suppress(FileExistsError):
            draft.write(secrets.token_hex(32))
            draft.flush()
            os.link(draft.name, token)  # whole, or another process's
    token.chmod(0o600)


def _join(cluster: ClusterConfig) -> str:
    _expect_an_answer(cluster.address or "")
    os.environ["RAY_AUTH_MODE"] = cluster.auth
    import ray  # reads its authentication mode when it is imported, so not before the line above

    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray.init(address=cluster.address, **_with_plugins(inherited=False), **_QUIET)
    except ray.exceptions.AuthenticationError:
        allowed = "how the cluster was started: token (and this machine holds its token) or disabled"
        raise ConfigError("cluster.auth", cluster.auth, allowed) from None
    except (ConnectionError, RuntimeError, ValueError) as error:
        auth = "token, the same on both sides" if cluster.auth == "token" else cluster.auth
        allowed = f"a Ray cluster of the same Ray and Python version that answers with cluster.auth={auth} ({error})"
        raise ConfigError("cluster.address", cluster.address, allowed) from None
    return f"joined the Ray cluster at {cluster.address}"


def _with_plugins(inherited: bool) -> dict[str, Any]:
    """What makes the plugins known to all processes; nothing where they are known, as workers then start sooner.

    A folder is sent whole. `inherited`: processes have this one's environment.
    """
    found = plugins.allowed()
    folders = [plugin.folder for plugin in found.values() if not plugin.distribution]
    if not found or (inherited and not folders):
        return {}
    os.environ["RAY_RUNTIME_ENV_IGNORE_GITIGNORE"] = "1"  # data files too
    environment: dict[str, Any] = {"env_vars": {plugins.VARIABLE: os.environ[plugins.VARIABLE]}}
    return {"runtime_env": environment | ({"py_modules": folders} if folders else {})}


def cpus() -> int:
    """The CPUs of the cluster."""
    import ray

    return int(ray.cluster_resources().get("CPU", 1))


def gpus() -> dict[str, int]:
    """The GPUs of the cluster by their kind, as Ray names it."""
    import ray

    found: Counter[str] = Counter()
    for node in ray.nodes():
        has = node["Resources"]
        kinds = [name.partition(":")[2] for name in has if name.startswith("accelerator_type:")]
        if node["Alive"] and has.get("GPU"):
            found[kinds[0] if kinds else "GPU"] += int(has["GPU"])
    return dict(found)


def alive() -> bool:
    """Whether a machine is left that could run a task."""
    import ray

    try:
        return any(node["Alive"] for node in ray.nodes())
    except ray.exceptions.RayError:
        return False


def disconnect() -> None:
    """Leave the cluster, or stop the one that was started here; one that is `held` stays."""
    import ray

    if not _held:
        ray.shutdown()


def _expect_an_answer(address: str) -> None:
    """Raise ConfigError where nothing listens at `host:port`; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:  # ValueError: no name of a host
        raise ConfigError("cluster.address", address, f"no Ray cluster answers there ({error})") from None

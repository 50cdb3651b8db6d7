"""Starts the Ray cluster of a sweep on this machine, or joins an existing cluster."""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from grid import plugins
from grid.cluster.watcher import watched
from grid.core.errors import ConfigError, GridError, UnfinishedError, one_line
from grid.core.surroundings import own_folder
from grid.core.untrusted import shown
from grid.settings.config import ClusterConfig

_ANSWER_SECONDS = 5.0
_HEAD_SECONDS, _LOOK_SECONDS = 20.0, 1.0  # how long to wait for a restarted head, and between two checks for it
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable for clusters of several machines; if it is 0, all of Ray's ports listen on loopback, even on Linux."""
_LOST = re.compile(r"The node with node id: \w+ and address: (\S+) .*has been marked dead")
_KILLED = re.compile(r"A worker died or was killed .*?Worker IP address: (\S+) .*?Worker PID: (\d+)", re.DOTALL)
_BESIDE = "Raylet is terminated."  # printed by each agent of the same machine
_MODE, _TOKENS = "RAY_AUTH_MODE", {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
_held = False
_undo = ExitStack()
"""The steps that undo all changes that `connect` makes to this process."""
_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}
_used = _forked = False
"""Whether we have started Ray in this process; and whether the process that this one was forked from had run Ray."""


def _tell_child() -> None:
    global _forked
    _forked = _forked or _used or _initialised()


os.register_at_fork(after_in_child=_tell_child)


@contextmanager
def held(cluster: ClusterConfig) -> Iterator[str]:
    """Let all sweeps of this process share one cluster, because starting one takes seconds; a context manager.

    It yields the text that `connect` returns. If a cluster is already held, nothing more is done.

    Raises:
        ConfigError, GridError, UnfinishedError: as for `connect`.
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
    """Start or join Ray, unless a cluster is `held`; returns a text that says where the user can watch it.

    If this process has already initialised Ray, that Ray is used, and `disconnect` leaves it running. `disconnect`
    undoes all changes that `connect` made: environment variables, the SIGTERM handler, and the settings of Ray's logs.

    Raises:
        ConfigError: `cluster.kind` is `inline`, no cluster answers at the address, the cluster refuses our requests or
            has other versions of Ray or Python, or the Ray that this process has already initialised cannot be used.
        GridError: Ray has run in the process that this one was forked from.
        UnfinishedError: Ray does not start on this machine.
    """
    global _used
    if _held:
        return "using the cluster that already runs in this process"
    if _forked:
        raise GridError(
            "Ray has run in the process from which this process was forked, and would hang here: run the sweep in a "
            "new process (multiprocessing: spawn)"
        )
    if cluster.kind == "inline":
        raise ConfigError("cluster", cluster.kind, "must be local or address, because this command needs a cluster")
    if told := _users_own(cluster):
        return told
    _used = True
    with ExitStack() as watching, ExitStack() as undo:  # the watcher has to wait until Ray has been shut down
        undo.enter_context(_as_it_was())
        told = _start(cluster, watching) if cluster.kind == "local" else _join(cluster)
        _undo.push(watching.pop_all())
        _undo.push(undo.pop_all())
    return told


def _initialised() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def _users_own(cluster: ClusterConfig) -> str:
    """A line about a Ray that this process initialised itself; empty if there is no such Ray.

    Raises ConfigError if that Ray is a Ray client or has a different address, or if `cluster.cpus` or plugins are
    given.
    """
    if not _initialised():
        return ""
    import ray

    context, without = ray.get_runtime_context(), "unless ray.shutdown() first ends the Ray that runs in this process"
    if ray.util.client.ray.is_connected():
        raise ConfigError(
            "cluster", cluster.kind, f"no cluster can be used in the process of a Ray client (ray://), {without}"
        )
    if cluster.kind == "address" and cluster.address != context.gcs_address:
        raise ConfigError("cluster.address", cluster.address, f"must be {context.gcs_address}, {without}")
    if cluster.cpus:
        raise ConfigError("cluster.cpus", cluster.cpus, f"must be null, {without}")
    if named := list(plugins.allowed()):
        raise ConfigError(
            plugins.KEY, named, f"must be empty, because the workers would not have the plugins, {without}"
        )
    return f"using the Ray that already runs in this process ({context.gcs_address}), with {cpus()} CPUs"


@contextmanager
def _as_it_was() -> Iterator[None]:
    """A context manager that, at its end, shuts Ray down and undoes all changes that Ray and we made to the process."""
    before, level, on_term = _variables(), logging.getLogger("ray").level, signal.getsignal(signal.SIGTERM)
    tracing = faulthandler.is_enabled()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray._private import ray_constants

    several: bool = ray_constants.ENABLE_RAY_CLUSTER
    try:
        with _in_our_words():
            yield
    finally:
        ray.shutdown()
        cast(Any, ray_constants).ENABLE_RAY_CLUSTER = several
        for name in _variables().keys() - before:
            del os.environ[name]
        os.environ.update(before)
        logging.getLogger("ray").setLevel(level)
        if not tracing:
            faulthandler.disable()
        if threading.current_thread() is threading.main_thread():  # in other threads Ray sets no handler either
            signal.signal(signal.SIGTERM, on_term)
        _read_authentication()


@contextmanager
def _in_our_words() -> Iterator[None]:
    """A context manager that logs Ray's messages and prints each on one line, in our words if it is about a loss."""
    import ray

    worker: Any = ray._private.worker
    before, worker.print_to_stdstream = worker.print_to_stdstream, _tell
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _tell(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    """Log Ray's messages (the `lines` in `data`), and print them as `_in_our_words` says; replaces Ray's function."""
    import ray

    log = Path(cast(Any, ray._private.worker)._global_node.get_logs_dir_path()) / "agent-grid.log"
    with suppress(OSError), log.open("a", encoding="utf-8") as file:
        file.writelines(f"{message}\n" for message in data["lines"])
    for message in data["lines"]:
        if lost := _LOST.match(message):
            told = f"a machine of the Ray cluster is lost ({lost[1]}): its work runs again; Ray's message is in {log}"
            print(shown(told), flush=True)
        elif killed := _KILLED.match(message):
            told = (
                f"a worker has died ({killed[1]}, process {killed[2]}): its work runs again; Ray's message is in {log}"
            )
            print(shown(told), flush=True)
        elif not message.startswith(_BESIDE):
            print(shown(one_line(message)), flush=True)


def _variables() -> dict[str, str]:
    """The environment variables that Ray and we set."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_") or name == "PYTHONBREAKPOINT"}


def _read_authentication() -> None:
    """Make Ray read its authentication mode and token from the environment again, because it reads them only once."""
    import ray

    raylet: Any = ray._raylet
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def _start(cluster: ClusterConfig, watching: ExitStack) -> str:
    """Start a Ray on this machine for this sweep only, whatever RAY_ADDRESS says; its ports listen on loopback.

    Until `watching` is closed, a watcher ends this Ray if our process is killed.
    """
    from ray._private import ray_constants

    try:
        own = own_folder()
        folder, token = own / "ray", _guarded(own)
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")  # Ray's 30 s are not enough on a busy machine
        os.environ[_LOOPBACK] = "0"  # for Ray's other processes
        cast(Any, ray_constants).ENABLE_RAY_CLUSTER = False  # this process read the variable when it imported Ray
        logging.getLogger("ray").setLevel(logging.ERROR)
        _read_authentication()
        context = _begun(
            address="local",
            num_cpus=cluster.cpus,
            include_dashboard=cluster.dashboard,
            dashboard_host="127.0.0.1",
            _temp_dir=str(folder),
            job_config=_job(),
            **_with_plugins(inherited=True),
            **_QUIET,
        )
        watching.enter_context(watched(Path(context.address_info["session_dir"])))
    except Exception as error:  # noqa: BLE001 - Ray raises many kinds
        raise UnfinishedError(
            one_line(f"Ray does not start on this machine ({type(error).__name__}: {error})")
        ) from None
    where = f"Ray dashboard: http://{context.dashboard_url}" if context.dashboard_url else "Ray runs without dashboard"
    return f"{where} ({token if context.dashboard_url else ''}its session: {folder}/session_latest)"


def _begun(**how: Any) -> Any:
    """Call `ray.init`, and call it again if Ray's node was not up within 30 s.

    The second call is needed because Ray has no setting for the limit of 30 s. If the terminal closes, only this
    process gets SIGHUP. Ray's processes do not get this signal, so they can finish their work.
    """
    import ray

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        try:
            return ray.init(**how)
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error):
                raise
        return ray.init(**how)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Known(list[str]):
    """The folders that workers search for modules first; only folders that this process searches too can be added.

    Ray tries to add the current folder. If that folder contained a folder with our package's name, workers would import
    it.
    """

    def extend(self, folders: Iterable[str]) -> None:
        """Add only those of the folders that are on `sys.path`."""
        known = {os.path.abspath(entry) for entry in sys.path}
        super().extend(folder for folder in folders if folder in known)


def _job() -> Any:
    """The description that this process gives Ray of itself as a driver."""
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = _Known()
    return job


def _guarded(folder: Path) -> str:
    """Protect Ray's ports with a token in `folder`, unless the user chose another method; returns a text on the token.

    The token is not in Ray's default place, ~/.ray, because every later cluster of this user would then ask for it.
    """
    if os.environ.setdefault(_MODE, "token") != "token":
        return ""
    if _TOKENS & os.environ.keys():
        return "its token: ray get-auth-token; "
    token = folder / "token"
    if not token.exists():
        with tempfile.NamedTemporaryFile("w", dir=folder) as draft, suppress(FileExistsError):
            draft.write(secrets.token_hex(32))
            draft.flush()
            os.link(draft.name, token)  # the file appears complete; if another process was first, its file stays
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    return f"its token: {token}; "


def _join(cluster: ClusterConfig) -> str:
    if why := _no_answer(cluster.address or ""):
        raise ConfigError("cluster.address", cluster.address, f"no Ray cluster answers at this address ({why})")
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    _authenticate(cluster)
    try:
        ray.init(address=cluster.address, job_config=_job(), **_with_plugins(inherited=False), **_QUIET)
    except (ConnectionError, RuntimeError, ValueError) as error:
        allowed = f"must be a Ray cluster with the same versions of Ray and Python as this process ({error})"
        raise ConfigError("cluster.address", cluster.address, allowed) from None
    return f"joined the Ray cluster at {cluster.address}"


def _authenticate(cluster: ClusterConfig) -> None:
    """Set how Ray authenticates with the cluster; raises ConfigError if the cluster would reject this method.

    Without this check, Ray would keep trying for ten seconds and print a line for each attempt.
    """
    import ray

    address = cluster.address or ""
    asks = "token" if _refused(address, {}) else "disabled"
    os.environ[_MODE] = asks if cluster.auth == "auto" else cluster.auth
    _read_authentication()
    if os.environ[_MODE] == "disabled":
        if asks == "token":
            raise ConfigError(
                "cluster.auth", cluster.auth, "must be token or auto, because this cluster requires a token"
            )
        return
    loader = cast(Any, ray._raylet).AuthenticationTokenLoader.instance()
    token = loader.get_token_for_http_header() if loader.has_token(ignore_auth_mode=True) else {}
    if not token or _refused(address, token):
        where = "in RAY_AUTH_TOKEN, in the file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token"
        held = "another token" if token else "no token"
        raise ConfigError("cluster.auth", cluster.auth, f"needs the token of this cluster {where}; {held} was found")


def _refused(address: str, headers: Mapping[str, str]) -> bool:
    """Whether the cluster's head refuses a request with these headers."""
    import grpc  # type: ignore[import-untyped]

    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        alive = channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")
        try:
            alive(b"", timeout=_ANSWER_SECONDS, metadata=[(name.lower(), text) for name, text in headers.items()])
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.UNAUTHENTICATED)
    return False


def _with_plugins(inherited: bool) -> dict[str, Any]:
    """The arguments of `ray.init` that make plugins known to all processes; empty if the plugins are known anyway.

    Workers start sooner without such arguments. A plugin's folder is sent to the cluster as a whole. `inherited`:
    whether Ray's processes inherit the environment of this process.
    """
    found = plugins.allowed()
    folders = [plugin.folder for plugin in found.values() if not plugin.distribution]
    if not found or (inherited and not folders):
        return {}
    os.environ["RAY_RUNTIME_ENV_IGNORE_GITIGNORE"] = "1"  # so that data files are sent too
    environment: dict[str, Any] = {"env_vars": {plugins.VARIABLE: os.environ[plugins.VARIABLE]}}
    return {"runtime_env": environment | ({"py_modules": folders} if folders else {})}


def cpus() -> int:
    """The number of CPUs in the cluster; 1 if Ray reports none."""
    import ray

    return int(ray.cluster_resources().get("CPU", 1))


def gpus() -> dict[str, int]:
    """The number of GPUs of each kind in the cluster, by Ray's name for the kind."""
    import ray

    found: Counter[str] = Counter()
    for node in ray.nodes():
        has = node["Resources"]
        kinds = [name.partition(":")[2] for name in has if name.startswith("accelerator_type:")]
        if node["Alive"] and has.get("GPU"):
            found[kinds[0] if kinds else "GPU"] += int(has["GPU"])
    return dict(found)


def alive() -> bool:
    """Whether the cluster still has a machine that could run a task.

    Raises:
        UnfinishedError: the cluster's head has gone, and has not come back.
    """
    import ray

    _expect_head(ray.get_runtime_context().gcs_address)
    try:
        return any(node["Alive"] for node in ray.nodes())
    except ray.exceptions.RayError:
        return False


def _expect_head(address: str) -> None:
    """Wait for a lost head without sending it requests: Ray ends a process whose requests to it fail for a minute."""
    until = time.monotonic() + _HEAD_SECONDS
    while why := _no_answer(address):
        if time.monotonic() > until:
            raise UnfinishedError(
                f"the head of the Ray cluster at {address} is gone ({why}); run again with the same name"
            )
        time.sleep(_LOOK_SECONDS)


def disconnect() -> None:
    """Leave the cluster, or stop it if it was started here; a `held` cluster and the user's own Ray keep running."""
    if not _held:
        _undo.close()


def _no_answer(address: str) -> str:
    """The reason why nothing listens at `host:port`; empty if something does.

    Without this check, Ray would keep trying for minutes.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:  # ValueError: not a host name
        return str(error)
    return ""

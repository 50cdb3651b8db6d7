"""Starting Ray and joining it, without one."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray

from grid import plugins
from grid.cluster import connection
from grid.cluster.connection import connect, disconnect
from grid.core.errors import ConfigError, GridError, UnfinishedError
from grid.settings.config import ClusterConfig
from tests.support.clusters import free_port

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup"
TOKEN = "ab" * 32


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of Ray's variables there is none, and no token where Ray looks for one."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("errors", "tries"), [([], 1), ([SLOW], 2), ([SLOW, SLOW], 2), (["no such address"], 1)], ids=str
)
def test_a_node_that_is_not_up_in_time_is_begun_once_more(
    errors: list[str], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, ended, left = list[dict[str, object]](), list[int](), [*errors]

    def init(**how: object) -> str:
        tried.append(how)
        if left:
            raise Exception(left.pop(0))
        return "begun"

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(len(tried)))
    if len(errors) < tries:
        assert connection._begun(address="local") == "begun"
    else:
        with pytest.raises(Exception, match=errors[-1][:20]):
            connection._begun(address="local")
    assert tried == [{"address": "local"}] * tries
    assert ended == ([1] if errors else []), "what a failed start left is ended first"


def test_rays_processes_do_not_hear_of_a_terminal_that_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process begins with the signals blocked that its parent has blocked, and Ray's begin others."""
    mask: list[set[int]] = []

    def init(**how: object) -> None:
        mask.append({*signal.pthread_sigmask(signal.SIG_BLOCK, [])})

    monkeypatch.setattr(ray, "init", init)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    connection._begun(address="local")
    assert mask == [{*before, signal.SIGHUP}]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_workers_search_a_folder_first_only_if_this_process_searches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray adds the current folder, in which a user's folder may be called `grid`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "bin"), str(tmp_path / "lib")])
    assert searched(tmp_path / "bin", tmp_path) == [str(tmp_path / "bin")]
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "lib")])  # as in a notebook
    assert searched(tmp_path) == [str(tmp_path)]


def searched(*added: Path) -> list[str]:
    """What workers are told after Ray has added folders."""
    job = connection._job()
    job._py_driver_sys_path.extend(map(str, added))
    found: list[str] = json.loads(json.dumps(job._py_driver_sys_path))
    return found


# A head that goes while a sweep runs.


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the address of the head; asking it is a failure where nothing listens there."""
    monkeypatch.setattr(connection, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True}])

    def at(address: str) -> None:
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=address))

    return at


def test_a_head_that_is_gone_is_told_in_one_line_and_is_not_asked(
    nodes: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.0)
    monkeypatch.setattr(ray, "nodes", lambda: pytest.fail("Ray would end this process"))
    address = f"127.0.0.1:{free_port()}"
    nodes(address)
    with pytest.raises(UnfinishedError) as caught:
        connection.alive()
    said = str(caught.value)
    assert said.startswith(f"the head of the Ray cluster at {address} is gone (")
    assert said.endswith("; run again with the same name")
    assert "\n" not in said


def test_a_head_that_comes_back_is_waited_for(nodes: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        nodes("{}:{}".format(*head.getsockname()))
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                head.listen()

        monkeypatch.setattr(connection.__dict__["time"], "sleep", sleep)
        assert connection.alive()
        assert len(slept) == 3


# What Ray says of its machines.

ENDED = "Raylet is terminated. Termination is unexpected. Last 20 lines of the Raylet logs:\n    bytes used: 0\n    0\n"
DEAD = (
    "The node with node id: 520c9ff95b and address: 192.0.2.2 and node name: 192.0.2.2 has been marked dead because "
    "the detector has missed too many heartbeats from it. This can happen when a \t(1) raylet crashes\n\t(2)"
)
KILLED = (
    "A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, "
    "check the logs for the dead worker. Lease ID: 11000000 Worker ID: 84c61da3 Node ID: 601d38df Worker IP address: "
    "192.0.2.3 Worker port: 20239 Worker PID: 14907 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker "
    "unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process ..."
)
FULL = "The disk of \x1b[31mtmp is full"


def test_a_machine_or_worker_that_is_lost_is_one_line_and_a_log_has_rays_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker: Any = ray._private.worker
    monkeypatch.setattr(worker, "_global_node", SimpleNamespace(get_logs_dir_path=lambda: str(tmp_path)))
    before = worker.print_to_stdstream
    with connection._in_our_words():
        for message in (ENDED, DEAD, ENDED, KILLED, FULL):  # as Ray's thread does
            worker.print_to_stdstream({"lines": [message], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    lost, killed, full = capsys.readouterr().out.splitlines()
    assert lost.startswith(
        "a machine of the Ray cluster is lost (192.0.2.2): its work runs again; Ray's message is in "
    )
    assert killed == (
        "a worker has died (192.0.2.3, process 14907): its work runs again; "
        f"Ray's message is in {tmp_path / 'agent-grid.log'}"
    )
    assert "The disk of" in full
    assert "\x1b" not in full
    said = (ENDED, DEAD, ENDED, KILLED, FULL)
    assert (tmp_path / "agent-grid.log").read_text() == "".join(f"{one}\n" for one in said)
    assert worker.print_to_stdstream is before


# What a head of Ray's says to those who come with a token, or without.


class Head(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Answers who shows its token; anybody, if it has none. `came` holds what each showed."""

    def __init__(self, token: str) -> None:
        self._token, self.came = token, list[str | None]()

    def service(self, called: Any) -> Any:
        assert called.method == "/ray.rpc.NodeInfoGcsService/CheckAlive"
        shown = dict(called.invocation_metadata).get("authorization")
        self.came.append(shown)

        def answer(request: bytes, context: Any) -> bytes:
            if self._token and shown != f"Bearer {self._token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def listening(token: str) -> Iterator[tuple[str, Head]]:
    server, head = grpc.server(ThreadPoolExecutor(1)), Head(token)
    server.add_generic_rpc_handlers((head,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", head
    finally:
        server.stop(None).wait()


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes in which Ray would have joined."""
    found: list[str] = []
    monkeypatch.setattr(ray, "init", lambda **how: found.append(os.environ["RAY_AUTH_MODE"]))
    return found


def join(address: str, auth: str) -> None:
    try:
        connect(ClusterConfig.model_validate({"kind": "address", "address": address, "auth": auth}))
    finally:
        disconnect()


@pytest.mark.parametrize(
    ("asked", "auth", "mode", "came"),
    [
        ("", "auto", "disabled", [None]),
        ("", "disabled", "disabled", [None]),
        (TOKEN, "auto", "token", [None, f"Bearer {TOKEN}"]),
        (TOKEN, "token", "token", [None, f"Bearer {TOKEN}"]),
    ],
)
@pytest.mark.parametrize("place", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", ""])
def test_a_cluster_is_asked_whether_it_wants_a_token_and_gets_it_only_then(
    asked: str,
    auth: str,
    mode: str,
    came: list[str | None],
    place: str,
    modes: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / (".ray/auth_token" if not place else "kept")
    file.parent.mkdir(exist_ok=True)
    file.write_text(TOKEN)
    if place:
        monkeypatch.setenv(place, TOKEN if place == "RAY_AUTH_TOKEN" else str(file))
    with listening(asked) as (address, head):
        join(address, auth)
    assert (modes, head.came) == ([mode], came)


@pytest.mark.parametrize(
    ("auth", "held", "said"),
    [
        ("disabled", TOKEN, "cluster.auth='disabled': must be token or auto, because this cluster requires a token"),
        ("auto", "", "cluster.auth='auto': needs the token of this cluster .*; no token was found"),
        ("token", "cd" * 32, "cluster.auth='token': needs the token of this cluster .*; another token was found"),
    ],
)
def test_a_cluster_that_would_turn_us_away_is_told_in_one_line_before_ray_tries(
    auth: str, held: str, said: str, modes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if held:
        monkeypatch.setenv("RAY_AUTH_TOKEN", held)
    with listening(TOKEN) as (address, _), pytest.raises(ConfigError, match=said) as caught:
        join(address, auth)
    assert "\n" not in str(caught.value)
    assert modes == []


# What a sweep leaves behind in the process that it ran in.


def state() -> tuple[object, ...]:
    return dict(os.environ), signal.getsignal(signal.SIGTERM), logging.getLogger("ray").level


@pytest.mark.parametrize("works", [True, False])
def test_a_process_is_as_it_was(works: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`init` changes what Ray's own does; the token stays in our own folder."""
    started: dict[str, str] = {}

    def init(**how: object) -> object:
        os.environ["PYTHONBREAKPOINT"] = "ray.util.rpdb._driver_set_trace"
        os.environ["RAY_AUTH_MODE"] = "token"
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        started.update(os.environ)
        if not works:
            raise RuntimeError("it does not")
        session = {"session_dir": str(tmp_path)}
        return SimpleNamespace(dashboard_url="127.0.0.1:8265", address_info=session)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(connection, "own_folder", lambda: tmp_path / "own")
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "1")  # of the user's own
    before = state()
    if works:
        assert f"its token: {tmp_path}/own/token; " in connect(ClusterConfig(kind="local"))
        disconnect()
    else:
        with pytest.raises(UnfinishedError, match=r"does not start on this machine \(RuntimeError: it does not\)"):
            connect(ClusterConfig(kind="local"))
    assert state() == before
    assert started["RAY_USAGE_STATS_ENABLED"] == "1"
    token = Path(started["RAY_AUTH_TOKEN_PATH"])
    assert (token, token.stat().st_mode & 0o777) == (tmp_path / "own" / "token", 0o600)
    assert len(token.read_text()) >= 32
    assert not (tmp_path / ".ray").exists()


def test_a_watcher_waits_until_ray_has_been_shut_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else a driver that is killed in between leaves Ray's processes behind."""
    order: list[str] = []

    @contextmanager
    def watched(session: Path) -> Iterator[None]:
        order.append("watched")
        yield
        order.append("over")

    session = {"session_dir": str(tmp_path)}
    monkeypatch.setattr(ray, "init", lambda **how: SimpleNamespace(dashboard_url="", address_info=session))
    monkeypatch.setattr(ray, "shutdown", lambda: order.append("shut down"))
    monkeypatch.setattr(connection, "watched", watched)
    monkeypatch.setattr(connection, "own_folder", lambda: tmp_path)
    connect(ClusterConfig(kind="local"))
    disconnect()
    assert order == ["watched", "shut down", "over"]


def test_one_token_serves_all_sweeps_of_a_user(tmp_path: Path) -> None:
    first = connection._guarded(tmp_path), (tmp_path / "token").read_text()
    del os.environ["RAY_AUTH_TOKEN_PATH"]
    assert (connection._guarded(tmp_path), (tmp_path / "token").read_text()) == first


@pytest.mark.parametrize("own", [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": TOKEN}], ids=str)
def test_how_the_user_guards_ray_stays(own: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**own})
    told = connection._guarded(tmp_path)
    assert {"RAY_AUTH_MODE": "token"} | own == os.environ
    assert told == ("" if "RAY_AUTH_MODE" in own else "its token: ray get-auth-token; ")
    assert list(tmp_path.iterdir()) == []


# A Ray that runs in this process already, as a notebook's own.


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="10.0.0.1:6379"))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    monkeypatch.setattr(ray, "init", lambda **how: pytest.fail("it runs"))
    monkeypatch.setattr(ray, "shutdown", lambda: pytest.fail("it is not ours"))


@pytest.mark.parametrize(
    "cluster", [ClusterConfig(kind="local"), ClusterConfig(kind="address", address="10.0.0.1:6379")], ids=str
)
def test_a_ray_that_runs_already_is_used_and_left_running(cluster: ClusterConfig, running: None) -> None:
    before = state()
    assert connect(cluster) == "using the Ray that already runs in this process (10.0.0.1:6379), with 3 CPUs"
    disconnect()
    assert state() == before


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (ClusterConfig(kind="local", cpus=2), r"cluster\.cpus=2: must be null, unless ray\.shutdown\(\)"),
        (
            ClusterConfig(kind="address", address="10.0.0.2:6379"),
            r"cluster\.address='10\.0\.0\.2:6379': must be 10\.0\.0\.1",
        ),
    ],
    ids=str,
)
def test_a_ray_that_runs_already_and_is_another_is_refused(cluster: ClusterConfig, said: str, running: None) -> None:
    with pytest.raises(ConfigError, match=said):
        connect(cluster)


def test_plugins_are_refused_where_workers_would_not_know_them(running: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "allowed", lambda: {"mylab": ...})
    with pytest.raises(
        ConfigError, match=r"plugins=\['mylab'\]: must be empty, because the workers would not have the plugins"
    ):
        connect(ClusterConfig(kind="local"))


def test_a_fork_of_a_process_in_which_ray_ran_is_told_that_ray_would_hang(running: None) -> None:
    assert _said_by_a_fork() == "Ray has run in the process from which this process was forked, and would hang here"


def _said_by_a_fork() -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            connect(ClusterConfig(kind="local"))
        except GridError as error:
            os.write(writing, str(error).partition(":")[0].encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said:
        return said.read()

"""The cluster that a sweep starts is its own, listens on loopback and is its user's alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from grid.cluster import connection
from grid.cluster.connection import connect
from grid.core.errors import ConfigError
from grid.core.surroundings import own_folder
from grid.settings.config import ClusterConfig
from tests.support.clusters import head
from tests.support.commands import Ended, launch

ROOT = Path(__file__).parents[2]
ELSEWHERE = "192.0.2.1:6379"  # of nobody
SMALL = ("model=null_engine", "dataset=null_cases", "dataset.limit=1", "trials=1")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Ray's variables there is one, which should lead nobody anywhere."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAY_ADDRESS", ELSEWHERE)


@pytest.mark.parametrize(("length", "own"), [(17, True), (18, False)])
def test_sessions_lie_where_temporary_files_do_while_sockets_paths_fit(
    length: int, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path has 107 characters; Ray needs 70 of them below this folder, and the user's own 20."""
    above = Path(tempfile.mkdtemp(dir="/tmp", prefix="".ljust(length - len("/tmp/") - 8, "x")))  # noqa: S108
    try:
        assert len(str(above)) == length
        monkeypatch.setattr(tempfile, "gettempdir", lambda: str(above))
        assert own_folder().is_relative_to(above) is own
    finally:
        shutil.rmtree(above)


def test_it_is_the_users_alone_whatever_ray_address_says(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.listeners"],
        cwd=ROOT,
        env=os.environ | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert set(told["addresses"]) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert told["addresses"]
    assert (told["folder"], told["token"]) == ("0o700", "0o600")
    assert told["characters"] >= 32
    assert "Ray dashboard: http://127.0.0.1:" in told["said"]
    own = own_folder()
    assert f"(its token: {own}/token; its session: {own}/ray/session_latest)" in told["said"]
    assert told["outside"] == [], "later clusters of this user are as before"


def run(folder: Path, home: Path, *arguments: str) -> Ended:
    return launch("sweep", folder, *arguments, environment={"HOME": str(home)})


@pytest.mark.parametrize("guarded", [{}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "ab" * 32}], ids=["", "token"])
def test_ray_start_after_a_local_sweep_is_joined_as_the_documentation_says(
    guarded: dict[str, str], tmp_path: Path
) -> None:
    """Whether or not it asks for a token, which the driver then has."""
    (home := tmp_path / "home").mkdir()
    if not guarded:
        ended = run(tmp_path, home, *SMALL, "cluster.dashboard=false")
        assert (ended.status, ended.err) == (0, "")
    with head(environment={"HOME": str(home), **guarded}) as address:
        environment = {"HOME": str(home), **guarded}
        joining = ("cluster=address", f"cluster.address={address}", "name=joined")
        ended = launch("sweep", tmp_path, *SMALL, *joining, environment=environment)
        assert (ended.status, ended.err) == (0, "")


def test_a_home_that_cannot_be_written_and_an_output_of_ascii(tmp_path: Path) -> None:
    """With the folder for temporary files a new one, nothing has been made there once."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/sys", "PYTHONIOENCODING": "ascii"}
    short = tempfile.mkdtemp(dir="/tmp", prefix="x")
    try:
        for program in (["sweep.py", *SMALL, "cluster.dashboard=false", "name=x"], ["report.py", "results/x"]):
            command = [sys.executable, str(ROOT / "launch" / program[0]), *program[1:]]
            ended = subprocess.run(
                command, cwd=tmp_path, env={**kept, "TMPDIR": short}, capture_output=True, text=True, timeout=600
            )
            cache = f"{short}/agent-grid-{os.getuid()}/cache"
            told = f"/sys/.cache/agent-grid cannot be written to, so {cache} is used instead"
            assert (ended.returncode, ended.stderr.splitlines()[:1]) == (0, [told])  # and what matplotlib says of HOME
    finally:
        shutil.rmtree(short)


def test_a_cluster_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, tmp_path, *SMALL, "cluster=address", "cluster.address=127.0.0.1:1")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: cluster.address='127.0.0.1:1': no Ray cluster answers at this address")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("joins", [False, True], ids=["local", "address"])
def test_folders_of_the_user_with_our_names_hide_nothing_from_workers(joins: bool, tmp_path: Path) -> None:
    """Each of them a package, and each says so if it is imported."""
    for name in ("grid", "analysis", "launch", "conf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('of the user')\n")
    with head(environment={"HOME": str(tmp_path)}) if joins else nullcontext("") as address:
        where = ("cluster=address", f"cluster.address={address}") if joins else ("cluster.dashboard=false",)
        ended = run(tmp_path, tmp_path, *SMALL, *where)
        assert (ended.status, ended.err) == (0, "")


def no_room() -> None:
    """For Ray's sessions."""
    vars(connection)["own_folder"] = lambda: Path(os.devnull)


def test_a_ray_that_does_not_start_is_one_line_and_leaves_no_folder(tmp_path: Path) -> None:
    ended = launch("sweep", tmp_path, *SMALL, prepare=no_room)
    assert ended.status == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("stopped: Ray does not start on this machine (NotADirectoryError")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["a" * 64, "nosuchhost.invalid", "999.999.999.999", "[::1]"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.address"):
        connect(ClusterConfig(kind="address", address=f"{host}:1"))

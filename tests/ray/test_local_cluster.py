"""The cluster that a sweep starts is its own, listens on loopback and is its user's alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grid.cluster import connection
from grid.cluster.connection import connect
from grid.core.errors import ConfigError
from grid.settings.config import ClusterConfig
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
        assert connection._own_folder().is_relative_to(above) is own
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
    assert "(its token: ray get-auth-token; its session: " in told["said"]


def run(folder: Path, home: Path, *arguments: str) -> Ended:
    return launch("sweep", folder, *arguments, environment={"HOME": str(home)})


def test_a_cluster_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, tmp_path, *SMALL, "cluster=address", "cluster.address=127.0.0.1:1")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: cluster.address='127.0.0.1:1': no Ray cluster answers there")
    assert list(tmp_path.iterdir()) == []


def test_a_ray_that_does_not_start_is_one_line_and_leaves_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, Path(os.devnull), *SMALL)  # no room for its token
    assert ended.status == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("stopped: Ray does not start on this machine (NotADirectoryError")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["a" * 64, "nosuchhost.invalid", "999.999.999.999", "[::1]"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.address"):
        connect(ClusterConfig(kind="address", address=f"{host}:1"))

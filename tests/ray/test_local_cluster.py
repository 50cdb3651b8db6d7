"""The cluster that a sweep starts is its own, listens on loopback and is its user's alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grid.errors import ConfigError
from grid.sweep.cluster import connect
from grid.sweep.config import ClusterConfig

ROOT = Path(__file__).parents[2]
ELSEWHERE = "192.0.2.1:6379"  # of nobody
SMALL = ("model=null_engine", "dataset=null_cases", "dataset.limit=1", "trials=1")


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {"HOME": str(home), "RAY_ADDRESS": ELSEWHERE, "PYTHONPATH": str(ROOT)}


def test_it_is_the_users_alone_whatever_ray_address_says(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.listeners"],
        cwd=ROOT,
        env=environment(tmp_path),
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


def run(folder: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "launch/sweep.py"), *SMALL, *arguments]
    return subprocess.run(command, cwd=folder, env=environment(home), capture_output=True, text=True, timeout=600)


def test_a_cluster_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, tmp_path, "cluster=address", "cluster.address=127.0.0.1:1")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: cluster.address='127.0.0.1:1': no Ray cluster answers there")
    assert list(tmp_path.iterdir()) == []


def test_a_ray_that_does_not_start_is_one_line_and_leaves_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, Path(os.devnull))  # no room for its token
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("stopped: Ray does not start on this machine (NotADirectoryError")
    assert list(tmp_path.iterdir()) == []


def test_gpus_that_are_missing_leave_no_folder(tmp_path: Path) -> None:
    ended = run(tmp_path, tmp_path / "home", "model=qwen3-4b-instruct", "planner=react", "cluster.dashboard=false")
    assert ended.returncode == 2, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert "GPU" in line
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("host", ["a" * 64, "nosuchhost.invalid", "999.999.999.999", "[::1]"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.address"):
        connect(ClusterConfig(kind="address", address=f"{host}:1"))

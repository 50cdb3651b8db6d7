"""A plugin on a cluster of two machines: a folder is sent to them, an installed package has to be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grid.settings.check import Job, check_sweep
from grid.sweeps.api import settings_of
from tests.support.clusters import UNGUARDED, head, member
from tests.support.commands import Ended, launch
from tests.support.plugins import follow_pythonpath, standing_in, write, write_distribution

SMALL = ("model=null_engine", "dataset=null_cases", "trials=1", "cluster=address", "cluster.auth=disabled")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two raylets of two CPUs each, neither begun where a plugin lies."""
    with head() as address, member(address):
        yield address


def sweep(folder: Path, address: str, *values: str, **environment: str) -> Ended:
    arguments = (*SMALL, f"cluster.address={address}", *values)
    return launch("sweep", folder, *arguments, environment={**UNGUARDED, **environment}, prepare=follow_pythonpath)


def test_a_folder_reaches_every_machine(cluster: str, tmp_path: Path) -> None:
    lab = write(tmp_path / "lab")
    (lab / "mylab" / ".gitignore").write_text("words/\n")
    few = ("dataset.limit=20", "cluster.chunk_cells=1", "planner.seconds=0.5", "name=told")
    # On the driver's path alone; where it stands, Ray looks on every machine that has such a folder.
    ended = sweep(tmp_path, cluster, "plugins=[mylab]", "planner=telling", *few, PYTHONPATH=str(lab))
    assert ended.status == 0, ended.err
    rows = ended.rows("told")
    told = [row["answer"].split("|") for row in rows]
    assert {(greeting, text) for greeting, text, _, _ in told} == {("hello", "data")}
    assert len({node for *_, node in told}) == 2, "both machines worked"
    assert not any(file.startswith(str(tmp_path)) for _, _, file, _ in told), "with a copy of their own"

    other = Path(shutil.copytree(lab / "mylab", tmp_path / "other" / "mylab")).parent
    again = (*SMALL, f"cluster.address={cluster}", "plugins=[mylab]", "planner=telling", "robustness=none", *few)
    with standing_in(other):
        plan = check_sweep([Job(*found) for found in settings_of(*again)]).plan
        cells = {cell.cell_id for setting in plan.settings for cell in plan.cells_of(setting)}
    assert cells == {row["cell_id"] for row in rows}, "ids know no folder"


def test_a_pool_that_stays_has_the_plugin_when_its_driver_is_gone(cluster: str, tmp_path: Path) -> None:
    lab = write(tmp_path / "lab")

    def replicas(verb: str) -> Ended:
        values = ("plugins=[mylab]", "model=hosted", *SMALL[3:], f"cluster.address={cluster}")
        there = {**UNGUARDED, "PYTHONPATH": str(lab)}
        return launch("replicas", tmp_path, verb, *values, environment=there, prepare=follow_pythonpath)

    started = replicas("start")
    assert started.status == 0, started.out
    values = ("plugins=[mylab]", "model=hosted", "planner=telling", "dataset.limit=2", "name=joined")
    ended = sweep(tmp_path, cluster, *values, PYTHONPATH=str(lab))
    assert ended.status == 0, ended.err
    assert "joined a running pool of 1 replicas" in ended.out
    assert [row["engine"] for row in ended.rows("joined")] == ["hosted_null"] * 2
    assert "1 replicas stopped" in replicas("stop").out


def test_another_version_than_the_drivers_is_refused_by_name(cluster: str, tmp_path: Path) -> None:
    site = write_distribution(tmp_path / "site", "0.2")
    ended = sweep(tmp_path, cluster, "planner=telling", "dataset.limit=1", "name=missing", PYTHONPATH=str(site))
    assert ended.status == 1
    assert f"mylab-tools 0.2 is not installed on {os.uname().nodename}" in ended.err


def test_an_older_version_there(tmp_path: Path) -> None:
    old, new = (write_distribution(tmp_path / version, version) for version in ("0.1", "0.2"))
    with head(environment={**UNGUARDED, "PYTHONPATH": str(old)}) as address:
        of_tasks, of_replicas = (
            sweep(tmp_path, address, part, "dataset.limit=1", "name=old", PYTHONPATH=str(new))
            for part in ("planner=telling", "model=hosted")
        )
    why = (
        f"stopped: {os.uname().nodename} has mylab-tools 0.1, but the sweep's driver has 0.2; "
        "install the same version on all nodes"
    )
    for ended in (of_tasks, of_replicas):
        assert ended.status == 1
        (line,) = ended.err.splitlines()
        assert line.startswith(why)

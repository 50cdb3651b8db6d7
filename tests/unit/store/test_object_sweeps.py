"""Whole sweeps into an object store, and the commands that read what they left there."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

from grid import store
from grid.core.places import Address
from tests.support import commands, in_process
from tests.support.objects import copied

SWEEP = ["-m", "planner=react,zero_shot", "robustness=none", "dataset.limit=4", "trials=2", "cluster.dashboard=false"]
CELLS = 16
APART = ["attempt_id", "wall_seconds", "case_seconds", "created_at", "seconds"]
_KILLED_SECONDS = 120.0  # behind a driver's start, at which it is killed if it has not come so far


def rows(root: Path, table: store.Table = "episodes") -> pa.Table:
    """What two runs of the same cells have in common."""
    found = store.read(root, table)
    return found.drop_columns([name for name in APART if name in found.column_names])


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sweep in a folder."""
    folder = tmp_path_factory.mktemp("local")
    assert commands.launch("sweep", folder, *SWEEP).status == 0
    return folder / "results" / "default"


@pytest.mark.long
def test_a_sweep_s_rows_are_those_of_a_folder(bucket: Address, local: Path, tmp_path: Path) -> None:
    root = bucket / "results" / "default"
    ended = commands.launch("sweep", tmp_path, *SWEEP, f"store.root={bucket}/results")
    assert (ended.status, ended.err) == (0, "")
    for table in ("episodes", "steps", "messages", "sections", "cases", "metrics"):
        assert rows(root, table).equals(rows(local, table))
    assert "nothing to run" in commands.launch("sweep", tmp_path, *SWEEP, f"store.root={bucket}/results").out
    beside_it = [*(tmp_path / "cache" / "agent-grid" / "objects").rglob("*.*")]
    assert {path.name for path in beside_it} == {".lock", ".cache", ".owner", ".tmp"}
    assert not [name for name in commands.files(tmp_path) if name.endswith(".parquet")]


@pytest.mark.long
def test_what_reads_results_says_the_same_of_an_object_store_s(bucket: Address, local: Path, tmp_path: Path) -> None:
    root = copied(local, bucket / "copied" / "default")
    both = (root, local)
    assert alike([in_process.launch("report", tmp_path, str(one)).out for one in both], both)
    assert alike([(one / "report.html").read_text() for one in both], both)
    for one, name in zip(both, ("there", "here"), strict=True):
        assert in_process.launch("view", tmp_path, str(one), "--export", name).status == 0
    there, here = (commands.files(tmp_path / name) for name in ("there", "here"))
    assert there.keys() == here.keys()
    assert all(alike([found[name].decode() for found in (there, here)], both) for name in here)
    power = ["--planners", "react,zero_shot", "--difference", "20"]
    for command, *more in (["rescore"], ["power", *power], ["threshold"]):
        ended = [in_process.launch(command, tmp_path, str(one), *more) for one in both]
        assert ended[0].status == ended[1].status == 2 * (command == "threshold"), ended[0].err
        assert alike([one.out + one.err for one in ended], both)


def alike(said: list[str], both: tuple[Path, Path]) -> bool:
    """Whether they are but for where the results lie, and for where lines end."""
    first, second = ("".join(text.split()).replace(str(one), "") for text, one in zip(said, both, strict=True))
    return first == second


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_no_cell_is_lost_or_run_again_that_had_a_row(bucket: Address, local: Path, tmp_path: Path, kills: int) -> None:
    chance, root = random.Random(kills), bucket / "results" / "default"
    command = [*SWEEP, f"store.root={bucket}/results"]
    while kills:
        before = there(root)
        with commands.started("sweep", tmp_path, *command) as (process, said):
            until = time.monotonic() + _KILLED_SECONDS
            while process.is_alive() and "Ray runs" not in said("out") and time.monotonic() < until:
                time.sleep(0.05)
            process.join(chance.uniform(0, 12))
            kills -= process.is_alive()
            process.kill()
            process.join()
            told = re.search(r"(\d+) already done", said("out"))
        assert told is None or int(told[1]) >= len(before)
        assert before <= there(root)
        if len(there(root)) == CELLS:
            assert rows(root).equals(rows(local))
            for path in root.rglob("*"):
                path.unlink()
    assert commands.launch("sweep", tmp_path, *command).status == 0
    for table in ("episodes", "steps", "messages"):
        assert rows(root, table).equals(rows(local, table))


def there(root: Path) -> set[tuple[str, str]]:
    """The cells that have rows, and the tries that these are of."""
    found = store.read(root, "episodes", ["cell_id", "attempt_id"])
    return {*zip(*(found[name].to_pylist() for name in found.column_names), strict=True)}


@pytest.mark.long
def test_a_second_sweep_of_a_name_is_refused(bucket: Address, tmp_path: Path) -> None:
    with store.locked(bucket / "results" / "default"):
        store.write(bucket / "results" / "default", {"metrics": []})
        for cache in ("cache", "other"):
            ended = commands.launch(
                "sweep", tmp_path, *SWEEP, f"store.root={bucket}/results",
                environment={"XDG_CACHE_HOME": str(tmp_path / cache)},
            )  # fmt: skip
            assert ended.status == 2
            assert ended.err.count("\n") == 1
            assert f"{bucket}/results/default: another sweep is writing results with this name (process " in ended.err
    assert [*(bucket / "results").rglob("*.parquet")] == []

"""Results in an object store: what a folder's files do, objects of a real S3 server do too."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analysis.viewer.reading import ask, connect
from grid import store
from grid.cells import paying
from grid.core import places
from grid.core.engine import ACTOR
from grid.core.errors import ConfigError, StoreError
from grid.core.places import Address, beside, folder_at
from grid.store import compacting, holding, scanning
from grid.store import files as store_files
from tests.support import objects
from tests.support.objects import contents, copied
from tests.unit.store.test_compaction_kills import small_files
from tests.unit.store.test_store import chunk, episode

WRITTEN = Path(__file__).parents[2] / "data" / "version_16"
TABLES: tuple[store.Table, ...] = get_args(store.Table)
RUN: store.RunRecord = {
    "started_at": "2026-01-01T00:00:00+00:00", "command": "sweep", "git_commit": None, "versions": {}, "seed": 0,
    "system": "", "cpu": "", "cpus": 1, "gpus": {},
}  # fmt: skip


@pytest.fixture
def root(bucket: Address) -> Address:
    return bucket / "results" / "name"


@pytest.fixture(params=["whole", "in parts"])
def read_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small objects are read whole, and large ones in parts: every one as if it were large."""
    if request.param == "in parts":
        for module in (store_files, scanning):
            monkeypatch.setattr(module, "SMALL", 0)


@pytest.mark.long
def test_objects_are_the_files_that_a_folder_would_have(root: Address, tmp_path: Path) -> None:
    for place in (root, tmp_path / "name"):
        for cell in ("a", "b"):
            store.write(place, chunk(cell))
        store.record_run(place, RUN, {}, {"data": {"broken": 2}})
    assert contents(root) == contents(tmp_path / "name")
    assert len(contents(root)) == 2 * len(TABLES) + 1
    assert store.runs(root)["runs"] == [RUN]
    drafts = beside(root) / ".tmp"
    assert list(drafts.iterdir()) == []


@pytest.mark.long
@pytest.mark.usefixtures("read_in")
def test_what_is_read_is_what_a_folder_would_give(root: Address, tmp_path: Path) -> None:
    small_files(tmp_path / "name", 3)
    copied(tmp_path / "name", root)
    where = pc.field("cell_id") > "00000001a"
    for table in TABLES:
        assert store.read(root, table).equals(store.read(tmp_path / "name", table))
        if "cell_id" in store.read(root, table).column_names:
            here, there = (store.read(one, table, ["cell_id"], where) for one in (tmp_path / "name", root))
            assert here.num_rows < store.read(root, table).num_rows
            assert there.equals(here)
    assert store.size(root, TABLES) == store.size(tmp_path / "name", TABLES)
    assert [*store.finished(root)] == [*store.finished(tmp_path / "name")]
    query = "SELECT cell_id, answer FROM $files WHERE attempt_id > $least ORDER BY ALL"
    told = [ask(connect(one), one, "episodes", query, {"least": "00000001"}) for one in (root, tmp_path / "name")]
    assert isinstance(told[1], pa.Table)
    assert told[1].num_rows > 1
    assert told[0] == told[1]


@pytest.mark.long
@pytest.mark.usefixtures("read_in")
def test_a_merged_object_holds_what_it_replaces_once(
    root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_files(tmp_path / "name", 3)
    copied(tmp_path / "name", root)
    before = {table: store.read(root, table) for table in TABLES}
    with monkeypatch.context() as patch:
        patch.setattr(compacting, "_remove", lambda path: None)  # killed just before
        store.compact(root)
        assert all(store.read(root, table).equals(before[table]) for table in TABLES)
    store.compact(root)
    assert all(store.read(root, table).equals(before[table]) for table in TABLES)
    assert {len([*(root / table).glob("*.parquet")]) for table in TABLES} == {1}


def test_a_damaged_object_is_noticed_and_put_aside(root: Address) -> None:
    store.write(root, {"episodes": [episode("a")]})
    store.write(root, {"episodes": [episode("b")]})
    first, second = sorted((root / "episodes").iterdir())
    first.write_bytes(first.read_bytes()[:-20] + bytes(20))
    with pytest.raises(StoreError, match=f"{first}.*damaged"):
        store.check(root)
    (line,) = store.put_aside(root)
    assert f"{first} is damaged" in line
    assert [one.name for one in (root / "episodes").iterdir()] == [second.name]
    assert [one.name for one in (root / ".aside" / "episodes").iterdir()] == [first.name]
    assert store.read(root, "episodes").num_rows == 1


def test_a_large_object_that_was_cut_is_refused(root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(root, {"episodes": [episode("a")]})
    monkeypatch.setattr(store_files, "SMALL", 0)
    (path,) = (root / "episodes").iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(StoreError, match=str(path)):
        store.read(root, "episodes")


# One writer.


def holder(root: Address, cache: Path) -> subprocess.Popen[str]:
    """A process that holds a folder, and has a cache of its own; it ends when it may read a line."""
    code = (
        "import sys; from grid import store; from grid.core.places import folder_at\n"
        "try:\n"
        "    with store.locked(folder_at(sys.argv[1])):\n"
        "        print('held', flush=True); sys.stdin.readline()\n"
        "except store.files.StoreError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", code, str(root)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@contextmanager
def held(root: Address, cache: Path) -> Iterator[subprocess.Popen[str]]:
    with holder(root, cache) as process:
        try:
            assert said(process) == "held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.long
def test_one_writer_holds_it_wherever_others_are(root: Address, tmp_path: Path) -> None:
    with held(root, tmp_path / "cache") as first:
        for cache in ("cache", "other"):
            with holder(root, tmp_path / cache) as second:
                told, _ = second.communicate("\n")
            assert told.startswith(f"{root}: another sweep is writing results with this name (process {first.pid} on ")
            assert told.count("\n") == 1
        first.communicate("\n")
    with held(root, tmp_path / "other"):  # let go of: at once
        pass


@pytest.mark.long
def test_a_writer_that_was_killed_holds_it_no_more(
    root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(root, tmp_path / "cache") as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        with store.locked(root):  # whose cache it is too: at once
            pass
    with held(root, tmp_path / "other") as second:
        second.send_signal(signal.SIGKILL)
        second.wait()
        with pytest.raises(StoreError, match=f"process {second.pid} on"), store.locked(root):
            pass
        monkeypatch.setattr(holding, "_LEASE_SECONDS", 0.0)
        monkeypatch.setattr(holding, "_BEAT_SECONDS", 0.05)
        with store.locked(root):  # not written anew for long enough
            pass


def test_a_writer_that_still_writes_its_name_is_left_alone(
    root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_BEAT_SECONDS", 0.2)
    with store.locked(root):
        monkeypatch.setattr(holding, "_LEASE_SECONDS", -10.0)  # as if this machine's clock were ahead
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
        with pytest.raises(StoreError, match="another sweep"), store.locked(root):
            pass


def test_of_many_at_once_one_holds_it(s3: str, root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from a cache of its own, so that nothing but the object keeps them apart.

    Requests reach the server one at a time: moto looks at a condition, and writes in a second step.
    """
    with objects.failing(s3, lambda method, path: 0) as url:
        through(url, monkeypatch)
        assert_one_holds(root, tmp_path)


def assert_one_holds(root: Address, tmp_path: Path) -> None:
    ready, over = threading.Barrier(8), threading.Barrier(8)
    ended = list[str]()

    def try_it(number: int) -> None:
        here = tmp_path / str(number)
        here.mkdir()
        one = holding._Name(root, here)
        ready.wait()
        try:
            with one:
                ended.append("held")
                over.wait()
        except StoreError as error:
            ended.append(str(error))
            over.wait()

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.count("held") == 1
    assert all("another sweep is writing" in one for one in ended if one != "held")


def test_a_name_that_nobody_can_read_is_somebody_s(root: Address) -> None:
    (root / ".lock").write_bytes(b'{"cache": "some')
    with pytest.raises(StoreError, match="another sweep is writing results with this name;"), store.locked(root):
        pass


def test_who_was_taken_over_does_not_let_go_of_the_other_s(
    root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_BEAT_SECONDS", 0.05)
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
    first = holding._Name(root, tmp_path / "first")
    first.__enter__()
    first._over.set()  # it stands still
    first._thread.join()
    monkeypatch.setattr(holding, "_LEASE_SECONDS", 0.0)
    with holding._Name(root, tmp_path / "second"):
        first.__exit__()
        monkeypatch.setattr(holding, "_LEASE_SECONDS", 60.0)
        with pytest.raises(StoreError, match="another sweep"), holding._Name(root, tmp_path / "third"):
            pass
    with holding._Name(root, tmp_path / "third"):
        pass


# A store that is not well.


def through(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)


@pytest.mark.long
def test_requests_that_are_refused_now_and_then_are_made_again(
    s3: str, root: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = count(1)
    with objects.failing(s3, lambda method, path: 503 if next(number) % 3 == 0 else 0) as url:
        through(url, monkeypatch)
        with store.locked(root):
            for cell in ("a", "b"):
                for place in (root, tmp_path / "name"):
                    store.write(place, chunk(cell))
            store.compact(root)
        for table in TABLES:
            assert store.read(root, table).equals(store.read(tmp_path / "name", table))
    assert next(number) > 50


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_a_bucket_that_refuses_is_told_of_before_a_sweep(
    s3: str, root: Address, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    with objects.failing(s3, lambda asked, path: 403 if asked == method else 0) as url:
        through(url, monkeypatch)
        with pytest.raises(ConfigError, match=r"store\.root='s3://.*AccessDenied: as planned") as raised:
            root.expect_usable("store.root", str(root))
        with pytest.raises(StoreError, match=f"{root}.*AccessDenied"):
            store.write(root, chunk("a")) if method == "PUT" else store.read(root, "episodes")
    through(s3, monkeypatch)
    assert "\n" not in str(raised.value)
    assert contents(root) == {}


def test_a_store_that_heeds_no_condition_is_refused(s3: str, root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    with objects.failing(s3, lambda asked, path: 200 if asked == "PUT" else 0) as url:
        through(url, monkeypatch)
        with pytest.raises(ConfigError, match="with conditional writes"):
            root.expect_usable("store.root", str(root))


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_is_not_there_is_named() -> None:
    gone = folder_at("s3://nowhere-at-all/results")
    assert isinstance(gone, Address)
    with pytest.raises(ConfigError, match=r"s3://nowhere-at-all/results.*NoSuchBucket"):
        gone.expect_usable("store.root", str(gone))
    with pytest.raises(StoreError, match="s3://nowhere-at-all/results"):
        store.check_there(gone)


def test_it_is_seen_before_anything_is_written_whether_it_is_usable(root: Address) -> None:
    root.expect_usable("store.root", str(root))
    assert contents(root) == {}
    assert not root.exists()


# What stays, and who else reads.


def test_a_ledger_of_money_is_a_file_beside_it(root: Address) -> None:
    ledger = paying.Ledger(root, "setting", "try")
    ledger.write("asked", ACTOR)
    assert paying.tab_of(root, "setting", "try").unheard[ACTOR] == 1
    assert (beside(root) / ".money").is_dir()
    assert not root.exists()
    (line,) = paying.settle(root)
    assert "1 calls were in flight at that time" in line
    assert store.read(root, "attempts").num_rows == 1
    assert not (beside(root) / ".money").exists()


@pytest.mark.long
def test_a_folder_of_version_16_is_read_there_and_gone_on_with(root: Address) -> None:
    copied(WRITTEN, root)
    store.check(root)
    for table in TABLES:
        assert store.read(root, table).equals(store.read(WRITTEN, table))
    query = "SELECT count(*) AS n, sum(reasoning_tokens) AS told FROM $files"
    assert ask(connect(root), root, "episodes", query, {}) == ask(connect(WRITTEN), WRITTEN, "episodes", query, {})
    before = store.read(root, "episodes").num_rows
    store.write(root, {"episodes": [episode("new")]})
    store.compact(root)
    assert store.read(root, "episodes").num_rows == before + 1


def test_listings_count_for_a_moment_where_nothing_is_written(root: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(root, {"episodes": [episode("a")]})
    with places.steady():
        assert store.read(root, "episodes").num_rows == 1
        store.write(root, {"episodes": [episode("b")]})
        assert store.read(root, "episodes").num_rows == 1
        monkeypatch.setattr(places, "_STEADY_SECONDS", 0.0)
        assert store.read(root, "episodes").num_rows == 2


def test_what_was_replaced_since_it_was_listed_is_listed_again(root: Address) -> None:
    for cell in ("a", "b"):
        store.write(root, {"episodes": [episode(cell)]})
    with places.steady():
        assert store.read(root, "episodes").num_rows == 2
        store.compact(root)
        assert sorted(store.read(root, "episodes", ["cell_id"])["cell_id"].to_pylist()) == ["a", "b"]


def test_several_folders_are_gathered_into_one_here(root: Address, tmp_path: Path) -> None:
    for name in ("one", "two"):
        store.write(root / name, chunk(name))
    store.gather(tmp_path / "both", [root / "one", root / "two"])
    assert store.read(tmp_path / "both", "episodes").num_rows == 2
    with pytest.raises(ConfigError, match=r"--into='s3://.*a folder of a file system"):
        store.gather(root / "both", [root / "one", root / "two"])


def test_an_object_is_read_as_a_file_is(root: Address, tmp_path: Path) -> None:
    """In whatever steps, from wherever to wherever, and beyond its end."""
    chance, content = random.Random(0), bytes(range(200))
    for place in (root, tmp_path):
        (place / "file").write_bytes(content)
    with (root / "file").open("rb") as there, (tmp_path / "file").open("rb") as here:
        for _ in range(60):
            if chance.random() < 0.5:
                offset, whence = chance.choice([(chance.randrange(250), 0), (-chance.randrange(200), 2)])
                assert there.seek(offset, whence) == here.seek(offset, whence)
            count = chance.choice([1, 7, 64, 300, -1])
            assert there.read(count) == here.read(count)
            assert there.tell() == here.tell()
    with pytest.raises(OSError, match="written whole"):
        (root / "file").open("w")


def test_names_below_are_told_as_a_folder_s(root: Address, tmp_path: Path) -> None:
    for place in (root, tmp_path / "name"):
        for name in ("a.parquet", "b.json", "c/d.parquet", "c/e/f.json", "cc.parquet"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(name)
    for verb in ("glob", "rglob"):
        for pattern in ("*.parquet", "c*", "nothing"):
            first, second = (
                {one.relative_to(place).as_posix() for one in getattr(place, verb)(pattern) if one.is_file()}
                for place in (root, tmp_path / "name")
            )
            assert first == second
    assert {one.name for one in root.iterdir()} == {"a.parquet", "b.json", "cc.parquet"}
    for name in (".", "a.parquet", "c", "nothing", "a"):
        there, here = ((place / name if name != "." else place) for place in (root, tmp_path / "name"))
        assert [there.exists(), there.is_file(), there.is_dir()] == [here.exists(), here.is_file(), here.is_dir()]
    (root / "b.json").replace(root / "c" / "g")
    assert [(root / "b.json").exists(), (root / "c" / "g").read_text()] == [False, "b.json"]

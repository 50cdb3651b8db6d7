"""Damage among the tables: noticed whatever was hit, named, put aside, never merged, never taken for another error."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grid import store
from grid.core.errors import StoreError
from grid.store import __main__ as command
from grid.store import files, scanning
from grid.store.compacting import StoreWarning
from grid.store.schema import IDS, SCHEMA_VERSION, TABLES
from tests.unit.store.test_compacting import everything, fill
from tests.unit.store.test_store import (
    attempt,
    case,
    comparison,
    episode,
    improvement,
    message,
    metric,
    named,
    node,
    rescore,
    scoring,
    section,
    step,
)

HARMLESS = "harmless"


@pytest.fixture
def filled(once_filled: Path, tmp_path: Path) -> Path:
    """A copy of that."""
    return Path(shutil.copytree(once_filled, tmp_path / "filled"))


def varied(root: Path, cells: int = 40) -> None:
    """A file a table, of dictionary pages, plain ones, nulls, lists."""
    names = [f"{number:016x}" for number in range(cells)]
    texts = random.Random(0)
    store.write(
        root,
        {
            "episodes": [
                episode(n, answer=str(texts.random()), planner="react", success=True, seed=texts.getrandbits(62))
                | {"scores": {"inclusion": texts.random()}, "costs": {"actor": {"input_tokens": texts.getrandbits(40)}}}
                for n in names
            ],
            "steps": [
                step(n, index=i, entropy=texts.random(), options=[{"tool": "a", "probability": texts.random()}])
                for n in names
                for i in range(3)
            ],
            "nodes": [
                node(n, place=i, value=texts.random(), written=str(texts.random())) for n in names for i in range(3)
            ],
            "improvements": [improvement(n, place=i, seconds=texts.random()) for n in names for i in range(3)],
            "comparisons": [comparison(n, win=texts.random()) for n in names],
            "attempts": [attempt(n) | {"input_tokens": texts.getrandbits(40)} for n in names],
            "messages": [
                message(n, place=i, answers=[str(texts.random())], probabilities=[texts.random()])
                for n in names
                for i in range(2)
            ],
            "sections": [section(n, options=[str(texts.random())]) for n in names],
            "cases": [case(n, query=str(texts.random())) for n in names],
            "scorings": [scoring(n, money=texts.random()) for n in names],
            "rescores": [rescore(n, value=texts.random()) for n in names],
            "metrics": [metric(n, meaning=str(texts.random())) for n in names],
        },
    )


def flipped(path: Path, bit: int) -> bytes:
    """Flip a bit of a file; returns what it held."""
    content = path.read_bytes()
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    return content


def age(root: Path) -> None:
    """Have the files be old enough to be looked at only once."""
    files.forget()
    for path in root.glob("*/*.parquet"):
        os.utime(path, (0, 0))


def flips(root: Path, count: int, rng: random.Random) -> dict[str, int]:
    """Single-bit flips over all tables, one at a time: how many of them `read` noticed, or were harmless."""
    found: dict[str, int] = {}
    for table in get_args(store.Table):
        before = store.read(root, table)
        (path,) = (root / table).glob("*.parquet")
        bits = rng.sample(range(8 * path.stat().st_size), count // len(TABLES))
        for bit in bits:
            content = flipped(path, bit)
            try:
                what = HARMLESS if store.read(root, table).equals(before) else "not noticed"
            except StoreError as error:
                what = "noticed" if str(path) in str(error) else "not named"
            found[what] = found.get(what, 0) + 1
            path.write_bytes(content)
        assert store.read(root, table).equals(before)
    return found


@pytest.mark.parametrize("count", [64, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_noticed(tmp_path: Path, count: int) -> None:
    varied(tmp_path)
    assert list(flips(tmp_path, count, random.Random(1))) == ["noticed"]


@pytest.mark.parametrize("small", [True, False], ids=["read whole", "scanned"])
@pytest.mark.parametrize("count", [64, pytest.param(1000, marks=pytest.mark.slow)])
def test_checksums_alone_notice_what_is_flipped_in_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, small: bool
) -> None:
    """A disk that forgets after a file was looked at: no time and no size changes."""
    limit = files.SMALL if small else 0
    varied(tmp_path)
    rng = random.Random(2)
    paths = {table: next((tmp_path / table).glob("*.parquet")) for table in get_args(store.Table)}
    places = {table: pages(path) for table, path in paths.items()}
    before = {table: store.read(tmp_path, table) for table in paths}
    looks = {path: files.look(path, table) for table, path in paths.items()}
    for _ in range(count):
        table = rng.choice(list(paths))
        content = flipped(paths[table], 8 * rng.choice(places[table]) + rng.randrange(8))
        monkeypatch.setattr(scanning, "SMALL", limit)
        monkeypatch.setattr(files, "look", lambda path, table, names: looks[path])
        monkeypatch.setattr(scanning, "forget", monkeypatch.undo)
        try:
            with pytest.raises(StoreError, match=paths[table].name):
                store.read(tmp_path, table)
        finally:
            monkeypatch.undo()
            paths[table].write_bytes(content)
    assert all(store.read(tmp_path, table).equals(before[table]) for table in paths)


def pages(path: Path) -> list[int]:
    """Where the last bytes of each column's last page stand: no header is there."""
    footer = pq.read_metadata(path)
    places: list[int] = []
    for place in range(footer.num_columns):
        column = footer.row_group(0).column(place)
        start = column.dictionary_page_offset or column.data_page_offset
        places += range(start + column.total_compressed_size - 4, start + column.total_compressed_size)
    return places


@pytest.mark.parametrize("table", get_args(store.Table))
def test_a_file_that_was_whole_before_is_looked_at_again_when_it_changes(tmp_path: Path, table: store.Table) -> None:
    varied(tmp_path)
    age(tmp_path)
    store.read(tmp_path, table)
    (path,) = (tmp_path / table).glob("*.parquet")
    flipped(path, 4000)
    with pytest.raises(StoreError, match=path.name):
        store.read(tmp_path, table)


def broken(path: Path, how: str) -> None:
    """Make a file of a table one that cannot be read."""
    content = path.read_bytes()
    if how == "foreign":
        pq.write_table(TABLES["episodes"].empty_table(), path)
    elif how == "text":
        path.write_text("cell_id,success\n1,true\n")
    elif how == "flipped":
        flipped(path, 4000)
    else:
        path.write_bytes(content[: int(float(how) * len(content))])


@pytest.mark.parametrize("how", ["0.0", "0.5", "0.99", "foreign", "text", "flipped"])
def test_a_damaged_file_is_refused_by_name_and_put_aside(tmp_path: Path, how: str) -> None:
    store.write(tmp_path, {"episodes": [episode("a")]})
    (path,) = (tmp_path / "episodes").iterdir()
    store.write(tmp_path, {"episodes": [episode("b")]})
    broken(path, how)
    for use in (store.check, store.finished, store.newest, lambda root: store.read(root, "episodes")):
        with pytest.raises(StoreError, match=f"{path}: damaged"):
            use(tmp_path)
    store.check(tmp_path, damage=False)
    with store.without_damaged():
        assert store.read(tmp_path, "episodes", ["cell_id"])["cell_id"].to_pylist() == ["b"]
    with pytest.raises(StoreError, match=f"{path}: damaged"):
        store.read(tmp_path, "episodes")
    (line,) = store.put_aside(tmp_path)
    assert str(path) in line
    assert "its cells run again" in line
    assert set(store.finished(tmp_path)) == {"b"}
    assert (tmp_path / ".aside" / "episodes" / path.name).is_file()
    store.write(tmp_path, {"episodes": [episode("a")]})
    assert set(store.finished(tmp_path)) == {"a", "b"}


def test_cells_whose_steps_were_damaged_run_again(tmp_path: Path) -> None:
    for cell in "abc":
        row = episode(cell, n_steps=1, cell_key=f"key-{cell}")
        store.write(tmp_path, {"episodes": [row], "steps": [step(cell)]})
    store.write(tmp_path, {"episodes": [episode("none", n_steps=0, cell_key="key-none")]})
    path = next((tmp_path / "steps").iterdir())
    (lost,) = pq.read_table(path)["cell_id"].to_pylist()
    flipped(path, 4000)
    (line,) = store.put_aside(tmp_path)
    assert str(path) in line
    assert set(store.finished(tmp_path)) == {"a", "b", "c", "none"} - {lost}
    assert set(store.finished(tmp_path, by="cell_key")) == {"key-a", "key-b", "key-c", "key-none"} - {f"key-{lost}"}
    store.write(
        tmp_path, {"episodes": [row | episode(lost, "2", 1, cell_key=f"key-{lost}")], "steps": [step(lost, "2")]}
    )
    assert set(store.finished(tmp_path)) == {"a", "b", "c", "none"}


@pytest.mark.long
def test_a_damaged_file_is_neither_merged_nor_removed(filled: Path) -> None:
    damaged = [next((filled / table).iterdir()) for table in get_args(store.Table)]
    contents = {}
    for path in damaged:
        flipped(path, 4000)
        contents[path] = path.read_bytes()
    with pytest.warns(StoreWarning) as caught:
        counts = store.compact(filled)
    assert [str(path) in str(one.message) for path, one in zip(damaged, caught, strict=True)] == [True] * len(damaged)
    assert counts == dict.fromkeys(get_args(store.Table), (15, 1))
    assert {path: path.read_bytes() for path in damaged} == contents
    assert len(store.put_aside(filled)) == len(damaged)
    assert len(store.read(filled, "attempts")) == 15


def test_a_file_that_breaks_after_it_was_looked_at_is_not_merged(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = next((filled / "episodes").iterdir())
    look = files.look

    def then_break(one: Path, table: str, names: Sequence[str] = ()) -> files.File | None:
        found = look(one, table, names)
        if one == path:
            flipped(one, 4000)
        return found

    monkeypatch.setattr(files, "look", then_break)
    with pytest.warns(StoreWarning, match=path.name):
        assert store.compact(filled)["episodes"] == (16, 2)
    assert path.is_file()


@pytest.mark.long
def test_a_damaged_file_whose_rows_were_merged_before_harms_nobody(filled: Path) -> None:
    before = everything(filled)
    path = next((filled / "episodes").iterdir())
    content = path.read_bytes()
    store.compact(filled)
    path.write_bytes(content)  # as if the compaction had been killed before it removed it
    flipped(path, 4000)
    assert everything(filled) == before
    (line,) = store.put_aside(filled)
    assert "its rows are in a larger file" in line
    assert everything(filled) == before


def refused(code: int) -> Callable[..., Any]:
    def refuse(path: Any, *_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code), str(path))

    return refuse


USES: list[Callable[[Path], Any]] = [
    store.check,
    store.put_aside,
    store.compact,
    store.finished,
    store.newest,
    store.check_there,
    lambda root: store.read(root, "episodes"),
]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("what", ["folder", "file"])
def test_an_error_of_the_system_is_an_error_with_the_path_and_puts_nothing_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, what: str
) -> None:
    fill(tmp_path, 2)
    (first, *_) = sorted((tmp_path / "episodes").iterdir())
    place = tmp_path / "episodes" if what == "folder" else first
    scandir, opened = os.scandir, Path.open
    refuse = refused(code)
    monkeypatch.setattr(os, "scandir", lambda path: (refuse if Path(path) == place else scandir)(path))
    monkeypatch.setattr(
        Path, "open", lambda path, *mode, **how: (refuse if path == place else opened)(path, *mode, **how)
    )
    for use in USES[:-2] if what == "file" else USES:
        with pytest.raises(StoreError) as caught:
            use(tmp_path)
        assert f"{place}: cannot be read ({os.strerror(code)})" in str(caught.value)
    monkeypatch.undo()
    assert not (tmp_path / ".aside").exists()
    assert store.read(tmp_path, "attempts").num_rows == 3


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve()
        path.chmod(0o755)
        yield path


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, who may not read")
@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444])
@pytest.mark.parametrize("name", ["", "episodes"])
def test_a_folder_without_permission_is_no_empty_one(readable: Path, mode: int, name: str) -> None:
    fill(readable, 2)
    (readable / name).chmod(mode)
    code = (
        "import os, sys; from pathlib import Path; from grid import store; from grid.core.errors import StoreError\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for use in (store.check, store.check_there, store.finished, lambda root: store.read(root, 'episodes')):\n"
        "    try: use(Path(sys.argv[1])); print('no error', use)\n"
        "    except StoreError as error: assert sys.argv[1] in str(error) and 'Permission denied' in str(error), error"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(readable)], capture_output=True, text=True, check=False)
    (readable / name).chmod(0o755)
    # Names may be read at 444, which contents check_there; of a folder that may only be passed, those below it.
    allowed = {("episodes", 0o444): 1, ("", 0o111): 4}.get((name, mode), 0)
    assert ended.stdout.count("no error") == allowed, ended.stdout
    assert ended.stderr == ""


@pytest.mark.parametrize("where", ["a file", "a table", "the results"])
def test_a_link_that_leads_nowhere_is_noticed_at_once(tmp_path: Path, where: str) -> None:
    root = tmp_path / "results"
    if where == "the results":
        root.symlink_to(tmp_path / "gone")
    elif where == "a table":
        root.mkdir()
        (root / "episodes").symlink_to(tmp_path / "gone")
    else:
        store.write(root, {"episodes": [episode("a")]})
        (root / "episodes" / f"{'0' * 32}.parquet").symlink_to(tmp_path / "gone")
    for use in [*USES[:5], USES[6]]:
        with pytest.raises(StoreError, match=r"a broken link .*gone does not exist"):
            use(root)
    assert not (root / ".aside").exists()


def test_a_link_to_a_file_is_as_good_as_the_file(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a")]})
    (path,) = (tmp_path / "episodes").iterdir()
    path.rename(tmp_path / path.name)
    path.symlink_to(tmp_path / path.name)
    assert set(store.finished(tmp_path)) == {"a"}


@pytest.mark.parametrize("name", ["", "episodes", f"episodes/{'0' * 32}.parquet"])
def test_a_file_for_a_folder_and_a_folder_for_a_file_are_said(tmp_path: Path, name: str) -> None:
    place = tmp_path / "results" / name
    if name.endswith(".parquet"):
        place.mkdir(parents=True)
    else:
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
    for use in USES[:5]:
        with pytest.raises(
            StoreError, match="not a regular file" if place.is_dir() else "a file in the place of a folder"
        ):
            use(tmp_path / "results")


def changed(table: str, how: str) -> tuple[pa.Table, str]:
    """A table as a newer or older program might write it, and the column that is wrong."""
    schema = TABLES[table].with_metadata({"schema_version": SCHEMA_VERSION})
    first = schema.names[0]
    data = pa.Table.from_pylist([dict.fromkeys((first, *IDS[table]), name) for name in "ab"], schema=schema)
    last = data.column_names[-1]
    if how == "dropped":
        return data.drop_columns([last]), last
    if how == "type":
        other = pa.array([1, 2]) if data[last].type == pa.string() else pa.array(["x", "y"])
        return data.set_column(data.num_columns - 1, last, other), last
    if how == "further":
        return data.append_column("more", pa.array([1, 2])), "more"
    if how == "order":
        return data.select(data.column_names[::-1]), last
    if how == "no id":
        return data.drop_columns([first]), first
    return pa.Table.from_pylist([{first: None}, {first: "b"}], schema=schema), first


@pytest.mark.parametrize("table", get_args(store.Table))
@pytest.mark.parametrize("how", ["type", "no id", "null"])
def test_columns_of_other_types_and_lacking_ids_are_refused_by_file_and_column(
    tmp_path: Path, table: store.Table, how: str
) -> None:
    if table == "attempts" and how != "type":
        return  # they are told apart by nothing
    data, column = changed(table, how)
    path = named(tmp_path / table, data)
    for use in (store.check, lambda root: store.read(root, table), store.compact):
        with pytest.raises(StoreError, match=rf"{path}: .*{column}"):
            use(tmp_path)
    assert store.put_aside(tmp_path / "other") == []
    assert path.is_file()


@pytest.mark.parametrize("table", get_args(store.Table))
@pytest.mark.parametrize("how", ["dropped", "further", "order"])
def test_other_columns_are_read_and_stay_as_they_were_written(tmp_path: Path, table: store.Table, how: str) -> None:
    """What a file lacks is null, what it has besides is kept and not read, and no compaction takes either away."""
    data, column = changed(table, how)
    path = named(tmp_path / table, data)
    store.check(tmp_path)
    read = store.read(tmp_path, table)
    assert read.schema.names == TABLES[table].names
    if table in ("episodes", "attempts", "sections", "cases", "comparisons"):
        assert len(read) == len(data), "those of cells need their episodes"
    if how == "dropped":
        assert set(read[column].to_pylist()) <= {None}
    store.compact(tmp_path)
    assert pq.read_table(path).column_names == data.column_names


def test_a_row_without_an_id_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a row without cell_id"):
        store.write(tmp_path, {"steps": [{"step": 1}]})


@pytest.mark.long
def test_a_listing_that_misses_a_merged_file_and_those_it_replaces_is_made_again(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, entries, calls = everything(filled), files._entries, []

    def torn(folder: Path) -> list[Path]:
        """Compacted while it is listed the second time, of which that listing sees nothing."""
        calls.append(folder)
        found = entries(folder)
        if len(calls) == 2:
            monkeypatch.setattr(files, "_entries", entries)
            store.compact(filled)
            return []
        return found

    monkeypatch.setattr(files, "_entries", torn)
    assert everything(filled) == before
    assert len(calls) == 2


def test_drafts_of_killed_writers_are_removed_when_the_lock_is_taken(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a")]})
    old, young, other = (tmp_path / ".tmp" / name for name in ("a.parquet", "b.parquet", "progress.json"))
    for path in (old, young, other):
        path.write_text("half")
    for path in (old, other):
        os.utime(path, (time.time() - 3600,) * 2)
    with store.locked(tmp_path):
        assert sorted((tmp_path / ".tmp").iterdir()) == [young, other]


def test_the_command_names_a_damaged_file_and_goes_on(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next((filled / "episodes").iterdir())
    flipped(path, 4000)
    monkeypatch.setattr("sys.argv", ["store", "compact", str(filled)])
    assert command.main() == 0
    printed = capsys.readouterr()
    assert f"warning: {path} is damaged" in printed.err
    assert "episodes: 15 files before, 1 now" in printed.out

"""Small files become large ones, and at no moment does a reader see too few or too many rows."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pyarrow.compute as pc
import pytest

from grid import store
from grid.core.errors import StoreError
from grid.store import compacting
from grid.store.__main__ import main
from grid.store.schema import TABLES
from tests.support.clusters import wait_for
from tests.unit.store.test_store import (
    attempt,
    case,
    comparison,
    episode,
    improvement,
    message,
    metric,
    node,
    rescore,
    scoring,
    section,
    step,
)


def fill(root: Path, chunks: int = 12) -> None:
    """Chunks of two cells with a step and a request each; every third chunk is tried twice."""
    for number in range(chunks):
        for attempt_id in ("1", "2") if number % 3 == 0 else ("1",):
            names = [f"{number:02d}{half}" for half in "ab"]
            minute = int(attempt_id)
            store.write(
                root,
                {
                    "episodes": [episode(name, attempt_id, minute=minute) for name in names],
                    "steps": [step(name, attempt_id) for name in names],
                    "nodes": [node(name, attempt_id) for name in names],
                    "improvements": [improvement(name, attempt_id) for name in names],
                    "messages": [message(name, attempt_id) for name in names],
                    "sections": [section("shared"), *(section(f"{name}-{attempt_id}") for name in names)],
                    "cases": [case("shared"), *(case(f"{name}-{attempt_id}") for name in names)],
                    "attempts": [attempt(f"{number}-{attempt_id}")],
                    "comparisons": [comparison(f"{number}-{attempt_id}")],
                    "scorings": [scoring(f"{number}-{attempt_id}")],
                    "rescores": [rescore(f"{number}-{attempt_id}")],
                    "metrics": [metric(f"m{number}_{attempt_id}")],
                },
            )


@pytest.mark.parametrize(("rows", "size"), [(1, 30), (30, 1)])
def test_files_are_merged_until_they_make_a_large_one(rows: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rows as by bytes: of small files, as many as it takes, and each in one group."""
    monkeypatch.setattr(compacting, "ROWS", 100)
    monkeypatch.setattr(compacting, "BYTES", 100)
    files = [SimpleNamespace(of_now=True, rows=rows, size=size, place=place) for place in range(10)]
    found = cast(Any, compacting._groups)(files)
    groups = [[file.place for file in group] for group in found]
    assert groups == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.fixture
def filled(once_filled: Path, tmp_path: Path) -> Path:
    """A folder of links to that: no file of a store is ever written to again."""
    return Path(shutil.copytree(once_filled, tmp_path / "filled", copy_function=os.link))


def everything(root: Path) -> dict[str, Any]:
    found = {}
    for table in get_args(store.Table):
        rows = store.read(root, table).to_pylist()
        found[table] = sorted(map(repr, rows))
    return found


def count(root: Path) -> int:
    return sum(1 for _ in root.glob("*/*.parquet"))


def test_rows_stay_and_files_become_few(filled: Path) -> None:
    before = everything(filled)
    assert len(before["episodes"]) == 24
    assert len(before["attempts"]) == 16
    assert len(before["sections"]) == 33
    assert store.compact(filled) == dict.fromkeys(TABLES, (16, 1))
    assert count(filled) == len(TABLES)
    assert everything(filled) == before
    assert store.compact(filled) == dict.fromkeys(TABLES, (1, 1))
    fill(filled)  # the very same chunks again
    assert everything(filled) == before


def test_large_files_are_left_as_they_are(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "ROWS", 8)
    assert store.compact(filled)["episodes"] == (16, 4)
    names = {path.name for path in (filled / "episodes").iterdir()}
    assert store.compact(filled)["episodes"] == (4, 4)
    assert {path.name for path in (filled / "episodes").iterdir()} == names


@pytest.mark.long
def test_a_compaction_that_dies_before_it_removes_anything_doubles_no_row(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, unlink = everything(filled), Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if ".tmp" not in path.parts:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        store.compact(filled)
    monkeypatch.undo()
    assert count(filled) == len(TABLES) * 16 + 1
    assert everything(filled) == before
    store.compact(filled)
    assert count(filled) == len(TABLES)
    assert everything(filled) == before


@pytest.mark.long
def test_readers_see_every_row_once_while_files_are_merged(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "ROWS", 6)
    before, wrong, ended = everything(filled), [], threading.Event()
    looks = 0

    def look() -> None:
        nonlocal looks
        while not ended.is_set():
            looks += 1
            try:
                if everything(filled) != before:
                    wrong.append("rows differ")
            except StoreError as error:
                wrong.append(str(error))

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for rows in (6, 20, 1000):
        monkeypatch.setattr(compacting, "ROWS", rows)
        assert any(after < files for files, after in store.compact(filled).values())
        seen = looks
        wait_for(lambda: looks > seen)  # noqa: B023 - called at once
    ended.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert count(filled) == len(TABLES)


def test_rows_are_chosen_by_any_column(filled: Path) -> None:
    data = store.read(filled, "episodes", ["case_id"], pc.field("cell_id") == "03a")
    assert data.num_rows == 1
    assert data.column_names == ["case_id"]
    assert store.read(filled, "steps", where=pc.field("cell_id").isin(["03a", "04b"])).num_rows == 2


def test_the_command(filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["store", "compact", str(filled)])
    with store.locked(filled):
        assert main() == 2
    assert "another sweep is writing results with this name (process" in capsys.readouterr().err
    assert main() == 0
    assert "episodes: 16 files before, 1 now" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["store", "compact", str(filled / "nothing")])
    assert main() == 2

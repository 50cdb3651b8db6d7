"""The Parquet tables: round trips, one row a cell, interrupted writes, versions, and the lock."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from grid import store
from grid.core.errors import ErrorKind, StoreError
from grid.store import files as store_files
from grid.store import scanning, writing
from grid.store.schema import COST, SCHEMA_VERSION, TABLES

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def episode(cell: str, attempt: str = "first", minute: int = 0, **more: object) -> dict[str, Any]:
    created = NOON + dt.timedelta(minutes=minute)
    ids = {"cell_id": cell, "cell_key": cell, "cluster": "a", "attempt_id": attempt}
    return ids | {"status": "ok", "created_at": created} | more


def step(cell: str, attempt: str = "first", index: int = 0, **more: object) -> dict[str, Any]:
    return {"cell_id": cell, "attempt_id": attempt, "branch": 0, "step": index} | more


def node(cell: str, attempt: str = "first", place: int = 0, **more: object) -> dict[str, Any]:
    return {"cell_id": cell, "attempt_id": attempt, "node": f"0.{place}", "order": place} | more


def improvement(cell: str, attempt: str = "first", place: int = 0, **more: object) -> dict[str, Any]:
    return {"cell_id": cell, "attempt_id": attempt, "improvement": place} | more


def message(cell: str, attempt: str = "first", place: int = 0, **more: object) -> dict[str, Any]:
    asked = {"prompt": ["shared", cell], "answers": ["yes"], "unreadable": []}
    return {"cell_id": cell, "attempt_id": attempt, "message": place} | asked | more


def section(digest: str, **more: object) -> dict[str, Any]:
    return {"digest": digest, "kind": "task", "entries": [f"what {digest} says"], "options": []} | more


def case(digest: str, **more: object) -> dict[str, Any]:
    asked = {"query": f"what {digest} asks", "messages": [], "outline": [], "calls": []}
    return {"digest": digest, "case_id": digest} | asked | more


def attempt(name: str = "first") -> dict[str, Any]:
    return {"attempt_id": name, "cells": 1, "ok": 1, "failed": 0, "seconds": 0.5, "created_at": NOON}


def comparison(name: str, **more: object) -> dict[str, Any]:
    return {"comparison_id": name, "cell_id": name, "against_cell_id": "reference", "created_at": NOON} | more


def scoring(name: str, **more: object) -> dict[str, Any]:
    return {"scoring": name, "digest": name, "created_at": NOON} | more


def rescore(name: str, **more: object) -> dict[str, Any]:
    return {"scoring": name, "cell_id": name, "name": "inclusion"} | more


def spent(role: str = "actor", **more: object) -> tuple[str, dict[str, Any]]:
    """A role's entry in the map of costs."""
    return role, {field.name: None for field in COST} | {"input_tokens": 2**40, "money": 0.5} | more


def metric(name: str, **more: object) -> dict[str, Any]:
    return {"digest": name, "name": name, "kind": "number", "unit": "share", "better": "higher"} | more


def chunk(cell: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of one cell, whose try is called like it."""
    own = {"episodes": [episode(cell, cell)], "steps": [step(cell, cell)], "attempts": [attempt(cell)]}
    own |= {"nodes": [node(cell, cell)], "improvements": [improvement(cell, cell)]}
    own |= {"messages": [message(cell, cell)], "sections": [section(cell)], "cases": [case(cell)]}
    own |= {"scorings": [scoring(cell)], "rescores": [rescore(cell)]}
    return own | {"comparisons": [comparison(cell)], "metrics": [metric(cell)]}


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def named(folder: Path, data: pa.Table) -> Path:
    """Write a file as any program might, under the name that its bytes have here."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "draft"
    pq.write_table(data, draft)
    return draft.rename(folder / f"{hashlib.sha256(draft.read_bytes()).hexdigest()[:32]}.parquet")


def refused_elsewhere(root: Path) -> bool:
    """Whether a second process is refused the lock."""
    code = (
        "import sys; from pathlib import Path; from grid import store\n"
        "with store.locked(Path(sys.argv[1])): print('held')"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False)
    assert (ended.returncode == 0) == ("held" in ended.stdout)
    return ended.returncode != 0 and "StoreError" in ended.stderr


def test_round_trip_keeps_every_column_and_type(tmp_path: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "episodes": [
            episode("a", trial=1, seed=2**63 - 1, success=True, answer="é\n☃")
            | {
                "scores": [("tool_match_rate", 0.25), ("é", -1e300)],
                "texts": [("verdict", "é\n☃")],
                "costs": [spent()],
            },
            episode("b", status="failed", error_kind="tool", error_message="broke")
            | {"scores": [], "texts": [], "costs": []},
        ],
        "steps": [
            step("a", options=[{"tool": "x", "probability": 0.75}, {"tool": "no_tool", "probability": 0.25}]),
            step("a", index=1, entropy=0.0, tool_required=False, options=[]),
        ],
        "nodes": [node("a", r_pre=0.5, visits=2**40, pruned="pre"), node("a", place=1, failed=True, on_path=False)],
        "improvements": [improvement("a", value=0.5, success=False), improvement("a", place=1, seconds=1.5)],
        "attempts": [attempt()],
        "messages": [
            message(
                "a", seed=2**63 - 1, n=2, temperature=0.5, answers=["é\0☃", ""], unreadable=[{"place": 1, "why": "no"}]
            ),
            message("a", place=1, n=None, probabilities=[0.1, 0.9], answers=[]),
        ],
        "sections": [section("a", entries=[], options=["x", "\n"]), section("b")],
        "cases": [
            case("a", messages=["é\0☃"], outline=[{"id": "1.1", "goal": "x", "text": ""}]),
            case("b", calls=[{"substep_id": "1.1", "tool": None, "arguments": None}], followed=True, answer="7"),
        ],
        "comparisons": [comparison("a", win=0.5, rule="judged"), comparison("b", win=None)],
        "scorings": [scoring("a", llm_calls=2**40, money=0.1), scoring("b", evaluator=None)],
        "rescores": [rescore("a", value=0.1), rescore("b", why="no")],
        "metrics": [metric("a"), metric("b", unit=None)],
    }
    store.write(tmp_path, rows)
    for table in get_args(store.Table):
        data = store.read(tmp_path, table)
        assert data.schema.remove_metadata() == TABLES[table]
        empty = dict.fromkeys(TABLES[table].names)
        assert data.to_pylist() == [empty | row for row in rows[table]]


def test_a_column_all_null_in_the_first_file_does_not_break_the_read(tmp_path: Path) -> None:
    for cell, value in (("a", None), ("b", 0.5), ("c", 0.25)):
        store.write(tmp_path, {"episodes": [episode(cell, tool_match_rate=value)]})
    assert store.read(tmp_path, "episodes", wide=True)["tool_match_rate"].to_pylist() == [None, 0.5, 0.25]


def test_one_row_a_cell_the_latest_with_the_steps_of_that_try_only(tmp_path: Path) -> None:
    # Written out of order: which try counts follows from when it was made, not from when its file came.
    for name, minute in (("second", 2), ("third", 3), ("first", 1)):
        cells = ("a", "b") if name != "third" else ("a",)
        store.write(
            tmp_path,
            {
                "episodes": [episode(cell, name, minute) for cell in cells],
                "steps": [step(cell, name, index, chosen_tool=name) for cell in cells for index in (1, 0)],
                "messages": [message(cell, name, index) for cell in cells for index in (1, 0)],
                "attempts": [attempt(name)],
            },
        )
    latest = store.read(tmp_path, "episodes", ["cell_id", "attempt_id"]).to_pylist()
    assert latest == [{"cell_id": "a", "attempt_id": "third"}, {"cell_id": "b", "attempt_id": "second"}]
    steps = store.read(tmp_path, "steps", ["cell_id", "step", "chosen_tool"]).to_pylist()
    assert [tuple(row.values()) for row in steps] == [
        ("a", 0, "third"), ("a", 1, "third"), ("b", 0, "second"), ("b", 1, "second"),
    ]  # fmt: skip
    messages = store.read(tmp_path, "messages", ["cell_id", "message", "attempt_id"]).to_pylist()
    assert [tuple(row.values()) for row in messages] == [
        ("a", 0, "third"), ("a", 1, "third"), ("b", 0, "second"), ("b", 1, "second"),
    ]  # fmt: skip
    assert store.read(tmp_path, "attempts").num_rows == 3


def test_sections_are_one_row_a_digest(tmp_path: Path) -> None:
    for digests in ("ab", "bc", "cab"):
        store.write(tmp_path, {"sections": [section(digest) for digest in digests]})
    for _ in range(2):
        assert store.read(tmp_path, "sections", ["digest"])["digest"].to_pylist() == ["a", "b", "c"]
        assert store.read(tmp_path, "sections", where=pc.field("digest") == "b").num_rows == 1
        assert store.compact(tmp_path)["sections"][1] == 1
    (path,) = (tmp_path / "sections").iterdir()
    assert pq.read_metadata(path).num_rows == 3


def test_file_names_follow_content(tmp_path: Path) -> None:
    rows = {"episodes": [episode("a")], "steps": [step("a")], "attempts": [attempt()]}
    store.write(tmp_path, rows)
    before = files(tmp_path)
    store.write(tmp_path, rows)
    assert files(tmp_path) == before
    assert len(before) == 3
    store.write(tmp_path, {"episodes": [episode("b")]})
    assert len(files(tmp_path)) == 4


def test_no_table_without_rows(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [], "steps": []})
    assert files(tmp_path) == {}


def test_nothing_is_left_in_the_scratch_folder(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a")]})
    assert list((tmp_path / ".tmp").iterdir()) == []


@pytest.mark.parametrize("survive", [0, 1, 2, 3, 4])
def test_an_interrupted_write_leaves_the_store_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survive: int
) -> None:
    store.write(tmp_path, chunk("a"))
    renamed, replace = 0, os.replace

    def interrupted(source: Path, target: Path) -> None:
        nonlocal renamed
        if renamed == survive:
            raise OSError("no space left on device")
        renamed += 1
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    again = chunk("b")
    with pytest.raises(StoreError, match=r"cannot be written to .no space left"):
        store.write(tmp_path, again)
    monkeypatch.undo()

    assert list((tmp_path / ".tmp").iterdir()) == []
    store.check(tmp_path)
    assert store.read(tmp_path, "episodes")["cell_id"].to_pylist() == ["a"]
    of_cells: tuple[store.Table, ...] = ("steps", "messages")
    for table in of_cells:
        assert store.read(tmp_path, table)["cell_id"].to_pylist() == ["a"], "of cells whose episode is there"
    assert set(store.finished(tmp_path)) == {"a"}
    store.write(tmp_path, again)
    assert set(store.finished(tmp_path)) == {"a", "b"}
    for table in of_cells:
        assert store.read(tmp_path, table)["cell_id"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("table", get_args(store.Table))
@pytest.mark.parametrize("version", ["0", "15", "99", "x"])
def test_another_schema_version_is_refused_by_name(tmp_path: Path, table: store.Table, version: str) -> None:
    empty = TABLES[table].empty_table()
    path = named(tmp_path / table, empty.replace_schema_metadata({"schema_version": version}))
    for use in (lambda: store.check(tmp_path), lambda: store.put_aside(tmp_path), lambda: store.read(tmp_path, table)):
        with pytest.raises(StoreError) as caught:
            use()
        for part in (str(path), version, SCHEMA_VERSION):
            assert part in str(caught.value)
    assert path.is_file()


def test_finished_by_retry(tmp_path: Path) -> None:
    rows = [episode("ok")]
    rows += [episode(kind.value, status="failed", error_kind=kind.value) for kind in ErrorKind]
    # Repaired since, and broken since: only the latest row counts.
    rows += [episode("repaired", status="failed", error_kind="infrastructure"), episode("repaired", minute=1)]
    rows += [episode("broken"), episode("broken", minute=1, status="failed", error_kind="infrastructure")]
    store.write(tmp_path, {"episodes": rows})
    every = {row["cell_id"] for row in rows}
    assert set(store.finished(tmp_path)) == set(store.finished(tmp_path, "none")) == every
    assert set(store.finished(tmp_path, "infrastructure")) == every - {"infrastructure", "broken"}
    assert set(store.finished(tmp_path, "all")) == {"ok", "repaired"}


def test_ids_are_looked_up_many_at_a_time(tmp_path: Path) -> None:
    assert store.finished(tmp_path).holds(["a", "b"]).tolist() == [False, False]
    store.write(tmp_path, {"episodes": [episode(cell) for cell in ("c" * 16, "a", "b" * 16)]})
    found = store.finished(tmp_path)
    assert len(found) == 3
    asked = ["a", "b", "b" * 16, "c" * 16, "c" * 17, "d", ""]
    assert found.holds(asked).tolist() == [True, False, True, True, False, False, False]


def test_categories_are_encoded_and_mean_the_same(tmp_path: Path) -> None:
    for cell, planner in (("a", "react"), ("b", None), ("c", "egb"), ("d", "react")):
        store.write(tmp_path, {"episodes": [episode(cell, planner=planner)]})
    columns = ["planner", "cell_id"]
    encoded = store.read(tmp_path, "episodes", columns, categories=["planner"])
    assert pa.types.is_dictionary(encoded["planner"].type)
    assert encoded.to_pylist() == store.read(tmp_path, "episodes", columns).to_pylist()
    empty = store.read(tmp_path / "absent", "episodes", columns, categories=["planner"])
    assert empty.to_pylist() == []


def test_only_one_holder_of_the_lock(tmp_path: Path) -> None:
    root = tmp_path / "new" / "folder"
    with store.locked(root):
        with pytest.raises(StoreError, match="another sweep") as caught, store.locked(root):
            pass
        assert str(root) in str(caught.value)
        assert refused_elsewhere(root)
        with store.locked(tmp_path / "other"):
            pass
    assert not refused_elsewhere(root)
    with store.locked(root):
        pass


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from grid import store\n"
        "with store.locked(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(StoreError), store.locked(tmp_path):
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
    with store.locked(tmp_path):
        pass


def test_a_large_file_that_is_known_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one is, where its columns are wanted: its footer is read with them."""
    store.write(tmp_path, {"episodes": [episode("a")]})
    (path,) = (tmp_path / "episodes").glob("*.parquet")
    monkeypatch.setattr(store_files, "_SETTLED_SECONDS", -1)
    for small, again in ((0, False), (2**20, True)):
        monkeypatch.setattr(store_files, "SMALL", small)
        store_files.forget()
        first = store_files.look(path, "episodes", ("cell_id",))
        assert (store_files.look(path, "episodes", ("cell_id",)) is not first) is again
        assert store_files.look(path, "episodes") is not None


def test_a_scan_begins_again_where_files_were_replaced_meanwhile(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a")]})
    tries = list[int]()

    def use(scan: scanning.Scan) -> int:
        tries.append(len(tries))
        if len(tries) == 1:
            store.write(tmp_path, {"episodes": [episode("b")]})
            raise FileNotFoundError("it was merged with others")
        return len(tries)

    assert scanning.scan(tmp_path, "episodes", use) == 2

    def broken(scan: scanning.Scan) -> None:
        raise OSError("not again")

    with pytest.raises(StoreError, match="not again"):
        scanning.scan(tmp_path, "episodes", broken)


def test_drafts_of_the_last_ten_minutes_are_left(tmp_path: Path) -> None:
    scratch = tmp_path / writing._SCRATCH
    scratch.mkdir()
    ages = {"new": 599, "then": 600, "old": 601}
    for name, age in ages.items():
        (scratch / f"{name}.parquet").touch()
        os.utime(scratch / f"{name}.parquet", (1_000_000 - age,) * 2)
    (scratch / "other.txt").touch()
    writing.clear_drafts(tmp_path, 1_000_000)
    assert sorted(path.stem for path in scratch.iterdir()) == ["new", "other", "then"]


def test_leading_zeros_stay(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("007", case_id="007", answer="1e5")]})
    (row,) = store.read(tmp_path, "episodes", ["cell_id", "case_id", "answer"]).to_pylist()
    assert row == {"cell_id": "007", "case_id": "007", "answer": "1e5"}
    assert set(store.finished(tmp_path)) == {"007"}


@pytest.mark.parametrize("table", get_args(store.Table))
def test_columns_are_selected_in_the_order_asked(tmp_path: Path, table: store.Table) -> None:
    columns = list(reversed(TABLES[table].names))[:3]
    for _ in range(2):  # an empty folder first, then one with rows
        assert store.read(tmp_path, table, columns).column_names == columns
        store.write(tmp_path, {"episodes": [episode("a")], "steps": [step("a")], "attempts": [attempt()]})


@pytest.mark.parametrize("table", [*get_args(store.Table), *get_args(store.Long)])
def test_a_column_that_a_table_lacks_is_named(tmp_path: Path, table: store.Table | store.Long) -> None:
    for _ in range(2):  # an empty folder first, then one with rows
        with pytest.raises(StoreError, match=r"no (column|metric) .*'colour'"):
            store.read(tmp_path, table, ["colour"])
        store.write(tmp_path, {"episodes": [episode("a")], "steps": [step("a")], "attempts": [attempt()]})


@pytest.mark.parametrize("table", get_args(store.Table))
def test_an_empty_folder_gives_empty_tables(tmp_path: Path, table: store.Table) -> None:
    for root in (tmp_path, tmp_path / "absent"):
        data = store.read(root, table)
        assert isinstance(data, pa.Table)
        assert data.num_rows == 0
        assert data.schema == TABLES[table]
        assert set(store.finished(root)) == set()
        store.check(root)
    assert not (tmp_path / "absent").exists()

"""Failure classes of a results folder: whatever its rows are, and what is kept of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.tables import failed, failure_cells, failures
from analysis.tables.failure_cells import CLASSES
from grid import store
from tests.unit.store.test_store import episode


def test_rows_that_make_no_sense_are_told_all_the_same(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [None, "", "{", "[]", "null", '{"tool": 3}', '{"tool": "find", "arguments": []}', '"' + "x" * 1000,
             '{"tool": "find", "arguments": {"name": {"a": [1, null]}}}', "{" * 10_000, "\u0000\ud7ff"]  # fmt: skip
    tools = [None, "", "find", "use", "no_tool", "finish", "give_up", "reject"]
    rows: dict[str, list[dict[str, Any]]] = {"episodes": [], "steps": [], "cases": []}
    for number in range(300):
        cell, digest = f"{number:04}", f"{number:04}"
        more: dict[str, Any] = {
            "success": False,
            "status": rng.choice(["ok", "failed", "odd"]),
            "case_digest": rng.choice([digest, None]),
        }
        more |= {"config": rng.choice([None, "{", "{}", '{"planner": 3}']), "dataset": rng.choice(["slate", "x[y]"])}
        more |= {"error_kind": rng.choice([None, "model", "odd"]), "retrieval_rate": rng.choice([None, 0.5, 7.0])}
        more |= {"plan_errors": rng.choice([None, [], ["E1", "E9"]]), "behaviour": rng.choice([None, "odd", "retry"])}
        rows["episodes"].append(episode(cell, **more))
        for place in range(rng.randrange(4)):
            rows["steps"].append({
                "cell_id": cell, "attempt_id": "first", "branch": 0, "step": rng.choice([place, 0]), "on_path": True,
                "substep_id": rng.choice(["0", "1", None]), "chosen_tool": rng.choice(tools),
                "written": rng.choice(texts), "arguments": rng.choice(texts), "observation": rng.choice(texts),
                "failed": rng.choice([None, True, False]), "n_options": rng.choice([None, 3]),
            })  # fmt: skip
        calls = [{"substep_id": rng.choice(["0", "1", None]), "tool": rng.choice(tools), "arguments": rng.choice(texts)}
                 for _ in range(rng.randrange(4))]  # fmt: skip
        rows["cases"].append({
            "digest": digest, "case_id": digest, "calls": rng.choice([calls, None]),
            "followed": rng.choice([None, True, False]), "ordered": rng.choice([None, True, False]),
        })  # fmt: skip
    store.write(tmp_path, rows)
    found = failed.classes(tmp_path)
    assert found.num_rows == 300
    assert found.schema.equals(failed.SCHEMA)
    assert set(found["failure"].to_pylist()) <= set(CLASSES)


def test_what_was_told_is_kept_until_the_rules_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(tmp_path, {"episodes": [episode("a", success=False), episode("b", success=True)]})
    first = failed.classes(tmp_path)
    assert first["cell_id"].to_pylist() == ["a"]
    (kept,) = (tmp_path / failure_cells.FOLDER).iterdir()
    monkeypatch.setattr(failed, "faults", None)  # nothing is told anew
    assert failed.classes(tmp_path).equals(first)
    monkeypatch.undo()
    store.write(tmp_path, {"episodes": [episode("a", "second", 1, success=True), episode("c", success=False)]})
    assert failed.classes(tmp_path)["cell_id"].to_pylist() == ["c"]
    kept.write_bytes(b"no Parquet")
    assert failed.classes(tmp_path)["cell_id"].to_pylist() == ["c"]
    monkeypatch.setattr(failure_cells, "rules", lambda: "others")
    assert failed.classes(tmp_path)["cell_id"].to_pylist() == ["c"]
    assert [path.name for path in (tmp_path / failure_cells.FOLDER).iterdir()] == ["others.parquet"]
    store.check(tmp_path)


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(tmp_path, {"episodes": [episode("a", success=False)]})

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr("pyarrow.parquet.write_table", refused)
    assert failed.classes(tmp_path).num_rows == 1
    assert not list((tmp_path / failure_cells.FOLDER).iterdir())


def test_an_empty_folder_has_no_failures(tmp_path: Path) -> None:
    found = failed.classes(tmp_path)
    assert found.num_rows == 0
    assert failed.faults_of(tmp_path, "a") == []


def test_classes_are_counted_over_all_cells_of_the_settings_in_which_any_failed(tmp_path: Path) -> None:
    cells: dict[str, dict[str, Any]] = {
        "a": {"success": False}, "b": {"status": "failed", "error_kind": "code"}, "c": {}, "d": {},
        "e": {"planner": "other", "setting_id": "other"},
    }  # fmt: skip
    labels = {"model": "m", "dataset": "slate", "robustness": "none", "planner": "p", "setting_id": "p"}
    labels |= {"pool": "all", "retriever": "none"}
    rows = [episode(name, **{**labels, "case_id": name, "success": True, **more}) for name, more in cells.items()]
    store.write(tmp_path, {"episodes": rows})
    (table,) = failures.tables(tmp_path)
    (row,) = table.values.to_dict("records")
    assert (row["cells"], row["failed"], row["unknown"], row["error"], row["wrong_tool"]) == (4, 2, 1, 1, 0)
    assert (row["unknown_share"], row["error_share"]) == (0.25, 0.25)
    counted = duckdb.connect().execute(table.query).df().groupby("planner", sort=True)
    assert counted[["cells", "failed", "error"]].sum().to_numpy().tolist() == [[1, 0, 0], [4, 2, 1]]

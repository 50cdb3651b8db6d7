"""A sweep whose files are damaged while it runs mends itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.store.schema import JOINED, TABLES, TIMES
from grid.sweeps import session
from tests.support.in_process import launch

ROOT, BEFORE = Path("results/x"), Path("before")


run = session._run


def once_broken(*arguments: Any) -> tuple[bool, int]:
    """After the cells have run, what they wrote is kept elsewhere, and a bit of each table's first file is flipped."""
    ended = run(*arguments)
    if not BEFORE.exists():
        shutil.copytree(ROOT, BEFORE)
        for table in ("episodes", "steps", "attempts", "messages", "sections"):
            path = min((ROOT / table).iterdir())
            content = bytearray(path.read_bytes())
            content[500] ^= 1
            path.write_bytes(content)
    return ended


def test_files_that_break_while_a_sweep_runs_are_put_aside_and_their_cells_run_again(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_run", once_broken)
    values = ("planner=react", "robustness=none", "dataset.limit=40", "trials=1", "name=x")
    ended = launch("sweep", tmp_path, "-m", *values)
    assert ended.status == 0, ended.out + ended.err
    assert "Traceback" not in ended.err
    root = tmp_path / ROOT
    moved = sorted((root / ".aside").glob("*/*.parquet"))
    assert [path.parent.name for path in moved] == ["attempts", "episodes", "messages", "sections", "steps"]
    for path in moved:
        assert f"results/x/{path.parent.name}/{path.name} is damaged" in ended.out
    tables: tuple[store.Table, ...] = ("episodes", "steps")
    for table in tables:
        names = [name for name in (JOINED if table == "episodes" else TABLES[table]).names if name not in TIMES]
        now, before = (store.read(place, table, names) for place in (root, tmp_path / BEFORE))
        assert now.equals(before)
        assert now.num_rows >= 40

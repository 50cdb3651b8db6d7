"""Compactions killed at random moments: every row stays, once, and no other comes."""

from __future__ import annotations

import os
import random
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grid import store
from grid.store.files import name_of, survey
from tests.unit.store.test_store import (
    attempt,
    case,
    chunk,
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

_END_SECONDS = 600.0
_IDS = [
    "cell_id",
    "attempt_id",
    "step",
    "message",
    "digest",
]  # compared after each kill; every column is, whenever a store is given up
_MERGE = (  # so many rows a file: a compaction makes several of each table's
    "import sys; from pathlib import Path; from grid import store; from grid.store import compacting\n"
    "compacting.ROWS = int(sys.argv[2])\n"
    "print('begun', flush=True); store.compact(Path(sys.argv[1])); print('ended', flush=True)"
)


def small_files(root: Path, count: int) -> None:
    """So many files a table, of two rows each; a third of the cells were tried twice."""
    store.write(root, chunk("a"))
    for table in get_args(store.Table):
        (first,) = (root / table).iterdir()
        schema = pq.read_schema(first).remove_metadata().with_metadata({"schema_version": store_version(first)})
        for number in range(count):
            cell, name = (f"{number % (2 * count // 3):08d}", f"{number:08d}")
            rows = {
                "episodes": [episode(f"{cell}{half}", name, number, answer=name) for half in "ab"],
                "steps": [step(f"{cell}{half}", name, chosen_tool=name) for half in "ab"],
                "nodes": [node(f"{cell}{half}", name, written=name) for half in "ab"],
                "improvements": [improvement(f"{cell}{half}", name, node=name) for half in "ab"],
                "attempts": [attempt(name), attempt(f"{name}-lost")],
                "messages": [message(f"{cell}{half}", name, answers=[name]) for half in "ab"],
                "sections": [section("shared"), section(name)],
                "cases": [case("shared"), case(name)],
                "comparisons": [comparison(f"{cell}{half}", rule=cell) for half in "ab"],  # of two the same is told
                "scorings": [scoring("shared"), scoring(name)],
                "rescores": [rescore(f"{cell}{half}", value=float(cell)) for half in "ab"],  # a scoring says the same
                "metrics": [metric("shared"), metric(f"m{name}")],
            }[table]
            draft = root / "draft"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), draft, write_page_checksum=True)
            with draft.open("rb") as file:
                draft.rename(root / table / f"{name_of(file)}.parquet")


def store_version(path: Path) -> str:
    version: bytes = pq.read_schema(path).metadata[b"schema_version"]
    return version.decode()


def killed(root: Path, rows: int, seconds: float | None) -> float | None:
    """Compact; SIGKILL it so long after its beginning. How long it took, None where it was killed."""
    command = [sys.executable, "-c", _MERGE, str(root), str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        started = time.monotonic()
        ended = bool(select.select([process.stdout], [], [], _END_SECONDS if seconds is None else seconds)[0])
        if not ended:
            process.kill()
            return None
        assert process.stdout.readline() == "ended\n", f"status {process.wait()}"
        return time.monotonic() - started


def kills(root: Path, count: int, files: int, rng: random.Random) -> dict[str, int]:
    """So many kills; a store that is merged to its end is made anew. What was seen of what was left."""
    pristine = root / "pristine"
    small_files(pristine, files)
    before = {table: store.read(pristine, table) for table in get_args(store.Table)}
    ids = {table: [name for name in _IDS if name in rows.column_names] for table, rows in before.items()}
    place, rows = root / "0", files // 2
    shutil.copytree(pristine, place, copy_function=os.link)
    took = killed(place, rows, None)
    assert took is not None
    shutil.rmtree(place)
    told = {"kills": 0, "merged": 0, "with files merged and not removed": 0, "ended": 0}
    while told["kills"] < count:
        if not place.exists():
            shutil.copytree(pristine, place, copy_function=os.link)
        names = {path.name for path in place.glob("*/*.parquet")}
        if killed(place, rows, rng.uniform(0, 0.6 * took)) is not None:
            told["ended"] += 1
        else:
            told["kills"] += 1
            told["merged"] += bool({path.name for path in place.glob("*/*.parquet")} - names)
            told["with files merged and not removed"] += any(survey(place, t).replaced for t in before)
        for table in before:
            assert store.read(place, table, ids[table]).equals(before[table].select(ids[table]))
        if len(list((place / "attempts").iterdir())) < files or told["kills"] == count:
            for table in before:
                assert store.read(place, table).equals(before[table])
            shutil.rmtree(place)
    return told


@pytest.mark.long
@pytest.mark.parametrize(("count", "files"), [(6, 30), pytest.param(200, 40, marks=pytest.mark.slow)])
def test_every_row_is_there_once_after_each_kill(tmp_path: Path, count: int, files: int) -> None:
    told = kills(tmp_path, count, files, random.Random(0))
    print(told)
    assert told["merged"] > 0

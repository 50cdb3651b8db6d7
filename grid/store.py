"""The Parquet tables: immutable files, one row per cell on reading however often a chunk was tried.

A file is written under `.tmp` in the same results folder, synced, and renamed to the hash of its bytes; a reader
never sees half of one. Within a chunk the steps are written first and the episodes last: an episode that can be
read has its steps.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from grid.errors import StoreError
from grid.schema import SCHEMA_VERSION, TABLES
from grid.types import ErrorKind

Table = Literal["episodes", "steps", "attempts"]
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Retry = Literal["none", "infrastructure", "all"]
_VERSION_KEY = b"schema_version"


def write(root: Path, rows: Rows) -> None:
    """Write a chunk's rows, table by table; `rows` maps a table's name to its rows."""
    for table in ("steps", "attempts", "episodes"):
        if rows.get(table):
            _write_file(root, table, rows[table])


def read(root: str | Path, table: Table, columns: Sequence[str] | None = None) -> pa.Table:
    """One table of a results folder.

    `episodes` has one row per cell, the latest; `steps` those of these rows; `attempts` every row. An empty folder
    gives an empty table.

    Raises:
        StoreError: a file has another schema version or cannot be read.
    """
    data = _load(Path(root), table)
    if table == "episodes":
        data = _latest(data)
    elif table == "steps":
        keep = _latest(_load(Path(root), "episodes", ["cell_id", "attempt_id", "created_at"]))
        data = data.filter(pc.is_in(_tries(data), value_set=_tries(keep).combine_chunks()))
        data = data.sort_by([("cell_id", "ascending"), ("branch", "ascending"), ("step", "ascending")])
    return data.select(list(columns)) if columns else data


def finished(root: Path, retry: Retry = "none") -> set[str]:
    """The ids of the cells that need not run again."""
    data = _latest(_load(root, "episodes", ["cell_id", "created_at", "status", "error_kind"]))
    if retry == "infrastructure":
        data = data.filter(pc.not_equal(pc.fill_null(data["error_kind"], ""), ErrorKind.INFRASTRUCTURE))
    elif retry == "all":
        data = data.filter(pc.equal(data["status"], "ok"))
    return set(data["cell_id"].to_pylist())


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold a results folder for one sweep; the lock dies with its process.

    Raises:
        StoreError: another sweep holds it, or it cannot be written to.
    """
    lock = FileLock(root / ".lock", timeout=0)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"{root}: another sweep is writing to this name; wait for it or choose another name="
        ) from None
    except OSError as error:
        raise StoreError(f"{root}: cannot be written to ({error}); choose another store.root=") from None
    try:
        yield
    finally:
        lock.release()


def check(root: Path) -> None:
    """Raise StoreError where a file of a results folder cannot be read as this version's."""
    for table in TABLES:
        for path in _files(root, table):
            _check_file(path, table)


def _files(root: Path, table: str) -> list[Path]:
    return sorted((root / table).glob("*.parquet"))


def _check_file(path: Path, table: str) -> None:
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{path}: not a readable Parquet file ({error}); move it away to go on") from None
    version = (schema.metadata or {}).get(_VERSION_KEY, b"none").decode()
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: schema_version={version!r} of table {table}, but this version reads and writes "
            f"{SCHEMA_VERSION!r}; choose another name= or use the version that wrote it"
        )


def _load(root: Path, table: str, columns: list[str] | None = None) -> pa.Table:
    paths = _files(root, table)
    schema = TABLES[table]
    for path in paths:
        _check_file(path, table)
    if not paths:
        empty: pa.Table = schema.empty_table()
        return empty.select(columns) if columns else empty
    try:
        return ds.dataset(paths, schema=schema, format="parquet").to_table(columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{root / table}: a file cannot be read ({error}); move it away to go on") from None


def _latest(data: pa.Table) -> pa.Table:
    """One row per cell, the latest created (the last in file order of equals), sorted by cell."""
    data = data.append_column("_row", pa.array(range(len(data)), pa.int64()))
    data = data.sort_by([("cell_id", "ascending"), ("created_at", "ascending"), ("_row", "ascending")])
    cells = data["cell_id"].to_numpy()
    last = np.append(cells[1:] != cells[:-1], [True] if len(cells) else [])
    return data.filter(pa.array(last, pa.bool_())).drop_columns(["_row"])


def _tries(data: pa.Table) -> pa.ChunkedArray:
    """Which try of which cell each row belongs to."""
    return pc.binary_join_element_wise(data["cell_id"], data["attempt_id"], "/")


def _write_file(root: Path, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    schema = TABLES[table].with_metadata({_VERSION_KEY: SCHEMA_VERSION.encode()})
    scratch = root / ".tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    (root / table).mkdir(exist_ok=True)
    draft = scratch / f"{uuid.uuid4().hex}.parquet"
    try:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), draft, compression="zstd")
        content = draft.read_bytes()
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, root / table / f"{hashlib.sha256(content).hexdigest()[:32]}.parquet")
    finally:
        draft.unlink(missing_ok=True)

"""The files of a results folder: written whole or not at all, never changed, replaced by larger ones.

A file is written under `.tmp` in the same results folder, synced, and renamed to the hash of its bytes; a reader
never sees half of one. Within a chunk the steps are written first and the episodes last: an episode that can be
read has its steps. A file that was merged from others names them, so that from the moment of its renaming they do
not count, whether they are still there or not.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from grid.errors import StoreError
from grid.store.schema import SCHEMA_VERSION, TABLES

Table = Literal["episodes", "steps", "attempts"]
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
T = TypeVar("T")
ASIDE = ".aside"
_VERSION_KEY, _REPLACES_KEY = b"schema_version", b"replaces"
_PATIENCE_SECONDS = 60.0  # at reading, while files are being replaced


class StoreWarning(UserWarning):
    """A file among the tables that cannot be read and is left out."""


@dataclass(frozen=True)
class File:
    """One readable file of a table; `replaces` are the names of those that it was merged from."""

    path: Path
    rows: int
    size: int
    replaces: frozenset[str]


def write(root: Path, rows: Rows) -> None:
    """Write a chunk's rows, table by table; `rows` maps a table's name to its rows.

    Raises:
        StoreError: the folder cannot be written to, or its disk is full; what was written before stays whole.
    """
    for table in ("steps", "attempts", "episodes"):
        if rows.get(table):
            with new_file(root, table) as writer:
                writer.write_table(pa.Table.from_pylist(list(rows[table]), schema=TABLES[table]))


@contextmanager
def new_file(root: Path, table: str, replaces: Sequence[str] = ()) -> Iterator[pq.ParquetWriter]:
    """A writer of a file that is there, whole, when the block has ended without an error."""
    metadata = {_VERSION_KEY: SCHEMA_VERSION.encode(), _REPLACES_KEY: "\n".join(replaces).encode()}
    scratch, folder = root / ".tmp", root / table
    draft = scratch / f"{uuid.uuid4().hex}.parquet"
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        with pq.ParquetWriter(draft, TABLES[table].with_metadata(metadata), compression="zstd") as writer:
            yield writer
        with draft.open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()[:32]
            os.fsync(file.fileno())
        os.replace(draft, folder / f"{name}.parquet")
        _sync(folder)
    except OSError as error:
        raise StoreError(f"{root}: cannot be written to ({error}); make room or choose another store.root=") from None
    finally:
        with suppress(OSError):  # a folder that turned read-only
            draft.unlink(missing_ok=True)


def scan(root: Path, table: str, look: Callable[[ds.Dataset], T]) -> T:
    """What `look` makes of a table's rows, those of cells that were run again included.

    It is called again where a file was replaced while it looked. Unreadable files are warned of.

    Raises:
        StoreError: a file has another schema version, or breaks while it is read.
    """

    def whole() -> T:
        paths = [file.path for file in files(root, table)]
        if not paths:
            return look(ds.dataset(TABLES[table].empty_table()))
        return look(ds.dataset(paths, schema=TABLES[table], format="parquet"))

    try:
        return _until_none_vanishes(whole)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(f"{root / table}: a file cannot be read ({error}); move it away to go on") from None
    finally:
        pa.default_memory_pool().release_unused()  # it keeps what it has had, unasked


def files(root: Path, table: str) -> list[File]:
    """A table's files that count, in the order of their names.

    Raises:
        StoreError: a file has another schema version.
    """
    return _counting(_until_none_vanishes(lambda: list(_readable(root, table))))


def replaced(root: Path, table: str) -> list[Path]:
    """Files that do not count any more: what they hold is in another file."""
    found = list(_readable(root, table))
    counting = {file.path for file in _counting(found)}
    return [file.path for file in found if file.path not in counting]


def check(root: Path) -> None:
    """Raise StoreError where a file of a results folder has another schema version; warn of unreadable ones."""
    for table in TABLES:
        files(root, table)


def put_aside(root: Path) -> list[str]:
    """Move files that cannot be read out of the tables, to `.aside`; returns a line for each. Hold the lock."""
    lines = []
    for table in TABLES:
        for path in sorted((root / table).glob("*.parquet")):
            problem = _problem(path)
            if problem:
                aside = root / ASIDE / table
                aside.mkdir(parents=True, exist_ok=True)
                os.replace(path, aside / path.name)
                lines.append(f"{path} cannot be read ({problem}); it was moved to {aside}, and its cells run again")
    return lines


def _until_none_vanishes(look: Callable[[], T]) -> T:
    """Look again where a file was replaced by a larger one between its listing and its opening."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return look()
        except FileNotFoundError:
            if time.monotonic() > until:
                raise


def _readable(root: Path, table: str) -> Iterator[File]:
    for path in sorted((root / table).glob("*.parquet")):
        problem = _problem(path)
        if problem:
            warnings.warn(f"{path} is left out: {problem}", StoreWarning, stacklevel=2)
            continue
        found = pq.read_metadata(path)
        version = found.metadata[_VERSION_KEY].decode()
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{path}: schema_version={version!r} of table {table}, but this version reads and writes "
                f"{SCHEMA_VERSION!r}; choose another name= or use the version that wrote it"
            )
        names = found.metadata.get(_REPLACES_KEY, b"").decode().split()
        yield File(path, found.num_rows, path.stat().st_size, frozenset(names))


def _problem(path: Path) -> str | None:
    """Why a file is none of ours; None where it is."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        return f"no whole Parquet file: {error}"
    return None if _VERSION_KEY in metadata else "it has no schema_version: another program wrote it"


def _counting(found: Sequence[File]) -> list[File]:
    gone = frozenset[str]().union(*(file.replaces for file in found))
    return [file for file in found if file.path.name not in gone]


def _sync(folder: Path) -> None:
    """Have the folder's entries survive a machine that stops."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

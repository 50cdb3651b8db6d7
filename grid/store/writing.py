"""Writing files of a table, each completely or not at all.

A file is written under `.tmp` in the same results folder, synced, and renamed to the hash of its bytes, so readers
never see half a file. An object store gets the whole file, under that name. Within a chunk, the episodes are written
last, and sections are written before the messages that name them. So if an episode can be read, its steps and all its
requests can be read too.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from grid.core.errors import StoreError
from grid.core.places import Address, beside, hand_over, unwritable
from grid.store.files import ARROW, REPLACES_KEY, VERSION_KEY, example, name_of
from grid.store.scanning import MAPS, encoded, folded, map_array
from grid.store.schema import EPISODES, IDS, SCHEMA_VERSION, TABLES

Values = tuple[Any, ...]
"""A row's values in the order of its table's columns."""
Columns = Mapping[str, Sequence[Any]]
Rows = Mapping[str, Sequence[Mapping[str, Any]] | Sequence[Values]]
_NAMES = {table: schema.names for table, schema in TABLES.items()}
_SCRATCH = ".tmp"
_IN_TURN = (
    "metrics", "sections", "cases", "messages", "steps", "nodes", "improvements", "attempts", "comparisons", "rescores",
    "scorings", "episodes",
)  # fmt: skip
_DRAFT_SECONDS = 600.0  # a draft that is unchanged for this long no longer has a writer


def write(root: Path, rows: Rows) -> dict[str, int]:
    """Write a chunk's rows, table by table; returns the number of bytes written, by table.

    `rows` maps a table's name to its rows: dicts by column name, or tuples from `values_of`. Dicts for `episodes` may
    have the columns of the joined form.

    Raises:
        StoreError: the folder cannot be written to, or its disk is full (files already written remain intact); or a row
            has no id.
    """
    sizes = {}
    for table in _IN_TURN:
        if found := rows.get(table):
            columns = _columns(found, table)
            with new_file(root, table) as file:
                for data in _tables(columns, TABLES[table]):
                    for name in IDS[table]:
                        if data[name].null_count:
                            raise StoreError(f"{root / table}: a row without {name} cannot be written")
                    file.write(data)
            sizes[table] = file.size
    return sizes


def as_table(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as the table that `write` puts into a file."""
    return pa.concat_tables(_tables(_columns(rows, table), TABLES[table]))


def values_of(table: str, row: Mapping[str, Any]) -> Values:
    """A row's values without the column names, in a tenth of the space; rows of `episodes` have the maps."""
    return tuple(map(row.get, _NAMES[table]))


def _columns(rows: Sequence[Mapping[str, Any]] | Sequence[Values], table: str) -> Columns:
    values: Any = rows
    if rows and isinstance(rows[0], Mapping):
        values = [values_of(table, folded(row) if table == "episodes" else row) for row in cast(Any, rows)]
    empty: Any = [()] * len(_NAMES[table])
    columns: dict[str, Any] = dict(zip(_NAMES[table], zip(*values, strict=True) if values else empty, strict=True))
    for name in MAPS if table == "episodes" else ():
        columns[name] = map_array(columns[name], EPISODES.field(name).type)
    return columns


def _tables(columns: Columns, schema: pa.Schema) -> Iterator[pa.Table]:
    """The columns as one table, or as several tables if a column would have more than 2 GiB."""
    try:
        yield pa.Table.from_pydict(columns, schema)
    except pa.ArrowCapacityError:
        middle = max(map(len, columns.values())) // 2
        if not middle:
            raise
        yield from _tables({name: values[:middle] for name, values in columns.items()}, schema)
        yield from _tables({name: values[middle:] for name, values in columns.items()}, schema)


@cache
def _repeated(table: str) -> Sequence[str]:
    """The columns that become smaller as a dictionary: all except real numbers, which rarely repeat."""
    columns = example(table).schema
    return [column.path for column in map(columns.column, range(len(columns))) if column.physical_type != "DOUBLE"]


class NewFile:
    """A file that is being written; its `size`, in bytes, is known when it is complete."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer, self.size = writer, 0

    def write(self, data: pa.Table) -> None:
        """Add a row group."""
        self._writer.write_table(data)


@contextmanager
def new_file(root: Path, table: str, replaces: Sequence[str] = (), texts: Sequence[str] = ()) -> Iterator[NewFile]:
    """Write a new file; it exists, complete, once the block has ended without an error.

    The block gives the columns `texts` as dictionaries; readers of the file get plain texts. If the block reads files,
    it must turn its reading errors into StoreErrors, because any OSError is treated as a writing error.

    Raises:
        StoreError: the folder cannot be written to.
    """
    metadata = {
        VERSION_KEY: SCHEMA_VERSION, REPLACES_KEY: "\n".join(replaces), ARROW: example(table).metadata[ARROW].decode()
    }  # fmt: skip
    scratch, folder = beside(root) / _SCRATCH, root / table
    draft = scratch / f"{uuid.uuid4().hex}.parquet"
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        schema = encoded(TABLES[table], texts)
        how = {"compression": "zstd", "use_dictionary": _repeated(table), "write_page_checksum": True}
        with pq.ParquetWriter(draft, schema, store_schema=False, **how) as writer:
            writer.add_key_value_metadata(metadata)
            new = NewFile(writer)
            yield new
        with draft.open("rb") as file:
            name = name_of(file)
            os.fsync(file.fileno())
            new.size = file.tell()
        target = folder / f"{name}.parquet"
        hand_over(draft, target)
        _sync(folder)
    except OSError as error:
        raise StoreError(unwritable(root, error)) from None
    finally:
        with suppress(OSError):  # the folder may have become read-only
            draft.unlink(missing_ok=True)


def clear_drafts(root: Path, now: float) -> None:
    """Remove drafts of killed writers: drafts that have not changed for ten minutes. The caller must hold the lock.

    Younger drafts stay, because a worker may still write to them if its sweep's driver has just died. `now` is the file
    system's time.

    Raises:
        StoreError: the folder cannot be written to.
    """
    try:
        with os.scandir(beside(root) / _SCRATCH) as entries:
            for entry in entries:
                if entry.name.endswith(".parquet") and now - entry.stat().st_mtime > _DRAFT_SECONDS:
                    os.unlink(entry.path)
    except FileNotFoundError:
        return  # nothing has been written yet, or a worker has just ended
    except OSError as error:
        raise StoreError(f"{beside(root) / _SCRATCH}: cannot be cleared ({error})") from None


def _sync(folder: Path) -> None:
    """Make the folder's entries survive a crash of the machine; an object store does not need this."""
    if isinstance(folder, Address):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Runs DuckDB over a results folder's current files, which the store verifies; files that were replaced are reread."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from grid.core.errors import StoreError
from grid.core.places import Address, file_system, list_anew
from grid.store import Table, check_there, metrics, sql
from grid.store.files import File, whole
from grid.store.schema import PARTS, TABLES

T = TypeVar("T")
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",  # do not download them from a server
    "autoload_known_extensions": "false",
}
_TRIES = 3
FILES = "$files"
"""The placeholder in a query for the rows of a table's files."""


def connect(root: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that loads nothing over the network, except a folder's files if these are remote objects."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    if isinstance(root, Address):
        connection.register_filesystem(file_system())
    return connection


def files(root: Path, table: Table) -> list[str]:
    """The current files of a table, each as a pattern that matches only this file.

    Raises:
        StoreError: the folder is gone, or a file is damaged, cannot be read or has a schema version that cannot be
            read.
    """
    check_there(root)
    return [_pattern(file) for file in whole(root, table)]


def _pattern(file: File) -> str:
    return glob.escape(str(file.path))


def _rows(root: Path, table: Table, found: Sequence[File], names: Sequence[str] | None) -> str:
    """The SQL text for the rows of these files.

    Rows of `episodes` have the joined form, with all columns or only `names`.
    """
    listed = ", ".join("'" + _pattern(file).replace("'", "''") + "'" for file in found)
    old = not all(file.of_now for file in found)
    source = f"read_parquet([{listed}], hive_partitioning=false{', union_by_name=true' if old else ''})"
    if table == "episodes":
        own = {name: metric for name, metric in metrics(root).items() if name not in PARTS}
        return f"({sql.selected(source, [*PARTS, *own] if names is None else names, own, old)})"
    return sql.whole(source, TABLES[table]) if old else source


def again(root: Path, table: Table, use: Callable[[Sequence[str], str], T], names: Sequence[str] | None = None) -> T:
    """The result of `use`, which gets a table's files and the SQL text for their rows.

    `use` is called again if a file was replaced by a larger file in the meantime. `names` are the columns of the joined
    form that `use` needs; None means all columns, which take 15 ms to parse per query.

    Raises:
        StoreError: as for `files`; or files vanish repeatedly.
    """
    for _ in range(_TRIES):
        try:
            check_there(root)
            found = whole(root, table)
            return use([_pattern(file) for file in found], _rows(root, table, found, names))
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            last = error
            list_anew()
    raise StoreError(f"{root / table}: cannot be read ({last})")


def ask(
    connection: duckdb.DuckDBPyConnection, root: Path, table: Table, query: str, values: Mapping[str, Any]
) -> pa.Table | None:
    """The result of a query over a table's rows (`FILES`) from all attempts; None if the table has no files.

    Raises:
        StoreError: as for `again`.
    """

    def use(names: Sequence[str], rows: str) -> pa.Table | None:
        if not names:
            return None
        return connection.cursor().sql(query.replace(FILES, rows), params=dict(values)).to_arrow_table()

    return again(root, table, use)

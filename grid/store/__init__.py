"""The Parquet tables: immutable files, one row per cell on reading however often a chunk was tried."""

from grid.store.compacting import compact
from grid.store.files import Rows, Table, check, put_aside, write
from grid.store.holding import locked
from grid.store.tables import CellIds, Retry, finished, newest, read, rows_of_try

__all__ = [
    "CellIds",
    "Retry",
    "Rows",
    "Table",
    "check",
    "compact",
    "finished",
    "locked",
    "newest",
    "put_aside",
    "read",
    "rows_of_try",
    "write",
]

"""The Parquet tables: immutable files, verified on reading, with one row per cell however many attempts a chunk took.

Read it in this order. `schema` has all columns of all tables. `writing` writes a file, completely or not at all.
`files` finds out whether a file is undamaged, and which files belong to a table. `scanning` reads rows a batch at a
time, with scores and costs as columns. `tables` reads a table; if a cell has several rows, the latest counts. `sql`
does the same as `tables`, in DuckDB. `compacting` merges small files into large ones, `gathering` combines several
folders into one, and `holding` locks a folder. `runs` has the runs and their settings; `transcripts` and `steps` return
requests and steps as objects. The names in this file are public. The package imports only `core`.
"""

from grid.store.compacting import compact
from grid.store.files import File, Table, check, check_there, put_aside, size, without_damaged
from grid.store.gathering import gather
from grid.store.holding import locked
from grid.store.runs import PlannedSetting, RunRecord, RunsRecord, record_run, runs
from grid.store.scanning import Long
from grid.store.tables import (
    CellIds,
    Retry,
    files_of,
    finished,
    metric_rows,
    metrics,
    named_in,
    newest,
    read,
    rows_of_try,
)
from grid.store.transcripts import Request, transcript
from grid.store.writing import Rows, Values, write

__all__ = [
    "CellIds",
    "File",
    "Long",
    "PlannedSetting",
    "Request",
    "Retry",
    "Rows",
    "RunRecord",
    "RunsRecord",
    "Table",
    "Values",
    "check",
    "check_there",
    "compact",
    "files_of",
    "finished",
    "gather",
    "locked",
    "metric_rows",
    "metrics",
    "named_in",
    "newest",
    "put_aside",
    "read",
    "record_run",
    "rows_of_try",
    "runs",
    "size",
    "transcript",
    "without_damaged",
    "write",
]

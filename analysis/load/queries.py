"""SQL over the cells of a folder: DuckDB computes the figures of tables, and tables show the query that it ran.

A query reads `e`, one row per cell as in `load.episodes`. `ask` runs it over these rows; `of_files` puts SQL in front
of the query; with this SQL, DuckDB can make `e` from the files without Python. A cell that ran again has several rows
in the files; the latest row counts, as in `grid.store.read`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import duckdb
import pandas as pd
import pyarrow as pa

from analysis.load import frames, grading, unknowns
from grid.store import sql
from grid.store.schema import TABLES

LABELLED = "model, dataset, robustness <> 'none' AS disturbed, robustness, planner"
"""The labels that tell settings apart, in the order in which tables show them."""
_LINE = ",\n  "
_KEYS = (*unknowns.SETTING, "planner")


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


@lru_cache(maxsize=1)
def _connection() -> duckdb.DuckDBPyConnection:
    """A connection with one thread, so that sums are the same each time and small tables are ready sooner."""
    return duckdb.connect(config={"threads": 1})


class Asked(NamedTuple):
    """The result of a query: its rows and its text."""

    rows: pd.DataFrame
    query: str


def ask(cells: pd.DataFrame, query: str, **further: pa.Table | pd.DataFrame) -> Asked:
    """The result of a query that reads these cells as the table `e`; label columns stay categories.

    Args:
        cells: the rows of `load.episodes`, or some of them.
        query: SQL; DuckDB refuses columns that the cells lack.
        further: other tables, keyed by their names in the query: results of `store.read`, or frames of cells.
    """
    connection = _connection()
    words = set(re.findall(r"\w+", query))
    tables = {"e": cells, **further}
    for name, table in tables.items():
        read = table[[column for column in table if column in words]] if isinstance(table, pd.DataFrame) else table
        connection.register(name, read)
    found = connection.execute(query).df()
    for name in tables:  # so that a million cells are not kept until the next query
        connection.unregister(name)
    return Asked(found, query)


def of_cases(
    values: Sequence[str] | Mapping[str, str],
    condition: str = "true",
    keys: Sequence[str] = (),
    further: Sequence[str] = (),
    source: str = "e",
) -> str:
    """A query for each case's means over trials, by setting and `keys`; intervals are computed from these means.

    `values` are columns, or SQL expressions keyed by name; `further` are additional aggregates. `source` is the table
    of the cells, which may have further columns.
    """
    named = values if isinstance(values, Mapping) else {value: value for value in values}
    means = [f"avg({_value(text)}::DOUBLE) AS {name}" for name, text in named.items()]
    columns = [LABELLED, *keys, "cluster, case_id, count(*) AS cells", *means, *further]
    return f"SELECT {_LINE.join(columns)}\nFROM {source} WHERE {condition} GROUP BY ALL ORDER BY ALL"


def of_settings(values: Sequence[str], condition: str) -> str:
    """A query for aggregates over the cells of each setting."""
    return f"SELECT {_LINE.join([LABELLED, *values])}\nFROM e WHERE {condition} GROUP BY ALL ORDER BY ALL"


def of_files(root: Path, *queries: str) -> str:
    """The queries that `ask` ran, preceded by views that read a folder's files, so that DuckDB can run the text."""
    text = "\n".join(queries)
    words, read = set(re.findall(r"\w+", text)), set(re.findall(r"(?:FROM|JOIN) (\w+)", text))
    cells = f"SELECT * FROM {_text(f'{root}/episodes/*.parquet')}\n  QUALIFY {sql.COUNTS}"
    cells = unknowns.sql(_told_apart(root, cells), unknowns.COLUMN in words)
    if grading.COLUMN in words:
        cells = f"SELECT *, {grading.sql()}\nFROM ({cells})"
    views = [f"CREATE OR REPLACE TEMP VIEW e AS {cells}"] + [
        f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {source}"
        for name, source in _sources(root).items()
        if name in read
    ]
    return sql.joined(";\n".join([*views, *queries]))


def _sources(root: Path) -> dict[str, str]:
    """The SQL source of each table other than the cells; in tables of attempts, only a cell's latest attempt counts."""
    latest = " SEMI JOIN e USING (cell_id, attempt_id)"
    sources = dict.fromkeys(("steps", "nodes", "improvements", "messages"), latest)
    sources |= dict.fromkeys(("comparisons", "rescores", "scorings"), "")
    found = {name: _rows(root, name) + further for name, further in sources.items()}
    return found | {"scores": _SCORES, "failures": f"{_text(f'{root}/.failures/*.parquet')}{latest}"}


_SCORES = (
    "(SELECT cell_id, one.key AS name, one.value AS value\n"
    "  FROM (SELECT cell_id, unnest(map_entries(scores)) AS one FROM e))"
)
"""One row per cell and metric, as `grid.store.read` returns them; no rows for files without a map of scores."""


def _rows(root: Path, table: str) -> str:
    """The files of a table; if there are none, an empty table, because DuckDB refuses names that match no file."""
    there = any((root / table).glob("*.parquet"))
    return _text(f"{root}/{table}/*.parquet") if there else f"({sql.none(TABLES[table])})"


def _told_apart(root: Path, cells: str) -> str:
    """A query for cells in which models and planners have the names that `load.episodes` gives them."""
    if models := frames.models(root):
        names = " ".join(f"WHEN {_text(label)} THEN {_text(name)}" for label, name in models.items())
        cells = f"SELECT * REPLACE (CASE model {names} ELSE model END AS model)\n  FROM ({cells})"
    labels = frames.lengthened(root)
    if labels.empty:
        return cells
    rows = values(labels.astype(object).fillna("").itertuples(index=False))  # imported rows have no `code`
    same = " AND ".join(f"coalesce(cells.{key}, '') = labels.{key}" for key in _KEYS)
    return (
        f"SELECT cells.* REPLACE (coalesce(label, cells.planner) AS planner)\n  FROM ({cells}) AS cells\n"
        f"  LEFT JOIN (VALUES {rows}) AS labels({', '.join(_KEYS)}, label)\n  ON {same}"
    )


def values(rows: Iterable[Iterable[object]]) -> str:
    """Rows of texts, in the form that `VALUES` needs."""
    return ",\n    ".join(f"({', '.join(map(_text, row))})" for row in rows)


def latest(root: Path, condition: str = "true") -> str:
    """The common table expression `e`: for each cell, the latest of its rows that fulfil a condition.

    The success of unknown cells is set as `unknowns.counted` says.
    """
    cells = f"SELECT * FROM {_text(f'{root}/episodes/*.parquet')} WHERE {condition}\n  QUALIFY {sql.COUNTS}"
    return f"WITH e AS ({unknowns.sql(cells)})"


def by_case(root: Path, values: Sequence[str] | Mapping[str, str], condition: str, keys: Sequence[str] = ()) -> str:
    """The query of `of_cases` over a folder's files."""
    return of_files(root, of_cases(values, condition, keys))


def _value(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def shapes(root: Path, condition: str) -> str:
    """A query for the depth and breadth of each case's reference; the depth is counted in calls and in dependencies."""
    return (
        f"{latest(root)}\nSELECT DISTINCT dataset, case_id, depth, breadth, depth_edges, breadth_edges\n"
        f"FROM e WHERE depth IS NOT NULL AND {condition}\nORDER BY ALL"
    )


def steps(root: Path, columns: Sequence[str], condition: str) -> str:
    """A query for the steps that fulfil a condition, from each cell's latest attempt."""
    return (
        f"{latest(root)}\nSELECT {', '.join(f's.{name}' for name in columns)}\n"
        f"FROM {_text(f'{root}/steps/*.parquet')} AS s JOIN e USING (cell_id, attempt_id)\n"
        f"WHERE {condition}\nORDER BY cell_id, step"
    )


def rows(columns: Sequence[str], condition: str) -> str:
    """A query for the rows of a regression, in the order of `load.episodes`; `success` is `grading.COLUMN`."""
    every = dict.fromkeys(["model", "planner", *columns, "error_kind"])
    named = [f"{grading.COLUMN}::DOUBLE AS success" if name == "success" else name for name in every]
    order = "model, dataset, robustness <> 'none', robustness, planner, trial, case_id"
    return f"SELECT {', '.join(named)}\nFROM e WHERE {condition}\nORDER BY {order}"


def where(rows: Mapping[str, Sequence[str]]) -> str:
    """The condition that each column has one of the given values; changes after a planner's name are ignored."""
    columns = {name: "split_part(split_part(planner, '[', 1), ' ', 1)" if name == "planner" else name for name in rows}
    return " AND ".join(f"{columns[name]} IN ({', '.join(map(_text, rows[name]))})" for name in rows) or "true"


def place(model: str, dataset: str) -> str:
    """The condition, written by `where`, for rows of one model and dataset."""
    return where({"model": [model], "dataset": [dataset]})

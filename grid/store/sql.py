"""`episodes` in the joined form for DuckDB, with a column for each metric and for each cost of a role."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from grid.core.metric import Metric
from grid.core.places import folder_at
from grid.store.files import survey
from grid.store.schema import COSTS, EPISODES, LATEST, LONG, PARTS, Part, field_of, part_of
from grid.store.tables import metrics

COUNTS = f"row_number() OVER (PARTITION BY cell_key ORDER BY {', '.join(f'{name} DESC' for name in LATEST)}) = 1"
"""The condition for QUALIFY that a row of `episodes` is the one that counts for its cell."""
_KINDS = {"string": "VARCHAR", "double": "DOUBLE", "bool": "BOOLEAN", "int32": "INTEGER", "int64": "BIGINT"}
_WHOLE = re.compile(r"SELECT \* FROM ('(?:[^']|'')*/episodes/\*\.parquet')")
"""The part of a query that reads all columns of all rows of a folder's `episodes`."""


def selected(source: str, names: Sequence[str], own: Mapping[str, Metric], old: bool) -> str:
    """A query for all columns of `episodes`, and for the columns `names` of the joined form.

    Args:
        source: the text after FROM.
        names: columns of the joined form, whether of our metrics and costs or of the metrics `own`.
        own: a plugin's metrics by name.
        old: whether some files are in an older format, with a column per metric; if so, `source` has the columns of all
            files.
    """
    parts = {name: PARTS[name] if name in PARTS else part_of(own[name]) for name in names}
    kinds = {name: LONG.field(name).type if name in PARTS else field_of(own[name]).type for name in names}
    taken = {name: _taken(part, kinds[name]) for name, part in parts.items()}
    if not old:
        columns = ", ".join(["*", *(f"{text} AS {name}" for name, text in taken.items())])
        return f"SELECT {columns} FROM {source}"  # noqa: S608  names are ours
    either = ", ".join(f"coalesce({text}, {name}) AS {name}" for name, text in taken.items())
    replaced = f" REPLACE ({either})" if either else ""
    return f"SELECT *{replaced} FROM {whole(source, [*EPISODES, *(pa.field(*one) for one in kinds.items())])}"  # noqa: S608  names are ours


def none(columns: Iterable[pa.Field]) -> str:
    """A query that returns columns without rows, for a folder that has no files of a table."""
    return "SELECT " + ", ".join(f'NULL::{_kind(one.type)} AS "{one.name}"' for one in columns) + " WHERE false"


def whole(source: str, columns: Iterable[pa.Field]) -> str:
    """A source of rows from files of several versions; a column that no file has is null."""
    return f"(SELECT * FROM {source} UNION ALL BY NAME {none(columns)})"  # noqa: S608  names are ours


def joined(query: str) -> str:
    """A query over folders' files, in which the columns of the joined form are computed from the maps.

    Args:
        query: a query with `SELECT * FROM 'FOLDER/episodes/*.parquet'`; any other query is returned unchanged.

    Raises:
        StoreError: a folder cannot be read, or its sweeps declared a metric differently.
    """
    found = query
    for whole, files in {one[0]: one[1] for one in _WHOLE.finditer(query)}.items():
        root = folder_at(files.strip("'").replace("''", "'")).parent.parent
        own = {name: metric for name, metric in metrics(root).items() if name not in PARTS}
        old = any(not file.of_now for file in survey(root, "episodes").files)
        source = f"read_parquet({files}, union_by_name = true)" if old else files
        found = found.replace(whole, selected(source, named(query, own), own, old))
    return found


def named(query: str, own: Iterable[str] = ()) -> list[str]:
    """The columns of the joined form that a query names: ours, and the columns of a plugin's metrics `own`."""
    words = set(re.findall(r"\w+", query))
    return [name for name in (*PARTS, *own) if name in words]


def _taken(part: Part, kind: pa.DataType) -> str:
    """The expression for a column of the joined form.

    A role's count is taken from a list of this count alone, because `costs['actor'].input_tokens` would copy all of the
    role's counts, which takes three times as long.
    """
    if part.map == COSTS:
        place = f"list_position(map_keys({COSTS}), '{part.key}')"
        return f"list_extract([spent.{part.cost} for spent in map_values({COSTS})], {place})"
    value = f"{part.map}['{part.key}']"
    if pa.types.is_boolean(kind):
        return f"({value} <> 0)"
    return value if pa.types.is_float64(kind) or pa.types.is_string(kind) else f"{_json(value, kind)}::{_kind(kind)}"


def _json(value: str, kind: pa.DataType) -> str:
    return f"{value}::JSON" if pa.types.is_list(kind) else value


def _kind(kind: pa.DataType) -> str:
    """The name of a type in DuckDB."""
    if pa.types.is_list(kind):
        return f"{_kind(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({_kind(kind.key_type)}, {_kind(kind.item_type)})"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{field.name} {_kind(field.type)}' for field in kind)})"
    return "TIMESTAMPTZ" if pa.types.is_timestamp(kind) else _KINDS[str(kind)]

"""Reading the tables: the latest row of each cell, and the cells that need not run again."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from grid.core.errors import ErrorKind, StoreError, nearest, shown_value
from grid.core.metric import BY_NAME, Metric
from grid.core.places import folder_at
from grid.core.types import to_json
from grid.store.files import File, Table, lacks, whole
from grid.store.scanning import LONG_TABLES as _LONG
from grid.store.scanning import Joined, Long, Scan, entries, refolded, scan
from grid.store.schema import (
    COSTS,
    DIGESTS,
    EPISODES,
    JOINED,
    LATEST,
    LONG,
    PARTS,
    SCORES,
    SPENT,
    TABLES,
    TEXT,
    Part,
    field_of,
    part_of,
)

Retry = Literal["none", "infrastructure", "all"]
Keys: TypeAlias = "npt.NDArray[np.bytes_]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"
_TRY, _AGE = ["cell_id", "attempt_id"], ["cell_key", LATEST[0]]
_ORDER = {
    "episodes": ["cell_id"],
    "steps": ["cell_id", "branch", "step"],
    "nodes": ["cell_id", "order"],
    "improvements": ["cell_id", "improvement"],
    "attempts": ["created_at", "attempt_id"],
    "messages": ["cell_id", "message"],
    "sections": ["digest"],
    "cases": ["digest"],
    "comparisons": ["comparison_id"],
    "scorings": ["created_at", "scoring"],
    "rescores": ["cell_id", "scoring", "name"],
    "metrics": ["digest"],
}
_OF_TRIES = ("steps", "nodes", "improvements", "messages")
_COUNTED: Sequence[Table] = ("steps", "nodes", "improvements")  # episodes count these rows, so lost rows are made again
_WHERE = "_where"
_QUOTED, _NAME = re.compile(r'"(?:[^"\\]|\\.)*"'), re.compile(r"[A-Za-z_]\w*+(?!\()")
_DIGITS = 32  # number of digits of the digest of a row of `metrics`
_SPENT = ["cell_id", "status", *(name for columns in SPENT.values() for name in columns.values())]


class CellIds:
    """A set of cells' ids, which needs about sixteen bytes for each id."""

    def __init__(self, ids: Keys) -> None:
        self.ids = np.sort(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, ids: Keys) -> CellIds:
        """The ids of this set that are not in `ids`."""
        return CellIds(self.ids[~_places(self.ids, np.sort(ids))[1]])

    def holds(self, ids: Sequence[str]) -> Mask:
        """Whether each of the given ids is in the set."""
        return _places(np.array(ids, dtype="S"), self.ids)[1]

    def __iter__(self) -> Iterator[str]:
        return (cell_id.decode() for cell_id in self.ids)


def read(
    root: str | Path,
    table: Table | Long,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    categories: Sequence[str] = (),
    *,
    wide: bool = False,
) -> pa.Table:
    """One table of a results folder, even while a sweep writes to it.

    `episodes` has one row per cell, the latest one, whatever code made it, sorted by cell id. `steps`, `nodes`,
    `improvements` and `messages` have the rows that belong to these episodes: `steps` sorted by id, branch and step,
    `nodes` and `improvements` by id and then in the order in which they were made, `messages` by id and request.
    `sections`, `cases`, `comparisons`, `scorings` and `metrics` have one row per digest or id; `attempts` has every
    row, in order of time, and `rescores` every row, sorted by cell, scoring and name. `scores` and `costs` are made
    from `episodes`, with one row per cell and metric, or per cell and role. An empty folder gives an empty table.

    Args:
        root: the folder.
        table: the table's name.
        columns: the columns to return, in this order; apart from these, only the ids are read. For `episodes` they may
            also be columns of the joined form: a metric's name, or a role's costs (`judge_input_tokens`).
        where: a filter for rows, on any columns (for `scores` and `costs`, on those of `episodes`), such as
            `pc.field("planner") == "react"`.
        categories: columns with few different texts, to be returned dictionary-encoded: they are then small, and are
            categories in pandas.
        wide: whether to return all columns of the joined form if `columns` is None.

    Raises:
        StoreError: a file is damaged, has an unsupported schema version, or cannot be read; or there is no such column.
    """
    root = folder_at(root)
    if table == "scores" or table == "costs":
        return _long(root, table, where, columns)
    names = list(columns) if columns is not None else TABLES[table].names
    if table == "episodes":
        joined = _joining(root, names if columns or not wide else None, where)
        names = list(columns) if columns is not None else [*JOINED.names, *joined.further] if wide else names
        wanted = _Wanted(names, _ORDER[table], categories)
        use = lambda data: wanted.of(joined.of(data), _in_turn(_latest_of(data)), where)  # noqa: E731
        return scan(root, table, use, _AGE)
    _expect_columns(root, table, names, TABLES[table].names)
    wanted = _Wanted(names, _ORDER[table], categories)
    if table in DIGESTS:
        first = DIGESTS[table]
        return scan(root, table, lambda data: wanted.of(data, _in_turn(_first_of(data, first)), where), [first])
    # The episodes are read first: an episode is written after its rows in this table, so these rows exist already.
    keep = _tries(root, files_of(root, "episodes")).hold if table in _OF_TRIES else _all
    return scan(root, table, lambda data: wanted.of(data if where is None else data.filter(where), keep))


def finished(root: Path, retry: Retry = "none", by: Literal["cell_id", "cell_key"] = "cell_id") -> CellIds:
    """The ids of the cells that need not run again; with `by="cell_key"`, their keys, whatever code made the rows.

    `retry` says which failed cells are to run again: `none`, those that failed because of the infrastructure, or `all`.
    Cells that lost rows of `steps`, `nodes` or `improvements` with a file that was put aside run again, too.

    Raises:
        StoreError: as for `read`.
    """
    where, told = pc.scalar(True), {"none": [], "infrastructure": ["error_kind"], "all": ["status"]}[retry]
    if retry == "infrastructure":
        where = pc.coalesce(pc.field("error_kind"), pc.scalar("")) != pc.scalar(str(ErrorKind.INFRASTRUCTURE))
    elif retry == "all":
        where = pc.field("status") == pc.scalar("ok")

    def use(data: Scan) -> CellIds:
        rows = _table(data, [by, *_AGE], {_WHERE: where})
        kept = pc.and_(pc.fill_null(rows[_WHERE], False), pa.array(_latest(data, rows)))
        return CellIds(_keys(rows[by].filter(kept)))

    done = scan(root, "episodes", use, [by, *_AGE, *told])
    for table in _COUNTED:
        if lacks(root, table):
            done = done.without(_without_rows(root, table, by))
    return done


def _without_rows(root: Path, table: Table, by: str) -> Keys:
    """The cells that have rows in a table according to `episodes`, but lost them with a file that was put aside."""
    rows = read(root, "episodes", list(dict.fromkeys(["cell_id", by])), pc.field(f"n_{table}") > 0)
    found = CellIds(np.unique(_keys(read(root, table, ["cell_id"])["cell_id"])))
    without = ~_places(_keys(rows["cell_id"]), found.ids)[1]
    return np.asarray(_keys(rows[by])[without])


def rows_of_try(root: Path, table: Literal["episodes", "attempts"], attempt_id: str) -> list[dict[str, Any]]:
    """The rows of one attempt at a chunk: ids, status and costs; rows replaced by a later attempt are included.

    Raises:
        StoreError: as for `read`.
    """
    columns = _SPENT if table == "episodes" else [name for name in TABLES[table].names if name in _SPENT]
    joined, mine = _joining(root, columns) if table == "episodes" else None, pc.field("attempt_id") == attempt_id

    def use(data: Scan) -> list[dict[str, Any]]:
        rows = data.filter(mine)
        found: list[dict[str, Any]] = _table(joined.of(rows) if joined else rows, columns).to_pylist()
        return found

    return scan(root, table, use)


def newest(root: Path) -> dt.datetime | None:
    """The time when the newest row of `episodes` was made; None if there is no row.

    Raises:
        StoreError: as for `read`.
    """
    found: dt.datetime | None = scan(root, "episodes", lambda data: pc.max(_table(data, ["created_at"])[0]).as_py())
    return found


def metrics(root: str | Path) -> dict[str, Metric]:
    """The metrics among the scores of a folder, by name: ours, and the metrics that its sweeps declared.

    Raises:
        StoreError: as for `read`; or two sweeps declared a name differently, so that its values cannot be in one
            column.
    """
    return dict(_metrics(folder_at(root), files_of(root, "metrics")))


@lru_cache(maxsize=8)
def _metrics(root: Path, files: tuple[File, ...]) -> Mapping[str, Metric]:
    """The metrics in these files, cached because a report often needs them; equal file names mean equal content."""
    found = dict(BY_NAME)
    columns = [name for name in TABLES["metrics"].names if name != "digest"]
    rows = read(root, "metrics", columns, ~pc.field("name").isin([*BY_NAME, *EPISODES.names])).to_pylist()
    for row in sorted(rows, key=lambda row: str(row["name"])):
        metric = Metric(**row)
        known = found.setdefault(metric.name, metric)
        if (metric.unit, metric.kind) != (known.unit, known.kind):
            raise StoreError(
                f"{root}: metric {metric.name} is a {known.kind} in {known.unit or 'no unit'} in one sweep and a "
                f"{metric.kind} in {metric.unit or 'no unit'} in another; keep their results in separate folders"
            )
    return found


def named_in(where: pc.Expression | None) -> set[str]:
    """The columns that an expression may name: all names in its text, except quoted texts and functions."""
    told = _QUOTED.sub("", "" if where is None else str(where))
    return {*_NAME.findall(told)} - {"and", "or", "true", "false", "null"}


def files_of(root: str | Path, table: Table) -> tuple[File, ...]:
    """The files of a table whose rows count; as long as the files are the same, so are the rows.

    Raises:
        StoreError: a file is damaged, has an unsupported schema version, or cannot be read.
    """
    return tuple(whole(folder_at(root), table))


def metric_rows(found: Iterable[Metric]) -> list[dict[str, Any]]:
    """The rows of the table `metrics` for these metrics."""
    rows = [{name: getattr(metric, name) for name in TABLES["metrics"].names if name != "digest"} for metric in found]
    return [{"digest": hashlib.sha256(to_json(row).encode()).hexdigest()[:_DIGITS], **row} for row in rows]


@dataclass(frozen=True)
class _Joining:
    """The joined-form columns that are read in addition to those in `episodes`; `further` are a plugin's metrics."""

    parts: Mapping[str, Part]
    fields: Mapping[str, pa.Field]
    further: Sequence[str]

    def of(self, data: Scan) -> Joined | Scan:
        """The scan, with columns of the joined form added if any are needed."""
        return Joined(data, self.parts, self.fields) if self.fields else data


def _joining(root: Path, names: Sequence[str] | None, where: pc.Expression | None = None) -> _Joining:
    """The columns of the joined form that `names` (None: all of them) and the expression `where` need.

    Raises:
        StoreError: a name is neither a column nor a metric.
    """
    told = "" if where is None else str(where)
    ours = [name for name in LONG.names if names is None or name in names or name in told]
    known = {*EPISODES.names, *PARTS}
    unknown = [name for name in names or () if name not in known]
    declared = metrics(root) if names is None or unknown or named_in(where) - known else {}
    own = [name for name in declared if name not in BY_NAME and (names is None or name in names or name in told)]
    for name in unknown:
        if name not in own:
            raise StoreError(f"{root}: no column of episodes and no metric of its sweeps is called {shown_value(name)}")
    return _Joining(
        {name: PARTS[name] for name in ours} | {name: part_of(declared[name]) for name in own},
        {name: LONG.field(name) for name in ours} | {name: field_of(declared[name]) for name in own},
        own,
    )


def _long(root: Path, table: Long, where: pc.Expression | None, columns: Sequence[str] | None) -> pa.Table:
    """`scores` or `costs`, sorted by cell and name; also from old files, which have a column per score or cost."""
    _expect_columns(root, table, columns or (), _LONG[table].names)
    maps = [SCORES, TEXT] if table == "scores" else [COSTS]
    rows = read(root, "episodes", ["cell_id", *maps], where)
    old = pc.field(maps[0]).is_null()
    if rows[maps[0]].null_count:
        own = [name for name, part in PARTS.items() if part.map in maps]
        earlier = read(root, "episodes", ["cell_id", *own], old if where is None else where & old)
        rows = pa.concat_tables([rows.filter(~old), refolded(earlier, maps)])
    data = entries(rows, table).sort_by([("cell_id", "ascending"), (_LONG[table].names[1], "ascending")])
    return data if columns is None else data.select(list(columns))


def _expect_columns(root: Path, table: str, columns: Sequence[str], known: Sequence[str]) -> None:
    for name in columns:
        if name not in known:
            raise StoreError(f"{root}: {table} has no column {shown_value(name)}{nearest(name, known)}")


@dataclass(frozen=True)
class _Wanted:
    """The columns that a reader wants; `order` are the columns to sort by, `categories` are dictionary-encoded."""

    columns: Sequence[str]
    order: Sequence[str]
    categories: Sequence[str]

    def of(
        self, data: Scan | Joined, keep: Callable[[pa.RecordBatch], Mask], where: pc.Expression | None = None
    ) -> pa.Table:
        """The rows for which `keep` and `where` are true, read a batch at a time, so that other rows use no memory.

        `keep` gets each batch, which includes the rows' ids.
        """
        names = list(dict.fromkeys([*self.columns, *self.order]))
        ids = [name for name in _TRY if name in data.schema.names]
        read = {name: pc.field(name) for name in [*names, *ids]}
        read[_WHERE] = pc.scalar(True) if where is None else where
        data = data.encoded({*self.categories} - {*_TRY} - named_in(where))
        parts = []
        for batch in data.batches(read):
            kept = pc.and_(pc.fill_null(batch[_WHERE], False), pa.array(keep(batch)))
            parts.append(self._encoded(batch.select(names).filter(kept)))
        empty = self._encoded(pa.RecordBatch.from_pylist([], pa.schema([data.schema.field(name) for name in names])))
        rows = pa.Table.from_batches(parts, empty.schema).unify_dictionaries()
        held = dict(zip(names, rows.columns, strict=True))
        del parts, rows
        pa.default_memory_pool().release_unused()
        return self._sorted(held, empty.schema)

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in self.categories:
            if not pa.types.is_dictionary(batch.schema.field(name).type):
                place = batch.schema.get_field_index(name)
                batch = batch.set_column(place, name, batch[name].dictionary_encode())
        return batch

    def _sorted(self, held: dict[str, pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
        """The columns with sorted rows; `held` is emptied column by column, so that there are never two full copies."""
        keys = [_keys(held[name]) if name in _TRY else held[name].to_numpy() for name in self.order]
        places = np.lexsort(keys[::-1])
        del keys
        taken = {name: _taken(held.pop(name), places) for name in list(held)}
        return pa.table(
            [taken[name] for name in self.columns], pa.schema([schema.field(name) for name in self.columns])
        )


def _table(data: Scan | Joined, names: Sequence[str], further: Mapping[str, pc.Expression] = {}) -> pa.Table:
    """All rows in the order in which they are read, with the columns `names` and the computed flags `further`."""
    fields = {name: data.schema.field(name) for name in names} | {name: pa.field(name, pa.bool_()) for name in further}
    columns = {name: pc.field(name) for name in fields} | dict(further)
    return pa.Table.from_batches(data.batches(columns), pa.schema(list(fields.values())))


def _latest_of(data: Scan) -> Mask:
    """For each row, whether it is the row that counts for its cell; computed only once for the same files."""
    return _latest_in(tuple(data.files), data.schema)


@lru_cache(maxsize=4)
def _latest_in(files: tuple[File, ...], schema: pa.Schema) -> Mask:
    data = Scan(files, schema)
    found = _latest(data, _table(data, _AGE))
    pa.default_memory_pool().release_unused()
    return found


def _latest(data: Scan, rows: pa.Table) -> Mask:
    """For each row, whether it is the row that counts for its cell, by the rule of LATEST."""
    when, then = LATEST
    cells, made = _keys(rows["cell_key"]), pc.fill_null(rows[when].cast(pa.int64()), 0).to_numpy()
    order = np.lexsort((made, cells))
    if _repeated(cells[order], made[order]).any():  # rare; only then is another column read
        tries = _keys(pc.fill_null(_table(data, [then])[then], ""))
        order = np.lexsort((tries, made, cells))
    last = np.ones(len(order), dtype=bool)
    last[:-1] = ~_repeated(cells[order])
    found = np.zeros(len(order), dtype=bool)
    found[order[last]] = True
    return found


def _repeated(*columns: npt.NDArray[Any]) -> Mask:
    """For each row from the second on, whether it has the same values as the row before it."""
    found: Mask = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return found


def _first_of(data: Scan, column: str) -> Mask:
    """For each row, whether it is the first row with its value, in the order in which rows are read."""
    found = np.zeros(len(keys := _keys(_table(data, [column])[column])), dtype=bool)
    found[np.unique(keys, return_index=True)[1]] = True
    return found


class _Tries:
    """For each cell, the attempt that made its latest row."""

    def __init__(self, root: str | Path) -> None:
        rows = read(root, "episodes", _TRY, categories=["attempt_id"])
        attempts = rows["attempt_id"].combine_chunks()
        self._cells, self._names, self._tries = _keys(rows["cell_id"]), attempts.dictionary, attempts.indices.to_numpy()

    def hold(self, batch: pa.RecordBatch) -> Mask:
        """For each row, whether it was made by its cell's latest attempt."""
        tries = pc.fill_null(pc.index_in(batch["attempt_id"], self._names), -1).to_numpy()
        places, known = _places(_keys(batch["cell_id"]), self._cells)
        return known & (self._tries[places] == tries) if len(self._cells) else known


@lru_cache(maxsize=1)
def _tries(root: Path, files: tuple[File, ...]) -> _Tries:
    """The attempts for a folder's cells, cached for all its tables as long as `episodes` has the same files."""
    return _Tries(root)


def _taken(column: pa.ChunkedArray, places: npt.NDArray[np.int64]) -> pa.ChunkedArray:
    """The rows of a column at these positions; most columns have no values, and these are not copied."""
    return column if column.null_count == len(column) == len(places) else column.take(places)


def _all(batch: pa.RecordBatch) -> Mask:
    return np.ones(len(batch), dtype=bool)


def _in_turn(mask: Mask) -> Callable[[pa.RecordBatch], Mask]:
    """A function that returns the part of the mask for each batch, if the batches come in order."""
    place = 0

    def piece(batch: pa.RecordBatch) -> Mask:
        nonlocal place
        place += len(batch)
        return mask[place - len(batch) : place]

    return piece


def _keys(column: pa.ChunkedArray | pa.Array) -> Keys:
    """Ids as bytes of the same width, so that they can be compared without creating an object per id."""
    text = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.min_max(pc.binary_length(text)).as_py()
    width = max(lengths["max"] or 0, 1)
    if lengths["min"] != width:
        text = pc.utf8_rpad(text, width, "\0")
    fixed = text.cast(pa.binary()).cast(pa.binary(width))
    return np.frombuffer(fixed.buffers()[1], dtype=f"S{width}", count=len(fixed), offset=fixed.offset * width)


def _places(keys: Keys, ordered: Keys) -> tuple[npt.NDArray[np.int64], Mask]:
    """The position of each key among the sorted keys, and whether the key is among them."""
    if not len(ordered):
        return np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=bool)
    places = np.minimum(ordered.searchsorted(keys), len(ordered) - 1)
    return places, np.asarray(ordered[places] == keys)

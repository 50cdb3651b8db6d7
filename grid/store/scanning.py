"""Reading the rows of many files, a batch at a time; every page that is read is verified."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grid.core.errors import StoreError
from grid.core.metric import split
from grid.core.places import Address, file_system
from grid.store import files as on_disk
from grid.store.files import _PATIENCE_SECONDS, SMALL, THREADS, File, content_of, forget, whole
from grid.store.schema import COST, COSTS, EPISODES, LONG, PARTS, SCORES, TABLES, TEXT, Part

if TYPE_CHECKING:
    import pyarrow.dataset as ds


T = TypeVar("T")
_BATCH = 65_536
_TOGETHER = 64  # maximum number of open files: each takes some 70 KB, however small it is


@dataclass(frozen=True)
class Scan:
    """The rows of some files for which `where` is true.

    `texts` are columns with few different texts. From large files they come as dictionaries, which is how they are
    stored. Reading 19 such columns of a million rows as dictionaries takes 0.5 s and 110 MiB; reading them as texts
    takes 8 s and 370 MiB.
    """

    files: Sequence[File]
    schema: pa.Schema
    where: pc.Expression | None = None
    texts: frozenset[str] = frozenset()

    def encoded(self, texts: Set[str]) -> Scan:
        """The same rows, with these columns as dictionaries if the rows' file allows it."""
        return replace(
            self, texts=frozenset(texts) & {field.name for field in self.schema if field.type == pa.string()}
        )

    def filter(self, where: pc.Expression) -> Scan:
        """The rows of this scan for which `where` is true too."""
        return replace(self, where=where if self.where is None else self.where & where)

    def batches(self, columns: Mapping[str, pc.Expression]) -> Iterator[pa.RecordBatch]:
        """Batches of columns that are computed from the rows; the order of rows is always the same.

        Only a few large files are read ahead, because much of their content may not be needed.
        """
        import pyarrow.dataset as ds

        small = [file for file in self.files if file.size <= SMALL]
        large = [file for file in self.files if file.size > SMALL]
        told = " ".join(map(str, [*columns.values(), self.where]))
        names = [name for name in self.schema.names if name in told]  # includes all that are asked for
        schema = encoded(self.schema, self.texts)
        form = ds.ParquetFileFormat(dictionary_columns=sorted(self.texts))
        for files in _slices(large):
            names_of, system = [str(file.path) for file in files], _system_of(files[0].path)
            data = ds.dataset(names_of, schema=schema, format=form, filesystem=system)
            together = system is not None  # nearby parts of an object are fetched in one request
            options = ds.ParquetFragmentScanOptions(
                pre_buffer=together, use_buffered_stream=not together, page_checksum_verification=on_disk.VERIFIED
            )
            yield from self._scanned(data, columns, options)
        with ThreadPoolExecutor(THREADS) as pool:
            for files in _slices(small):
                each = map if len(files) == 1 else pool.map  # a single file needs no thread
                tables = list(each(lambda file: _content(file, self.schema, names), files))
                yield from self._scanned(ds.dataset(pa.concat_tables(tables).combine_chunks()), columns)

    def _scanned(
        self, data: ds.Dataset, columns: Mapping[str, pc.Expression], options: ds.FragmentScanOptions | None = None
    ) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = data.scanner(
            columns=dict(columns),
            filter=self.where,
            batch_size=_BATCH,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=options,
        ).to_batches()
        return found


def scan(root: Path, table: str, use: Callable[[Scan], T], names: Sequence[str] = ()) -> T:
    """Call `use` with a table's rows, including the older rows of cells that ran again; returns its result.

    `use` is called again if a file was replaced while it was read. `names` are the columns that `use` reads first.

    Raises:
        StoreError: a file is damaged, has an unsupported schema version, or cannot be read.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    try:
        names = [name for name in TABLES[table].names if name in names]
        files = whole(root, table, names)
        while True:
            try:
                return use(Scan(files, TABLES[table]))
            except (pa.ArrowException, OSError) as error:
                forget()
                again = whole(root, table, names)
                if again == files or time.monotonic() > until:
                    raise StoreError(f"{root / table}: cannot be read ({error})") from None
                files = again
    finally:
        pa.default_memory_pool().release_unused()  # otherwise the pool keeps all memory that it has ever had


def encoded(schema: pa.Schema, texts: Collection[str]) -> pa.Schema:
    """A table's columns, with the columns `texts` as dictionaries."""
    form = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(form) if field.name in texts else field for field in schema])


def _slices(files: Sequence[File]) -> Iterator[Sequence[File]]:
    """Groups of files to open together: several files have at most a batch of rows, as a row may take a kilobyte."""
    found: list[File] = []
    for file in files:
        if found and (len(found) == _TOGETHER or sum(one.rows for one in found) + file.rows > _BATCH):
            yield found
            found = []
        found.append(file)
    if found:
        yield found


def _system_of(path: Path) -> Any:
    """The file system through which Arrow reads a file; None means this machine's own file system."""
    if not isinstance(path, Address):
        return None
    from pyarrow import fs

    return fs.PyFileSystem(fs.FSSpecHandler(file_system()))


def _content(file: File, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    if file.content is not None and set(names) <= set(file.content.column_names):
        return file.content.select(names)
    source = pa.BufferReader(file.path.read_bytes())
    return content_of(pq.ParquetFile(source, page_checksum_verification=on_disk.VERIFIED), schema, names)


# `episodes` in the joined form: a column for each metric and each role's costs, taken out of the maps.
#
# Files of versions 16 and 17 have these columns themselves, so each row has either the maps or the columns.


MAPS = (SCORES, TEXT, COSTS)
Long = Literal["scores", "costs"]
LONG_TABLES: Mapping[Long, pa.Schema] = {
    "scores": pa.schema(
        [("cell_id", pa.string()), ("name", pa.string()), ("value", pa.float64()), ("text", pa.string())]
    ),
    "costs": pa.schema([("cell_id", pa.string()), ("role", pa.string()), *COST]),
}
"""The tables made from the maps of `episodes`, with one row per entry of a map."""


@dataclass(frozen=True)
class Joined:
    """A scan of `episodes` that also has columns of the joined form.

    `parts` says where these columns' values are in the maps, `fields` has the columns' types.
    """

    scan: Scan
    parts: Mapping[str, Part]
    fields: Mapping[str, pa.Field]

    @property
    def schema(self) -> pa.Schema:
        """All columns that may be asked for."""
        return pa.schema([*EPISODES, *self.fields.values()])

    def filter(self, where: pc.Expression) -> Joined:
        """The rows for which `where` (a filter on columns of `episodes`) is true too."""
        return replace(self, scan=self.scan.filter(where))

    def encoded(self, texts: Set[str]) -> Joined:
        """Like `Scan.encoded`, but columns of metrics stay as they are."""
        return replace(self, scan=self.scan.encoded(texts))

    def batches(self, columns: Mapping[str, pc.Expression]) -> Iterator[pa.RecordBatch]:
        """As `Scan.batches`."""
        told = " ".join(map(str, columns.values()))
        long = [name for name in self.fields if name in told]
        if not long:
            yield from self.scan.batches(columns)
            return
        import pyarrow.dataset as ds

        plain = [name for name in EPISODES.names if name in told and name not in MAPS]
        own = [name for name in long if name in LONG.names] if any(not file.of_now for file in self.scan.files) else []
        maps = list(dict.fromkeys(self.parts[name].map for name in long))
        asked = {*maps} | {name for name in MAPS if name in columns}
        scan = replace(self.scan, schema=pa.schema([*EPISODES, *(self.fields[name] for name in own)]))
        for batch in scan.batches({name: pc.field(name) for name in [*plain, *asked, *own]}):
            rows = {name: batch[name] for name in [*plain, *asked]}
            rows |= self._spread(batch, long, own)
            yield from ds.dataset(pa.table(rows)).scanner(columns=dict(columns)).to_batches()

    def _spread(self, batch: pa.RecordBatch, long: Sequence[str], own: Sequence[str]) -> dict[str, pa.Array]:
        maps = {name: _Map(batch[name]) for name in {self.parts[one].map for one in long}}
        found = {}
        for name in long:
            part = self.parts[name]
            values = maps[part.map].of(part, self.fields[name].type)
            found[name] = pc.coalesce(values, batch[name]) if name in own else values
        return found


class _Map:
    """A batch's column of maps, from which values can be taken by key."""

    def __init__(self, column: pa.MapArray) -> None:
        offsets = column.offsets.to_numpy()
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys = column.keys.slice(first, count).dictionary_encode()
        self._rows = len(column)
        self._owners = np.repeat(np.arange(self._rows), np.diff(offsets))
        self._keys, self._names = keys.indices.to_numpy(zero_copy_only=False), keys.dictionary.to_pylist()
        self._values = column.items.slice(first, count)
        self._found: dict[str, pa.Array] = {}

    def of(self, part: Part, kind: pa.DataType) -> pa.Array:
        """The values of a key, one per row; null for a row whose map lacks the key."""
        if part.key not in self._names:
            return pa.nulls(self._rows, kind)
        values = pc.struct_field(self._values, part.cost) if part.cost else self._values
        values = values.take(self._places(part.key))
        return values if part.cost else _as(values, kind)

    def _places(self, key: str) -> pa.Array:
        """For each row, the position of the entry with the key; null for a row that lacks the key."""
        if key not in self._found:
            places = np.full(self._rows, -1)
            own = np.flatnonzero(self._keys == self._names.index(key))
            places[self._owners[own]] = own
            self._found[key] = pa.array(places, mask=places < 0)
        return self._found[key]


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values from their type in a map to their type in the joined form."""
    if pa.types.is_boolean(kind):
        return pc.not_equal(values, 0.0)
    if pa.types.is_list(kind):
        return pa.array([None if text is None else json.loads(text) for text in values.to_pylist()], kind)
    return values.cast(kind)


def map_array(values: Sequence[Mapping[str, Any] | Sequence[tuple[str, Any]] | None], kind: pa.MapType) -> pa.Array:
    """An Arrow array of maps, each given as a mapping or as pairs; several times as fast as Arrow's own conversion."""
    keys, items, offsets = list[str](), list[Any](), [0]
    for one in values:
        if one:
            pairs = one if isinstance(one, Mapping) else dict(one)
            keys += pairs
            items += pairs.values()
        offsets.append(len(keys))
    told = _structs(items) if kind.item_type == COST else pa.array(items, kind.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), told).cast(kind)


def _structs(items: Sequence[Mapping[str, Any]]) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [pa.array([one.get(field.name) for one in items], field.type) for field in COST], fields=[*COST]
    )


def entries(rows: pa.Table, table: Long) -> pa.Table:
    """The entries of the rows' maps as rows of a table in LONG_TABLES; `rows` have `cell_id` and the maps."""
    schema = LONG_TABLES[table]
    if table == "costs":
        cells, roles, spent = _pairs(rows, COSTS)
        return pa.table([cells, roles, *spent.flatten()], schema)
    numbers, texts = _pairs(rows, SCORES), _pairs(rows, TEXT)
    none = [pa.nulls(len(part[2]), kind) for part, kind in ((numbers, pa.string()), (texts, pa.float64()))]
    found = [pa.table([*numbers, none[0]], schema), pa.table([*texts[:2], none[1], texts[2]], schema)]
    return pa.concat_tables(found)


def _pairs(rows: pa.Table, name: str) -> tuple[pa.Array, pa.Array, pa.Array]:
    """For each entry in a column of maps: the row's cell, the key and the value."""
    column = rows[name].combine_chunks()
    offsets = column.offsets.to_numpy()
    owners = np.repeat(np.arange(len(column)), np.diff(offsets))
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    cells = rows["cell_id"].combine_chunks().take(pa.array(owners))
    return cells, column.keys.slice(first, count), column.items.slice(first, count)


def refolded(rows: pa.Table, maps: Sequence[str]) -> pa.Table:
    """The cells and maps of rows in the joined form: their columns are turned back into maps."""
    held = [folded(row) for row in rows.to_pylist()]
    columns = [map_array([row.get(name) for row in held], EPISODES.field(name).type) for name in maps]
    return pa.table([rows["cell_id"], *columns], pa.schema([EPISODES.field(name) for name in ("cell_id", *maps)]))


def folded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of `episodes`, from a row in the joined form; a row without columns of that form is unchanged."""
    long = [name for name in row if name in PARTS]
    if not long:
        return row
    held: dict[str, dict[str, Any]] = {name: dict(row.get(name) or {}) for name in MAPS}
    numbers, texts = split({name: row[name] for name in long if PARTS[name].map != COSTS and row[name] is not None})
    held[SCORES] |= numbers
    held[TEXT] |= texts
    for name in long:
        map_, role, cost = PARTS[name]
        if map_ == COSTS and row[name] is not None:
            held[COSTS].setdefault(role, {})[cost] = row[name]
    return {name: value for name, value in row.items() if name not in PARTS} | held


class EpisodeRow(dict[str, Any]):
    """A row of `episodes` that also has the columns of the joined form by name; None for a column without a value."""

    def __missing__(self, name: str) -> Any:
        """The value in the row's maps for the name of a metric, or of a column with a role's costs.

        Raises:
            KeyError: the name is neither ours nor a column of `episodes`; so it is for a plugin's metrics.
        """
        if name not in PARTS:
            if name in EPISODES.names:
                return None
            raise KeyError(name)
        part = PARTS[name]
        value = (self.get(part.map) or {}).get(part.key)
        if part.cost:
            return None if value is None else value.get(part.cost)
        kind = LONG.field(name).type
        if value is None or pa.types.is_string(kind):
            return value
        if pa.types.is_list(kind):
            return json.loads(value)
        return bool(value) if pa.types.is_boolean(kind) else int(value) if pa.types.is_integer(kind) else value

"""Small files made into large ones, while others read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from grid.store.files import File, files, new_file, replaced
from grid.store.schema import TABLES

ROWS, BYTES = 250_000, 64 * 2**20  # of a file that is large enough, and that merged ones come to
_GROUP_ROWS, _GROUP_BYTES = 65_536, 128 * 2**20  # of a row group, the bytes in memory
_BATCH = 8_192


def compact(root: Path) -> dict[str, tuple[int, int]]:
    """Merge small files; returns how many files each table had and has.

    At every moment a reader sees each row once: a merged file names those that it replaces, which do not count from
    its renaming on and are then removed. Nobody else may compact the folder at the same time; writing is free.

    Raises:
        StoreError: a file has another schema version, or the folder cannot be written to.
    """
    counts = {}
    for table in TABLES:
        for path in replaced(root, table):  # left by a compaction that was killed
            path.unlink(missing_ok=True)
        before = files(root, table)
        for group in _groups(before):
            _merge(root, table, group)
        counts[table] = len(before), len(files(root, table))
    return counts


def _groups(found: Sequence[File]) -> Iterator[list[File]]:
    """Small files, some together that make a large one."""
    group: list[File] = []
    for file in found:
        if file.rows >= ROWS // 2 or file.size >= BYTES // 2:
            continue
        group.append(file)
        if sum(one.rows for one in group) >= ROWS or sum(one.size for one in group) >= BYTES:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _merge(root: Path, table: str, group: Sequence[File]) -> None:
    paths = [file.path for file in group]
    with new_file(root, table, [path.name for path in paths]) as writer:
        for rows in _row_groups(ds.dataset(paths, schema=TABLES[table], format="parquet")):
            writer.write_table(rows)
    for path in paths:
        path.unlink()


def _row_groups(data: ds.Dataset) -> Iterator[pa.Table]:
    """The rows in their order, in tables of a row group's size."""
    held: list[pa.RecordBatch] = []
    for batch in data.to_batches(batch_size=_BATCH, batch_readahead=1, fragment_readahead=1):
        held.append(batch)
        if sum(map(len, held)) >= _GROUP_ROWS or sum(one.nbytes for one in held) >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)

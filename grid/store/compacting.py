"""Merging small files into large ones, while other processes read and write."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from grid.core.errors import StoreError
from grid.store.files import DAMAGE, File, VanishedError, name_of, reading, survey
from grid.store.scanning import encoded
from grid.store.schema import DIGESTS, IDS, TABLES
from grid.store.writing import new_file

ROWS, BYTES = 250_000, 64 * 2**20  # a file with half of either limit is not merged
_GROUP_ROWS, _GROUP_BYTES = 65_536, 16 * 2**20  # limits of a row group in memory, as a sweep's driver has little
_BATCH = 8_192


class StoreWarning(UserWarning):
    """The warning about a damaged file of a table."""


def _warn(line: str) -> None:
    warnings.warn(line, StoreWarning, stacklevel=3)


def compact(root: Path, say: Callable[[str], object] = _warn) -> dict[str, tuple[int, int]]:
    """Merge small files; returns the number of undamaged files of each table before and after.

    At any time, a reader sees each row once. A merged file names the files that it replaces; as soon as it gets its own
    name, those files no longer count, and then they are removed. The merged bytes are exactly the bytes whose hash was
    compared. A damaged file is reported to `say` (by default as a warning) and stays unchanged; the other files are
    merged without it. No other process may compact the folder at the same time, but other processes may write to it.

    Raises:
        StoreError: a file cannot be read or has an unsupported schema version, or the folder cannot be written to.
    """
    counts = {}
    for table in TABLES:
        found = survey(root, table)
        for path in found.damaged:
            say(_damaged(path))
        for file in found.replaced:  # left behind by a compaction that was killed
            _remove(file.path)
        merged = sum(_merge(root, table, group, say) for group in _groups(found.files))
        counts[table] = len(found.files), len(found.files) - merged
    return counts


def _groups(found: Sequence[File]) -> Iterator[list[File]]:
    """Groups of small files; each group becomes one large file. Files of earlier versions are not merged."""
    group, rows, size = list[File](), 0, 0
    for file in found:
        if not file.of_now or file.rows >= ROWS // 2 or file.size >= BYTES // 2:
            continue
        group.append(file)
        rows, size = rows + file.rows, size + file.size
        if rows >= ROWS or size >= BYTES:
            yield group
            group, rows, size = [], 0, 0
    yield group


def _merge(root: Path, table: str, group: Sequence[File], say: Callable[[str], object]) -> int:
    """Merge several files into one; returns the decrease in the table's number of files."""
    whole = list[Path]()
    for file in group if len(group) > 1 else ():
        if _content(file.path) is None:
            say(_damaged(file.path))
        else:
            whole.append(file.path)
    if len(whole) < 2:
        return 0
    texts = [column.name for column in TABLES[table] if column.type == pa.string() and column.name not in IDS[table]]
    with new_file(root, table, [path.name for path in whole], texts) as merged:
        for rows in _row_groups(whole, encoded(TABLES[table], texts), texts, DIGESTS.get(table)):
            merged.write(rows)
    for path in whole:
        _remove(path)
    pa.default_memory_pool().release_unused()
    return len(whole) - 1


def _content(path: Path) -> bytes | None:
    """A file's bytes; None if these are not the bytes that were originally written.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        with reading(path):
            content = path.read_bytes()
    except VanishedError:
        raise StoreError(f"{path}: this file vanished; another process may be merging the files") from None
    return content if name_of(io.BytesIO(content)) == path.stem else None


def _row_groups(paths: Sequence[Path], schema: pa.Schema, texts: list[str], digest: str | None) -> Iterator[pa.Table]:
    """The rows in order, in tables of a row group's size; of rows with the same `digest`, only the first.

    The columns `texts` come as dictionaries, which is how they are stored, because a row's config takes a kilobyte and
    most rows share it.

    Raises:
        StoreError: a file was damaged after it was checked, or it is undamaged but cannot be read.
    """
    held, rows, size, known = list[pa.RecordBatch](), 0, 0, set[str]()
    for path in paths:
        content = _content(path)
        if content is None:
            raise StoreError(_damaged(path))
        try:
            source = pa.BufferReader(content)
            file = pq.ParquetFile(source, read_dictionary=texts, page_checksum_verification=True)
            for batch in file.iter_batches(_BATCH, use_threads=False):
                if digest:
                    batch = _new(batch, digest, known)
                held.append(batch)
                rows, size = rows + len(batch), size + batch.nbytes
                if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                    yield pa.Table.from_batches(held, schema)
                    held, rows, size = [], 0, 0
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{path}: cannot be read ({error})") from None
    if held:
        yield pa.Table.from_batches(held, schema)


def _new(batch: pa.RecordBatch, digest: str, known: set[str]) -> pa.RecordBatch:
    """The rows whose digest is not `known` yet; their digests are added to `known`."""
    fresh = []
    for name in batch[digest].to_pylist():
        fresh.append(name not in known)
        known.add(name)
    return batch.filter(pa.array(fresh, pa.bool_()))


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: cannot be removed ({error})") from None


def _damaged(path: Path) -> str:
    return f"{path} is damaged ({DAMAGE}): it is not merged; start its sweep again, which moves the file aside"

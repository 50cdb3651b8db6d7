"""Rows of many files, a batch at a time; every page that is read is verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grid.store import looking
from grid.store.looking import SMALL, THREADS, File, content_of

if TYPE_CHECKING:  # it imports pandas
    import pyarrow.dataset as ds

_BATCH = 65_536
_TOGETHER = 64  # files: an open one takes some 70 KB, however small it is


@dataclass(frozen=True)
class Scan:
    """The rows of some files for which `where` holds."""

    files: Sequence[File]
    schema: pa.Schema
    where: pc.Expression | None = None

    def filter(self, where: pc.Expression) -> Scan:
        """Those of the rows for which it holds too."""
        return replace(self, where=where if self.where is None else self.where & where)

    def batches(self, columns: Mapping[str, pc.Expression]) -> Iterator[pa.RecordBatch]:
        """Columns made of those of the rows, each time in the same order.

        Of large files few are read ahead, as they may hold much that is not asked for.
        """
        import pyarrow.dataset as ds

        small = [file for file in self.files if file.size <= SMALL]
        large = [file for file in self.files if file.size > SMALL]
        told = " ".join(map(str, [*columns.values(), self.where]))
        names = [name for name in self.schema.names if name in told]  # those that are asked for are among them
        for files in _slices(large):
            data = ds.dataset([str(file.path) for file in files], schema=self.schema, format="parquet")
            options = ds.ParquetFragmentScanOptions(
                pre_buffer=False, use_buffered_stream=True, page_checksum_verification=looking.VERIFIED
            )
            yield from self._scanned(data, columns, options)
        with ThreadPoolExecutor(THREADS) as pool:
            for files in _slices(small):
                tables = list(pool.map(lambda file: _content(file, self.schema, names), files))
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


def _slices(files: Sequence[File]) -> Iterator[Sequence[File]]:
    """So many files as may be open at once, and of no more rows than a batch: a row may have a kilobyte of config."""
    found: list[File] = []
    for file in files:
        if found and (len(found) == _TOGETHER or sum(one.rows for one in found) + file.rows > _BATCH):
            yield found
            found = []
        found.append(file)
    if found:
        yield found


def _content(file: File, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    if file.content is not None and set(names) <= set(file.content.column_names):
        return file.content.select(names)
    source = pa.BufferReader(file.path.read_bytes())
    return content_of(pq.ParquetFile(source, page_checksum_verification=looking.VERIFIED), schema, names)

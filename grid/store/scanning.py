"""Rows of many files, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from grid.store.looking import File

_BATCH = 65_536
_TOGETHER = 256  # files: an open one takes some 70 KB, however small it is
_SMALL, _AHEAD = 2**20, 16  # files of so many bytes are read ahead, so many of them
_OPTIONS = {"pre_buffer": False, "use_buffered_stream": True, "page_checksum_verification": True}


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
        """Columns made of those of the rows, in the files' order; every page that is read is verified.

        Few files are read ahead where they may hold much that is not asked for.
        """
        for start in range(0, len(self.files), _TOGETHER):
            files = self.files[start : start + _TOGETHER]
            data = ds.dataset([str(file.path) for file in files], schema=self.schema, format="parquet")
            yield from data.scanner(
                columns=dict(columns),
                filter=self.where,
                batch_size=_BATCH,
                batch_readahead=1,
                fragment_readahead=_AHEAD if max(file.size for file in files) <= _SMALL else 1,
                fragment_scan_options=ds.ParquetFragmentScanOptions(**_OPTIONS),
            ).to_batches()

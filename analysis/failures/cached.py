"""What was told of a folder's failed cells, kept beside them: under the digest of the rules that told it.

A cell's rows never change under one `attempt_id`, so that what was told of it stays true. Whoever cannot write goes
without; of two who write at once the last one's file stays, whole.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grid.text import references
from grid.worlds import equivalence

FOLDER = ".failures"
"""In a results folder; no table's, so that the store does not look at it."""
SCHEMA = pa.schema(
    [
        ("cell_id", pa.string()),
        ("failure", pa.string()),
        ("failure_detail", pa.string()),
        ("failure_step", pa.int32()),
        ("failures", pa.list_(pa.string())),
        ("attempt_id", pa.string()),
    ]
)
_KEY = ["cell_id", "attempt_id"]
_RULES = ("cells", "read", "rules", "values")


def known(root: Path) -> pa.Table:
    """What these rules told before; empty where nothing is kept, or it cannot be read."""
    try:
        found = pq.read_table(root / FOLDER / f"{rules()}.parquet", page_checksum_verification=True)
    except (OSError, pa.ArrowException):
        return SCHEMA.empty_table()
    return found if found.schema.equals(SCHEMA) else SCHEMA.empty_table()


def unknown(failed: pa.Table, known: pa.Table) -> pa.Table:
    """The rows of which nothing is known yet, in their order."""
    return failed.filter(pc.invert(pc.is_in(_names(failed), _names(known)))) if known.num_rows else failed


def joined(failed: pa.Table, known: pa.Table, fresh: pa.Table) -> pa.Table:
    """For each row of `failed` what is told of it, in their order."""
    if not known.num_rows:
        return fresh
    told = pa.concat_tables([known, fresh])
    return told.take(pc.index_in(_names(failed), _names(told)))


def keep(root: Path, table: pa.Table) -> None:
    """Keep what was told, and nothing that other rules did; nothing happens where it cannot be written."""
    folder, name = root / FOLDER, f"{rules()}.parquet"
    draft = folder / f".{uuid.uuid4().hex}"
    try:
        folder.mkdir(exist_ok=True)
        pq.write_table(table, draft, compression="zstd", write_page_checksum=True)
        os.replace(draft, folder / name)
        for other in folder.iterdir():
            if other.suffix == ".parquet" and other.name != name:
                other.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@cache
def rules() -> str:
    """Sixteen hexadecimal digits of the code that tells classes."""
    own = (Path(__file__).with_name(f"{name}.py") for name in _RULES)
    files = [*own, *(Path(module.__file__) for module in (equivalence, references) if module.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _names(table: pa.Table) -> pa.ChunkedArray:
    """Cell and try as one text."""
    return pc.binary_join_element_wise(*(table[name] for name in _KEY), "/")

"""The files of a results folder: they never change, larger files replace them, and damaged files are put aside.

A merged file names the files that it was merged from. As soon as the merged file gets its own name, those files no
longer count, whether they still exist or not.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from grid.core.errors import StoreError, one_line
from grid.core.places import Address, list_anew
from grid.store.schema import IDS, LONG, OLDEST, SCHEMA_VERSION, TABLES

# One file of a table: whether its bytes are the bytes that were written, and whether this version can read its rows.
#
# A file's name is the hash of its bytes. Checksums of pages, which every read verifies, do not cover the bytes between
# pages. So the whole hash is compared when a process sees a file for the first time or finds it changed.


VERSION_KEY, REPLACES_KEY = b"schema_version", b"replaces"
ARROW = b"ARROW:schema"
DAMAGE = "its name is not the hash of its content"
_HEX_DIGITS = 32  # number of the hash's digits in a name
THREADS = min(len(os.sched_getaffinity(0)), 8)  # reading threads; more threads than CPUs would slow each other down
SMALL = 2**18  # bytes; files up to this size are read whole, as a scanner would take twice as long
_SETTLED_SECONDS = 2.0  # a file's times are coarse, and may not show two changes in quick succession
_Mark: TypeAlias = tuple[int, int, int, int, int]
_SIZE, _CHANGED = 2, 4  # positions in a mark: size in bytes, and time of the last change (ctime) in nanoseconds


class VanishedError(Exception):
    """A file that was listed no longer exists."""


@dataclass(frozen=True)
class File:
    """One undamaged file of a table; `replaces` are the names of the files that it was merged from.

    `of_now`: whether it has exactly the columns of this version, in order. `content` has the columns that `look` read
    along with the file's description.
    """

    path: Path
    rows: int
    size: int
    replaces: frozenset[str]
    of_now: bool = True
    content: pa.Table | None = field(default=None, compare=False, repr=False)


VERIFIED = True  # only a benchmark sets it to False
_seen: dict[Path, tuple[_Mark, File]] = {}


def look(path: Path, table: str, names: Sequence[str] = ()) -> File | None:
    """Check a file of a table; returns None if it is damaged. For a small file, the columns `names` are read too.

    The columns are read together with the check, so that the footer of a small file is read only once.

    Raises:
        VanishedError: the file was replaced since it was listed.
        StoreError: the file cannot be read, or it is undamaged but has an unsupported schema version (a later one, or
            one before OLDEST), a column of the wrong type, or null ids.
    """
    with reading(path):
        mark = _mark(path)
        then, known = _seen.get(path, (None, None))
        small = mark[_SIZE] <= SMALL
        if known and then == mark and not (names and small):
            return known
        with BytesIO(path.read_bytes()) if small else path.open("rb") as source:
            if then != mark and VERIFIED and not _trusted(path, small) and name_of(source) != path.stem:
                return None
            reader = _opened(path, source)
    file = _understood(path, table, reader.metadata, mark)
    if time.time() - mark[_CHANGED] / 1e9 > _SETTLED_SECONDS:
        _seen[path] = mark, file
    try:
        return replace(file, content=content_of(reader, TABLES[table], names)) if names and small else file
    except (pa.ArrowException, OSError):  # a page does not match its checksum, so the file has changed since
        return None


def _trusted(path: Path, small: bool) -> bool:
    """Whether a file's hash need not be compared; true for large objects, whose bytes the object store has verified."""
    return isinstance(path, Address) and not small


def content_of(reader: pq.ParquetFile, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Columns of a table's file, with the types of the table's schema; a column that the file lacks is null."""
    found = reader.read([name for name in names if name in reader.schema_arrow.names], use_threads=False)
    columns = [
        found[name] if name in found.column_names else pa.nulls(found.num_rows, schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, pa.schema([schema.field(name) for name in names]))


def forget() -> None:
    """Forget all verified files, so that each is checked again, for example after a file broke while it was read."""
    _seen.clear()
    list_anew()


def name_of(source: BufferedReader | BytesIO) -> str:
    """The name of a file with these bytes, without its extension."""
    return hashlib.file_digest(source, "sha256").hexdigest()[:_HEX_DIGITS]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the system's errors about a file or folder into the store's errors.

    Raises:
        VanishedError: the file or folder does not exist, or no longer exists.
        StoreError: any other error, including a broken link.
    """
    try:
        yield
    except OSError as error:
        for place in (path, path.parent) if error.errno == errno.ENOENT else ():
            if place.is_symlink() and not place.exists():
                raise StoreError(f"{place}: a broken link ({os.readlink(place)} does not exist)") from None
        if error.errno in (errno.ENOENT, errno.ESTALE) and not is_there(path):
            raise VanishedError(path) from None
        if error.errno == errno.ENOTDIR:
            raise StoreError(f"{path}: there is a file in the place of a folder; move it away") from None
        raise StoreError(f"{path}: cannot be read ({error.strerror or error})") from None


def is_there(path: Path) -> bool:
    """Whether a path exists; a broken link counts too.

    Raises:
        StoreError: this cannot be determined.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # ValueError: NUL in a path
        reason = error.strerror if isinstance(error, OSError) else None
        raise StoreError(f"{one_line(path, 200)}: cannot be read ({reason or error})") from None
    return True


def _mark(path: Path) -> _Mark:
    """Figures that change whenever the file changes, unless the disk is faulty."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path}: not a regular file; move it away")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _opened(path: Path, source: BufferedReader | BytesIO) -> pq.ParquetFile:
    """A reader of an undamaged file that has read the file's footer; raises StoreError if it is not a Parquet file."""
    content = pa.BufferReader(source.getvalue()) if isinstance(source, BytesIO) else source
    try:
        return pq.ParquetFile(content, page_checksum_verification=True)
    except pa.ArrowInvalid as error:
        raise StoreError(f"{path}: not a Parquet file ({error}); move it away") from None


def _understood(path: Path, table: str, footer: pq.FileMetaData, mark: _Mark) -> File:
    """The description of an undamaged file, from its footer.

    Raises:
        StoreError: this version cannot read the file's rows.
    """
    metadata = footer.metadata or {}
    version = metadata.get(VERSION_KEY, b"none").decode()
    if not (version.isdecimal() and OLDEST <= int(version) <= int(SCHEMA_VERSION)):
        raise StoreError(
            f"{path}: schema_version={version!r} of table {table}, but this version writes {SCHEMA_VERSION!r} and "
            f"reads {OLDEST} to {SCHEMA_VERSION}; choose another name=NAME or use the version that wrote it"
        )
    # Reading a footer's schema keeps it in memory until garbage is collected, so it is not read for most files.
    of_now = metadata.get(ARROW) == example(table).metadata[ARROW] or footer.schema.equals(example(table).schema)
    if not of_now:
        _expect_types(path, table, footer.schema.to_arrow_schema())
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    for name in IDS[table]:
        counts = [footer.row_group(group).column(places[name]).statistics for group in range(footer.num_row_groups)]
        if any(one is None or not one.has_null_count or one.null_count for one in counts):
            raise StoreError(f"{path}: column {name} of table {table} has rows without a value; move it away")
    names = metadata.get(REPLACES_KEY, b"").decode().split()
    return File(path, footer.num_rows, mark[_SIZE], frozenset(names), of_now)


@cache
def example(table: str) -> pq.FileMetaData:
    """The footer of an empty file, as written by this version."""
    empty = pa.BufferOutputStream()
    metadata = {VERSION_KEY: SCHEMA_VERSION.encode(), REPLACES_KEY: b""}
    with pq.ParquetWriter(empty, TABLES[table].with_metadata(metadata)):  # making an empty table would import pandas
        pass
    return pq.read_metadata(pa.BufferReader(empty.getvalue()))


def _expect_types(path: Path, table: str, found: pa.Schema) -> None:
    """Raise StoreError if a file lacks an id column, or if a column's type differs from the table's schema."""
    for column in [*TABLES[table], *(LONG if table == "episodes" else ())]:
        if column.name in IDS[table] and column.name not in found.names:
            raise StoreError(f"{path}: column {column.name} of table {table} is missing; move it away")
        if column.name in found.names and found.field(column.name).type != column.type:
            own = found.field(column.name).type
            raise StoreError(
                f"{path}: column {column.name} of table {table} has the type {own}, not {column.type}; move it away"
            )


Table = Literal[
    "episodes", "steps", "nodes", "improvements", "attempts", "messages", "sections", "cases", "comparisons",
    "scorings", "rescores", "metrics",
]  # fmt: skip
T = TypeVar("T")
ASIDE = ".aside"
_PATIENCE_SECONDS = 60.0  # how long reading is retried while files are being replaced
_TOGETHER = 64  # number of files that a thread checks in one go
_NAMED = 5  # maximum number of damaged files in a message
_left_out = ContextVar("_left_out", default=False)
_LOSS = {
    "attempts": "and the costs of its attempts are not counted",
    "messages": "and the requests of its cells are lost, but not their results",
    "comparisons": "and its comparisons are made again",
    "scorings": "and the scores of rescored cells are computed again",
    "rescores": "and the scores of rescored cells are computed again",
    "sections": "and its sections are missing from prompts; results are not affected",
    "cases": "and the queries of its cases are not shown; results are not affected",
    "metrics": "and the next run writes the meaning of a plugin's metrics again",
}
"""The consequences of lost rows, by table, for tables whose lost rows do not make cells run again."""


@dataclass(frozen=True)
class Survey:
    """A table's files in three lists, sorted by name: files that count, files merged into these, and damaged files."""

    files: Sequence[File]
    replaced: Sequence[File]
    damaged: Sequence[Path]
    needless: frozenset[str]
    """The names of files whose rows are in a merged file, whether the named files still exist or not."""

    @property
    def lost(self) -> list[Path]:
        """Damaged files whose rows are in no other file."""
        return [path for path in self.damaged if path.name not in self.needless]


def survey(root: Path, table: str, names: Sequence[str] = ()) -> Survey:
    """Check every file of a table, and read the columns `names` of small files. A table without a folder has no files.

    Raises:
        StoreError: a file or folder cannot be read, or a file has an unsupported schema version.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            paths = _listed(root / table)
            found = _looked(paths, table, names)
            break
        except VanishedError as error:  # a larger file replaced it
            list_anew()
            if time.monotonic() > until:
                raise StoreError(
                    f"{error}: this file vanished while it was read, and so did other files before it"
                ) from None
    whole = [file for file in found if file is not None]
    needless = frozenset[str]().union(*(file.replaces for file in whole))
    return Survey(
        files=[file for file in whole if file.path.name not in needless],
        replaced=[file for file in whole if file.path.name in needless],
        damaged=[path for path, file in zip(paths, found, strict=True) if file is None],
        needless=needless,
    )


def _looked(paths: Sequence[Path], table: str, names: Sequence[str]) -> list[File | None]:
    """Apply `look` to each file, in threads if there are many; for a few files, threads would take longer."""

    def look_at(part: Sequence[Path]) -> list[File | None]:
        return [look(path, table, names) for path in part]

    if len(paths) <= _TOGETHER:
        return look_at(paths)
    with ThreadPoolExecutor(THREADS) as pool:
        slices = [paths[start : start + _TOGETHER] for start in range(0, len(paths), _TOGETHER)]
        return [file for part in pool.map(look_at, slices) for file in part]


def check(root: Path, *, damage: bool = True) -> None:
    """Check every file of a results folder.

    Raises:
        StoreError: a file cannot be read, has an unsupported schema version, or (with `damage`) is damaged.
    """
    for table in TABLES:
        found = survey(root, table)
        if damage:
            _refuse(found.lost)


def check_there(root: Path) -> None:
    """Raise StoreError if a folder has no results, or if it cannot be determined whether it has any."""
    if not is_there(root / "episodes"):
        raise StoreError(f"{root}: no results here (no folder episodes)")
    _listed(root / "episodes")


def put_aside(root: Path) -> list[str]:
    """Move damaged files out of the tables, to `.aside`; returns a line per file. The caller must hold the lock.

    Raises:
        StoreError: a folder cannot be read or written to.
    """
    lines = []
    for table in TABLES:
        found = survey(root, table)
        for path in found.damaged:
            aside = root / ASIDE / table
            try:
                aside.mkdir(parents=True, exist_ok=True)
                path.replace(aside / path.name)
            except OSError as error:
                raise StoreError(f"{path} is damaged and cannot be moved to {aside} ({error})") from None
            lines.append(f"{path} is damaged ({DAMAGE}); it was moved to {aside}, {_after(table, path, found)}")
    return lines


def _after(table: str, path: Path, found: Survey) -> str:
    """The consequence for the rows of a file that was put aside, worded as the end of a sentence."""
    if path not in found.lost:
        return "and its rows are in a larger file"
    return _LOSS.get(table, "and its cells run again")


def lacks(root: Path, table: str) -> bool:
    """Whether a file of a table was ever put aside."""
    folder = root / ASIDE / table
    return is_there(folder) and bool(_listed(folder))


def size(root: Path, tables: Iterable[Table]) -> int:
    """The size of all files of some tables, in bytes.

    Raises:
        StoreError: a folder cannot be read.
    """
    total = 0
    for path in (path for table in tables for path in _listed(root / table)):
        with suppress(VanishedError), reading(path):
            total += path.stat().st_size
    return total


def whole(root: Path, table: str, names: Sequence[str] = ()) -> Sequence[File]:
    """The files of a table whose rows count, from `survey`.

    Raises:
        StoreError: as for `survey`; or a file is damaged, outside `without_damaged`.
    """
    found = survey(root, table, names)
    if not _left_out.get():
        _refuse(found.lost)
    return found.files


@contextmanager
def without_damaged() -> Iterator[None]:
    """Inside the context, tables are read without their damaged files; this is for a sweep that will put them aside."""
    before = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(before)


def _refuse(lost: Sequence[Path]) -> None:
    """Raise StoreError if rows are lost, because tables without these rows would look complete."""
    if lost:
        further = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise StoreError(
            f"{', '.join(map(str, lost[:_NAMED]))}{further}: damaged, {DAMAGE}; start the sweep again, which puts "
            "damaged files aside and runs their cells again, or move them away to go on without their rows"
        )


def _listed(folder: Path) -> list[Path]:
    """The files of a table, sorted by name; empty if there is no folder.

    A listing that is made while one file replaces others may show neither the new file nor the old files. But the
    previous listing showed the old files. So the folder is listed again until no file has disappeared since the
    previous listing.
    """
    before, now = _entries(folder), _entries(folder)
    while not set(before) <= set(now):
        before, now = now, _entries(folder)
    return now


def _entries(folder: Path) -> list[Path]:
    try:
        with reading(folder):
            if isinstance(folder, Address):
                return sorted(folder.glob("*.parquet"))
        with reading(folder), os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.name.endswith(".parquet"))
    except VanishedError:
        return []

"""The files of a results folder: never changed, replaced by larger ones, put aside where they are damaged.

A file that was merged from others names them, so that from the moment of its renaming they do not count, whether
they are still there or not.
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

# One file of a table: whether its bytes are those that were written, and whether they are this version's rows.
#
# A file's name is the hash of its bytes. Checksums of pages, which every read verifies, do not cover what lies between
# them, so that the whole hash is compared whenever a process meets a file for the first time or finds it changed.


VERSION_KEY, REPLACES_KEY = b"schema_version", b"replaces"
ARROW = b"ARROW:schema"
DAMAGE = "its bytes are not those that its name is the hash of"
_HEX_DIGITS = 32  # of the hash, in a name
THREADS = min(len(os.sched_getaffinity(0)), 8)  # that read files; more than the CPUs hold each other up
SMALL = 2**18  # bytes of a file that is read whole: a scanner takes twice the time
_SETTLED_SECONDS = 2.0  # a file's times are coarse: a change soon after another may not show in them
_Mark: TypeAlias = tuple[int, int, int, int, int]
_SIZE, _CHANGED = 2, 4  # places in a mark: of bytes, and of when a file changed, in nanoseconds


class VanishedError(Exception):
    """A file that was listed is not there any more."""


@dataclass(frozen=True)
class File:
    """One file of a table, as it was written; `replaces` are the names of those that it was merged from.

    `of_now`: it has this version's columns, no other and in their order. `content` are columns that were read as it was
    looked at.
    """

    path: Path
    rows: int
    size: int
    replaces: frozenset[str]
    of_now: bool = True
    content: pa.Table | None = field(default=None, compare=False, repr=False)


VERIFIED = True  # a benchmark alone says otherwise
_seen: dict[Path, tuple[_Mark, File]] = {}


def look(path: Path, table: str, names: Sequence[str] = ()) -> File | None:
    """A file of a table, a small one with the columns `names`, as its footer is then read once; None if it is damaged.

    Raises:
        VanishedError: it was replaced since it was listed.
        StoreError: it cannot be read, or is whole but of a schema version that is not read (a later one, or one before
            OLDEST), has a column of another type, or null ids.
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
    except (pa.ArrowException, OSError):  # a page that its checksum does not fit: the file changed since it was hashed
        return None


def _trusted(path: Path, small: bool) -> bool:
    """Whether a file is not read whole to compare its hash: a large object, whose bytes its store has verified."""
    return isinstance(path, Address) and not small


def content_of(reader: pq.ParquetFile, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Columns of a table's file, as they are in the table's schema; those that it lacks are null."""
    found = reader.read([name for name in names if name in reader.schema_arrow.names], use_threads=False)
    columns = [
        found[name] if name in found.column_names else pa.nulls(found.num_rows, schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, pa.schema([schema.field(name) for name in names]))


def forget() -> None:
    """Have every file looked at again, as after one that broke while it was read."""
    _seen.clear()
    list_anew()


def name_of(source: BufferedReader | BytesIO) -> str:
    """What a file of these bytes is called, less its ending."""
    return hashlib.file_digest(source, "sha256").hexdigest()[:_HEX_DIGITS]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the system's errors at a file or folder into those of the store.

    Raises:
        VanishedError: it was there and is not any more.
        StoreError: any other error; also a link that leads nowhere.
    """
    try:
        yield
    except OSError as error:
        for place in (path, path.parent) if error.errno == errno.ENOENT else ():
            if place.is_symlink() and not place.exists():
                raise StoreError(f"{place}: a link to what is not there ({os.readlink(place)})") from None
        if error.errno in (errno.ENOENT, errno.ESTALE) and not is_there(path):
            raise VanishedError(path) from None
        if error.errno == errno.ENOTDIR:
            raise StoreError(f"{path}: a file where a folder should be; move it away") from None
        raise StoreError(f"{path}: cannot be read ({error.strerror or error})") from None


def is_there(path: Path) -> bool:
    """Whether a folder has such an entry, be it a link that leads nowhere.

    Raises:
        StoreError: nobody can tell.
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
    """What changes with a file, but for a disk that forgets."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path}: no file, but something else of that name; move it away")
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _opened(path: Path, source: BufferedReader | BytesIO) -> pq.ParquetFile:
    """A whole file's reader, whose footer was read; raises StoreError where it is no Parquet file."""
    content = pa.BufferReader(source.getvalue()) if isinstance(source, BytesIO) else source
    try:
        return pq.ParquetFile(content, page_checksum_verification=True)
    except pa.ArrowInvalid as error:
        raise StoreError(f"{path}: no Parquet file ({error}); move it away") from None


def _understood(path: Path, table: str, footer: pq.FileMetaData, mark: _Mark) -> File:
    """What the footer of a whole file says.

    Raises:
        StoreError: these are no rows that this version can read.
    """
    metadata = footer.metadata or {}
    version = metadata.get(VERSION_KEY, b"none").decode()
    if not (version.isdecimal() and OLDEST <= int(version) <= int(SCHEMA_VERSION)):
        raise StoreError(
            f"{path}: schema_version={version!r} of table {table}, but this version writes {SCHEMA_VERSION!r} and "
            f"reads {OLDEST} to {SCHEMA_VERSION}; choose another name= or use the version that wrote it"
        )
    # A footer that was asked for its schema is kept until the garbage is collected: most need not be asked.
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
    """The footer of a file as `new_file` writes it."""
    empty = pa.BufferOutputStream()
    metadata = {VERSION_KEY: SCHEMA_VERSION.encode(), REPLACES_KEY: b""}
    with pq.ParquetWriter(empty, TABLES[table].with_metadata(metadata)):  # a table without rows would import pandas
        pass
    return pq.read_metadata(pa.BufferReader(empty.getvalue()))


def _expect_types(path: Path, table: str, found: pa.Schema) -> None:
    """Raise StoreError unless a file of other columns has the ids, and no column of another type."""
    for column in [*TABLES[table], *(LONG if table == "episodes" else ())]:
        if column.name in IDS[table] and column.name not in found.names:
            raise StoreError(f"{path}: column {column.name} of table {table} is missing; move it away")
        if column.name in found.names and found.field(column.name).type != column.type:
            own = found.field(column.name).type
            raise StoreError(f"{path}: column {column.name} of table {table} is {own}, not {column.type}; move it away")


Table = Literal[
    "episodes", "steps", "nodes", "improvements", "attempts", "messages", "sections", "cases", "comparisons",
    "scorings", "rescores", "metrics",
]  # fmt: skip
T = TypeVar("T")
ASIDE = ".aside"
_PATIENCE_SECONDS = 60.0  # at reading, while files are being replaced
_TOGETHER = 64  # files that a thread looks at in one go
_NAMED = 5  # damaged files in one message
_LOSS = {
    "attempts": "and what its tries have spent is not counted",
    "messages": "and what its cells asked is lost; their results are not",
    "comparisons": "and what it compared is compared again",
    "scorings": "and what was scored again is scored once more",
    "rescores": "and what was scored again is scored once more",
    "sections": "and prompts lack what stood in it; results are not touched",
    "cases": "and what its cases asked for is not shown; results are not touched",
    "metrics": "and what a plugin's metrics mean is told again by its next run",
}
"""What becomes of rows that no cell is run again for."""


@dataclass(frozen=True)
class Survey:
    """A table's files, each in the order of names: those that count, those that were merged into them, damaged ones."""

    files: Sequence[File]
    replaced: Sequence[File]
    damaged: Sequence[Path]
    needless: frozenset[str]
    """The names of files whose rows are in another, be they there or not."""

    @property
    def lost(self) -> list[Path]:
        """Damaged files whose rows are in no other."""
        return [path for path in self.damaged if path.name not in self.needless]


def survey(root: Path, table: str, names: Sequence[str] = ()) -> Survey:
    """Look at every file of a table, small ones with the columns `names`; one that nobody has written to has none.

    Raises:
        StoreError: a file or folder cannot be read, or a file has a schema version that is not.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            paths = _listed(root / table)
            found = _looked(paths, table, names)
            break
        except VanishedError as error:  # it was replaced by a larger one
            list_anew()
            if time.monotonic() > until:
                raise StoreError(f"{error}: vanished while it was read, and others before it") from None
    whole = [file for file in found if file is not None]
    needless = frozenset[str]().union(*(file.replaces for file in whole))
    return Survey(
        files=[file for file in whole if file.path.name not in needless],
        replaced=[file for file in whole if file.path.name in needless],
        damaged=[path for path, file in zip(paths, found, strict=True) if file is None],
        needless=needless,
    )


def _looked(paths: Sequence[Path], table: str, names: Sequence[str]) -> list[File | None]:
    """Each file by `look`; few ones without threads, since starting one takes longer than they do."""

    def look_at(part: Sequence[Path]) -> list[File | None]:
        return [look(path, table, names) for path in part]

    if len(paths) <= _TOGETHER:
        return look_at(paths)
    with ThreadPoolExecutor(THREADS) as pool:
        slices = [paths[start : start + _TOGETHER] for start in range(0, len(paths), _TOGETHER)]
        return [file for part in pool.map(look_at, slices) for file in part]


def check(root: Path, *, damage: bool = True) -> None:
    """Look at every file of a results folder.

    Raises:
        StoreError: one cannot be read, has a schema version that is not, or is damaged, if `damage` counts.
    """
    for table in TABLES:
        found = survey(root, table)
        if damage:
            _refuse(found.lost)


def check_there(root: Path) -> None:
    """Raise StoreError where a folder holds no results, or nobody can tell."""
    if not is_there(root / "episodes"):
        raise StoreError(f"{root}: no results here (no folder episodes)")
    _listed(root / "episodes")


def put_aside(root: Path) -> list[str]:
    """Move damaged files out of the tables, to `.aside`; returns a line for each. Hold the lock.

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
    """What becomes of the rows of a file that was put aside."""
    if path not in found.lost:
        return "and its rows are in a larger file"
    return _LOSS.get(table, "and its cells run again")


def lacks(root: Path, table: str) -> bool:
    """Whether files of a table were ever put aside."""
    folder = root / ASIDE / table
    return is_there(folder) and bool(_listed(folder))


def size(root: Path, tables: Iterable[Table]) -> int:
    """Bytes of the files of some tables.

    Raises:
        StoreError: a folder cannot be read.
    """
    total = 0
    for path in (path for table in tables for path in _listed(root / table)):
        with suppress(VanishedError), reading(path):
            total += path.stat().st_size
    return total


def whole(root: Path, table: str, names: Sequence[str] = ()) -> Sequence[File]:
    """The files of a table whose rows count, as `survey` finds them.

    Raises:
        StoreError: as `survey`; or a file is damaged.
    """
    found = survey(root, table, names)
    _refuse(found.lost)
    return found.files


def _refuse(lost: Sequence[Path]) -> None:
    """Raise StoreError where rows are lost: tables without them would look like any other."""
    if lost:
        further = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        raise StoreError(
            f"{', '.join(map(str, lost[:_NAMED]))}{further}: damaged, {DAMAGE}; start its sweep again, which puts it "
            "aside and runs its cells again, or move it away to go on without its rows"
        )


def _listed(folder: Path) -> list[Path]:
    """The files of a table, in the order of their names; none where there is no folder.

    A listing made while one file takes the place of others may be without all of them. The others were in the one
    before: listings are made until nothing has gone since the last.
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

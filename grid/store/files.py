"""The files of a results folder: never changed, replaced by larger ones, put aside where they are damaged.

A file that was merged from others names them, so that from the moment of its renaming they do not count, whether
they are still there or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa

from grid.core.errors import StoreError
from grid.store.looking import DAMAGE, THREADS, File, VanishedError, forget, is_there, look, reading
from grid.store.scanning import Scan
from grid.store.schema import TABLES

Table = Literal[
    "episodes", "steps", "nodes", "improvements", "attempts", "messages", "sections", "cases", "comparisons", "metrics",
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


def scan(root: Path, table: str, use: Callable[[Scan], T], names: Sequence[str] = ()) -> T:
    """What `use` makes of a table's rows, those of cells that were run again included.

    It is called again where a file was replaced while it was read. `names` are columns that it will ask for first.

    Raises:
        StoreError: a file is damaged, has a schema version that is not read, or cannot be read.
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
        pa.default_memory_pool().release_unused()  # it keeps what it has had, unasked


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
                os.replace(path, aside / path.name)
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
        with reading(folder), os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.name.endswith(".parquet"))
    except VanishedError:
        return []

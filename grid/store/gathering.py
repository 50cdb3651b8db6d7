"""Combining several results folders into one, for a report over all of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grid.core.errors import StoreError, one_line
from grid.core.places import Address, expect_folder
from grid.core.untrusted import loads
from grid.store.files import check, check_there, is_there, survey
from grid.store.runs import FILE, merged, runs
from grid.store.schema import TABLES

_MARK = ".gathered"
"""The file that lists the gathered files. A folder with a Parquet file that is not listed belongs to a sweep."""
_TRIES = 5  # attempts for a folder whose files are being replaced by larger ones


def gather(target: Path, roots: Sequence[Path]) -> None:
    """Make `target` a results folder with the rows of all `roots`: links to their files, or copies if links fail.

    `target` also gets the numbers of records that the data sets skipped. `target` is made anew each time, completely or
    not at all. A cell that is in several folders counts once, as it would within one folder.

    Raises:
        ConfigError: `target` is an address of an object store.
        StoreError: a folder has no results, has damaged files, or cannot be read or written to; or `target` is one of
            the roots, or has rows that were not gathered.
    """
    for root in roots:
        check_there(root)
        check(root)
        if target.resolve() == root.resolve():
            raise StoreError(f"{one_line(target, 200)}: this is one of the folders to gather; name another folder")
    expect_folder("--into", target)
    _check_target(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        for root in roots:
            _linked(draft, root)
        told = {"from": list(map(str, roots)), "files": _files(draft)}
        (draft / _MARK).write_text(json.dumps(told), encoding="utf-8")
        if skipped := merged(runs(root).get("skipped", {}) for root in roots):
            record = {"runs": [], "settings": {}, "skipped": skipped}
            (draft / FILE).write_text(json.dumps(record, indent=1), encoding="utf-8")
        if is_there(target):
            shutil.rmtree(target)
        os.replace(draft, target)
    except OSError as error:
        raise StoreError(f"{one_line(target, 200)}: cannot be written to ({error.strerror or error})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_target(target: Path) -> None:
    """Raise StoreError if the folder exists and was not gathered, or has rows that were not gathered."""
    if not is_there(target):
        return
    known: set[str] = set()
    with suppress(OSError, ValueError, TypeError, KeyError):
        known = set(loads((target / _MARK).read_text(encoding="utf-8"))["files"])
    if not known or not known.issuperset(_files(target)):
        raise StoreError(f"{one_line(target, 200)}: this folder has files that were not gathered; name a new folder")


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.parquet"))


def _linked(draft: Path, root: Path) -> None:
    """Link those files of a folder that count."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # a larger file replaced it
            _links(draft, root)
            return
    _links(draft, root)


def _links(draft: Path, root: Path) -> None:
    for table in TABLES:
        (draft / table).mkdir(parents=True, exist_ok=True)
        for file in survey(root, table).files:
            _link(file.path, draft / table / file.path.name)


def _link(source: Path, target: Path) -> None:
    """Make a hard link to a file, which is safe as files never change; or a copy if the file system has no links."""
    if target.exists():
        return  # its name is the hash of its bytes
    if isinstance(source, Address):
        target.write_bytes(source.read_bytes())
        return
    try:
        os.link(source.resolve(), target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)

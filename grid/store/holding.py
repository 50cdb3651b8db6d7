"""Holding a results folder: one writer at a time, whose death lets go."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from grid.core.errors import StoreError
from grid.core.untrusted import loads
from grid.store.writing import clear_drafts

_OWNER = ".owner"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold a results folder for one sweep; drafts of killed writers are removed.

    The operating system's lock dies with its process; a file beside it says who holds it, for people.

    Raises:
        StoreError: another sweep holds it, or it cannot be written to.
    """
    lock = FileLock(root / ".lock", timeout=0)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise StoreError(
            f"{root}: another sweep is writing to this name{_owner(root)}; wait for it or choose another name="
        ) from None
    except OSError as error:
        raise StoreError(f"{root}: cannot be written to ({error}); choose another store.root=") from None
    try:
        clear_drafts(root, _sign(root))
        yield
    finally:
        lock.release()


def _sign(root: Path) -> float:
    """Say who holds the folder; returns when, by the file system's clock."""
    since = dt.datetime.now(dt.UTC).isoformat("T", "seconds")
    try:
        (root / _OWNER).write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "since": since}))
        return (root / _OWNER).stat().st_mtime
    except OSError as error:
        raise StoreError(f"{root}: cannot be written to ({error}); make room or choose another store.root=") from None


def _owner(root: Path) -> str:
    try:
        owner = loads((root / _OWNER).read_text())
        return f" (process {owner['pid']} on {owner['host']}, since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""

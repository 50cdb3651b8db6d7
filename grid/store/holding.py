"""Locking a results folder: it has one writer at a time, and becomes free if the writer dies.

On a file system, the operating system's lock is used, which ends with the process. An object store has no locks, so an
object there has the writer's name. This object is only written if it has not changed since it was last read, and the
writer renews it every few seconds. Processes that share the writer's cache folder also use a file lock there, so they
need not wait until a dead writer's name is too old.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from grid.core.errors import StoreError
from grid.core.places import Address, beside, unwritable
from grid.core.untrusted import loads
from grid.store.writing import clear_drafts

_LOCK, _OWNER, _CACHE = ".lock", ".owner", ".cache"
_BEAT_SECONDS, _LEASE_SECONDS = 10.0, 60.0  # between two writes of a name; the age from which it is too old


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of a results folder for one sweep; drafts of killed writers are removed.

    A file or object in the folder names the holder, for people to read.

    Raises:
        StoreError: another sweep has locked the folder, or the folder cannot be written to.
    """
    here = beside(root)
    lock = FileLock(here / _LOCK, timeout=0)
    try:
        root.mkdir(parents=True, exist_ok=True)
        if here != root:
            here.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise _held(root, _owner(here)) from None
    except OSError as error:
        raise StoreError(f"{here}: cannot be written to ({error}); choose another store.root=FOLDER") from None
    try:
        with _Name(root, here) if isinstance(root, Address) else nullcontext():
            clear_drafts(root, _sign(here))
            yield
    finally:
        lock.release()


def _held(root: Path, owner: str) -> StoreError:
    return StoreError(
        f"{root}: another sweep is writing results with this name{owner}; wait until it ends, or "
        "choose another name=NAME"
    )


def _sign(root: Path) -> float:
    """Write who holds the folder; returns the time of writing, by the file system's clock."""
    try:
        (root / _OWNER).write_text(json.dumps(_myself()))
        return (root / _OWNER).stat().st_mtime
    except OSError as error:
        raise StoreError(unwritable(root, error)) from None


def _myself() -> dict[str, Any]:
    since = dt.datetime.now(dt.UTC).isoformat("T", "seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": since}


def _owner(root: Path) -> str:
    try:
        return _told(loads((root / _OWNER).read_text()))
    except (OSError, ValueError):
        return ""


def _told(owner: Mapping[str, Any]) -> str:
    try:
        return f" (process {owner['pid']} on {owner['host']}, since {owner['since']})"
    except (KeyError, TypeError):
        return ""


@dataclass(frozen=True)
class _Seen:
    """The lock object as it was read: who holds the folder (nobody if `cache` is empty), and the object's tag."""

    owner: Mapping[str, Any]
    tag: Mapping[str, Any]
    seconds: float
    """The seconds since the object was written, according to this machine's clock."""

    @property
    def cache(self) -> str:
        """The random name of the cache folder in which the writer also holds a lock; empty if there is no writer."""
        return str(self.owner.get("cache", ""))


class _Name:
    """The writer's name in an object store. While this context manager is open, the name is renewed every few seconds.

    Raises:
        StoreError: another writer holds the folder, or the folder cannot be written to.
    """

    def __init__(self, root: Address, here: Path) -> None:
        self._root, self._object = root, root / _LOCK
        self._cache = _cache_of(here)
        self._owner = {**_myself(), "cache": self._cache}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="lock")

    def __enter__(self) -> None:
        try:
            self._tag = self._taken()
        except OSError as error:
            raise StoreError(
                f"{self._root}: cannot be written to ({error.strerror}); choose another store.root=FOLDER"
            ) from None
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        with suppress(OSError):  # if our name was too old, another writer has the folder
            self._write({}, self._tag)

    def _taken(self) -> Mapping[str, Any]:
        """Write the name if no other writer holds the folder; returns the object's new tag."""
        seen = self._seen()
        if seen and seen.cache not in ("", self._cache):  # the writer's file lock is out of our reach
            if seen.seconds < _LEASE_SECONDS:
                raise _held(self._root, _told(seen.owner))
            time.sleep(2 * _BEAT_SECONDS)  # clocks may differ, so the name is only too old if nobody renews it
            if (now := self._seen()) is None or now.tag != seen.tag:
                raise _held(self._root, _told(seen.owner))
        try:
            return self._write(self._owner, seen.tag if seen else None)
        except FileExistsError:  # another writer was faster
            raise _held(self._root, _told(found.owner) if (found := self._seen()) else "") from None

    def _seen(self) -> _Seen | None:
        try:
            content, found = self._object.get()
        except FileNotFoundError:
            return None
        owner: Any = None
        with suppress(ValueError):
            owner = loads(content.decode())
        if not isinstance(owner, dict):  # unreadable, so it is unknown whether the folder is held
            owner = {"cache": content.hex()}
        passed = (dt.datetime.now(dt.UTC) - found["last_modified"]).total_seconds()
        return _Seen(owner, _tag(found), passed)

    def _write(self, owner: Mapping[str, Any], tag: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Write the object; raises FileExistsError if the object's tag is not `tag` (None: if the object exists)."""
        marked = {**owner, "mark": uuid.uuid4().hex}  # makes the content unique, because the tag is a hash of it
        try:
            return _tag(self._object.put(json.dumps(marked).encode(), mode=tag or "create"))
        except FileExistsError:  # perhaps written by this request, if its answer was lost and it was resent
            if (seen := self._seen()) and seen.owner == marked:
                return seen.tag
            raise

    def _renew(self) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            try:
                self._tag = self._write(self._owner, self._tag)
            except FileExistsError:  # another writer has the folder; its first action stops our workers
                return
            except OSError:
                continue


def _tag(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: found[name] for name in ("e_tag", "version") if found[name] is not None}


def _cache_of(here: Path) -> str:
    """The random name of this cache folder; on this machine, the name is stored only in a file in the folder."""
    path = here / _CACHE
    if not path.exists():
        path.write_text(uuid.uuid4().hex)
    return path.read_text()

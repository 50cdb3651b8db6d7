"""Where results are stored: a folder in a file system, or an address (`s3://bucket/results`, `gs://`, `az://`).

Readers and writers use a path in both cases. An `Address` carries out a path's operations through requests to an object
store. An object store has no folders. An object is always written as a whole, but only those parts of an object that
are read are copied. Files that must be on this machine (drafts, the lock's local part, the ledger of money) are in the
folder that `beside` returns.

The library used is obstore, which covers the three stores, reads credentials from the environment as the stores' own
tools do, retries failed requests, and supports conditional writes, which a lock needs. Arrow's own file systems do not
support conditional writes.
"""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import io
import math
import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

import platformdirs

from grid.core.errors import ConfigError, one_line

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)")
_ALLOWED = f"a folder of a file system, or {', '.join(f'{one}://' for one in SCHEMES)} with a bucket and a folder in it"
_INSTALL = "a folder of a file system; addresses of object stores need obstore: pip install 'agent-grid[objects]'"
_PATIENCE_SECONDS, _FIRST_SECONDS = 180, 15  # limits for retries: for most requests, for the first check
_REQUEST_SECONDS = 120
_STEADY_SECONDS = 5.0
_NEVER = ('"0"', "1")  # a tag and a version that no object has
_READ = ("AWS_", "GOOGLE_", "AZURE_")  # prefixes of the environment variables that the library reads
_LONGEST = 200  # characters of a store's message


def folder_at(given: str | Path) -> Path:
    """The path of a folder or an address; no request is sent yet.

    Raises ConfigError for an address with only one slash after the scheme.
    """
    if isinstance(given, str) and _ADDRESS.match(given):
        return Address(given)
    if isinstance(given, str) and _ONE_SLASH.match(given):
        raise ConfigError("store.root", given, f"two slashes after the scheme: {given.replace(':/', '://', 1)}")
    return Path(given) if isinstance(given, str) else given


def beside(root: Path) -> Path:
    """The folder for result files that must be on this machine: `root` or, for an address, a folder in the cache."""
    if not isinstance(root, Address):
        return root
    digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("agent-grid") / "objects" / f"{root.name}-{digest}"


def hand_over(draft: Path, target: Path) -> None:
    """Move a file to `target` (to an address it is copied); raises OSError if that fails.

    The file is in the folder that `beside` returns, or in the file system of `target`.
    """
    if isinstance(target, Address):
        target.put(draft)
    else:
        os.replace(draft, target)


def write_whole(path: Path, content: str, draft: Path) -> None:
    """Replace a file's content with a text, all or nothing; `draft` is a temporary name in the same file system.

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(path, Address):
        path.write_text(content)
        return
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.write_text(content, encoding="utf-8")
    os.replace(draft, path)


def unwritable(root: Path, error: OSError) -> str:
    """The error message that says that a results folder or address cannot be written to, with a possible remedy."""
    what = "give this machine the store's credentials" if isinstance(root, Address) else "make room"
    here = f" from {socket.gethostname()}" if isinstance(root, Address) else ""
    return f"{root}: cannot be written to{here} ({error}); {what}, or choose another store.root=FOLDER"


def readable(path: Path) -> Any:
    """A file in a form that Arrow can read: its path, or an open object."""
    return path.open("rb") if isinstance(path, Address) else path


def expect_folder(key: str, path: Path) -> None:
    """Raise ConfigError if a path is an address; `key` is the config key that contains this path."""
    if isinstance(path, Address):
        raise ConfigError(key, str(path), "a folder of a file system")


class Address(PosixPath):
    """The path of an object, or of all objects below it; operations raise OSError, as for files.

    Every request raises ConfigError if no request can work, because the scheme is unknown, there is no bucket, obstore
    is not installed, or the environment's settings for the store are invalid.
    """

    _told: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def expect_usable(self, key: str, given: str) -> None:
        """Raise ConfigError, naming the config key and its value, if the address cannot be read or written.

        Nothing is written, because the write request has a condition that does not hold. The answer to the request
        shows whether writing is allowed and whether the store obeys conditions; if not, the probe is removed again.
        """
        store = self._store(_FIRST_SECONDS, key, given)
        import obstore
        from obstore.exceptions import NotFoundError, PreconditionError

        probe = f"{self._key}/.probe"
        try:
            with _as_errors_of_files(self):
                next(iter(obstore.list(store, self._key, chunk_size=1)), None)
                try:
                    obstore.put(store, probe, b"", mode={"e_tag": _NEVER[0], "version": _NEVER[1]})
                except (PreconditionError, NotFoundError, FileNotFoundError):
                    return
                obstore.delete(store, probe)
        except OSError as error:
            allowed = f"a folder of a bucket that can be read and written to ({error.strerror})"
            raise ConfigError(key, given, allowed) from None
        raise ConfigError(
            key,
            given,
            "an object store with conditional writes, which are needed to keep two sweeps from writing at once",
        )

    @property
    def _key(self) -> str:
        return "/".join(self.parts[2:])

    def _store(self, seconds: int = _PATIENCE_SECONDS, key: str = "results", given: str = "") -> ObjectStore:
        scheme, bucket = self.parts[0].removesuffix(":"), self.parts[1:2]
        if scheme not in SCHEMES or not bucket:
            raise ConfigError(key, given or str(self), _ALLOWED)
        if find_spec("obstore") is None:
            raise ConfigError(key, given or str(self), _INSTALL)
        from obstore.exceptions import BaseError

        try:
            told = sorted(one for one in os.environ.items() if one[0].startswith(_READ))
            return _store_of(f"{scheme}://{bucket[0]}", seconds, hash(tuple(told)))
        except (ValueError, BaseError) as error:  # a missing account, an invalid key
            raise ConfigError(key, given or str(self), f"{_ALLOWED} ({_said(error)})") from None

    def _info(self) -> Mapping[str, Any]:
        """Size, time and tag of the object, from a listing if the address comes from one.

        Raises FileNotFoundError if there is no object.
        """
        if self._told is None:
            import obstore

            with _as_errors_of_files(self):
                return obstore.head(self._store(), self._key)
        return self._told

    def _below(self) -> Iterator[Address]:
        found = _listings.of(self)
        if found is None:
            found = _listings.keep(self, [*self._listed()])
        return iter(found)

    def _listed(self) -> Iterator[Address]:
        import obstore

        with _as_errors_of_files(self):
            for part in obstore.list(self._store(), self._key, chunk_size=1000):
                for told in part:
                    found = Address(f"{self.anchored}/{told['path']}")
                    found._told = told
                    yield found

    @property
    def anchored(self) -> str:
        """Scheme and bucket."""
        return "://".join([self.parts[0].removesuffix(":"), self.parts[1]])

    def put(self, content: bytes | Path, **mode: Any) -> Mapping[str, Any]:
        """Write the whole object, from bytes or a file's content; a `mode` of obstore makes the write conditional.

        Raises:
            FileExistsError: the condition does not hold.
            OSError: the object cannot be written.
        """
        import obstore

        with _as_errors_of_files(self):
            return obstore.put(self._store(), self._key, content, **mode)

    def get(self) -> tuple[bytes, Mapping[str, Any]]:
        """The object's content, with this content's time and tag; raises OSError if the object cannot be read."""
        import obstore

        with _as_errors_of_files(self):
            found = obstore.get(self._store(), self._key)
            return found.bytes().to_bytes(), found.meta

    def get_range(self, start: int, length: int) -> memoryview:
        """`length` bytes of the object, starting at `start`; raises OSError if they cannot be read."""
        import obstore

        with _as_errors_of_files(self):
            return memoryview(obstore.get_range(self._store(), self._key, start=start, length=length))

    # The operations of paths.

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """The object's size and times, and an inode number derived from its tag.

        A path that is not itself an object, but has objects below it, counts as a folder. Raises FileNotFoundError if
        there is neither.
        """
        try:
            told = self._info()
        except FileNotFoundError:
            if next(iter(_listings.of(self) or self._listed()), None) is None:
                raise
            return os.stat_result((stat.S_IFDIR | 0o700, *[0] * 9))
        seconds, tag = told["last_modified"].timestamp(), str(told["e_tag"] or told["version"])
        number = int.from_bytes(hashlib.sha256(tag.encode()).digest()[:8], "big")
        whole, exact = int(seconds), int(seconds * 1e9)
        return os.stat_result(
            (stat.S_IFREG | 0o600, number, 0, 1, 0, 0, told["size"], whole, whole, whole),
            {"st_atime_ns": exact, "st_mtime_ns": exact, "st_ctime_ns": exact},
        )

    def lstat(self) -> os.stat_result:
        """Like `stat`, but always with a new request, even if a listing contains the values."""
        return Address(self).stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object at this address, or any object below it."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object at this address."""
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is any object below this address."""
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    def is_symlink(self) -> bool:
        """Always False."""
        return False

    def resolve(self, strict: bool = False) -> Address:
        """The address itself."""
        return self

    def absolute(self) -> Address:
        """The address itself."""
        return self

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing, because an object needs no folder. Raises ConfigError if the address cannot have objects."""
        self._store()

    def rmdir(self) -> None:
        """Do nothing."""

    def iterdir(self) -> Iterator[Address]:  # type: ignore[override]
        """The objects directly below the address."""
        return (one for one in self._below() if len(one.parts) == len(self.parts) + 1)

    def glob(self, pattern: str, **keys: Any) -> Iterator[Address]:  # type: ignore[override]
        """Those objects directly below the address whose names match `pattern`."""
        return (one for one in self.iterdir() if fnmatchcase(one.name, pattern))

    def rglob(self, pattern: str, **keys: Any) -> Iterator[Address]:  # type: ignore[override]
        """Those objects at any depth below the address whose names match `pattern`."""
        return (one for one in self._below() if fnmatchcase(one.name, pattern))

    def open(self, mode: str = "r", *args: Any, **keys: Any) -> Any:
        """Open the object for reading bytes; each read is a separate request. Any mode but `rb` raises OSError."""
        if mode != "rb":
            raise OSError(errno.EROFS, "objects are written whole", str(self))
        return _Object(self)

    def read_bytes(self) -> bytes:
        """The whole content of the object."""
        return self.get()[0]

    def read_text(self, encoding: str | None = None, errors: str | None = None, *args: Any) -> str:
        """The whole content, read as UTF-8."""
        return self.read_bytes().decode()

    def write_bytes(self, data: Any) -> int:
        """Replace the content."""
        self.put(bytes(data))
        return len(data)

    def write_text(self, data: str, *args: Any, **keys: Any) -> int:
        """Replace the content with a text, in UTF-8."""
        return self.write_bytes(data.encode())

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object.

        If there is no object, some stores raise FileNotFoundError (not if `missing_ok`), and others raise no error.
        """
        import obstore

        with suppress(*[FileNotFoundError] * missing_ok), _as_errors_of_files(self):
            obstore.delete(self._store(), self._key)

    def replace(self, target: str | os.PathLike[str]) -> Address:
        """Rename the object within the same bucket; for a moment, it has both names."""
        import obstore

        found = Address(target)
        with _as_errors_of_files(self):
            obstore.rename(self._store(), self._key, found._key)
        return found


class _Listings:
    """Listings from the last few seconds, for commands that only read and often list the same objects (`steady`)."""

    def __init__(self) -> None:
        self.steady = False
        self._found = dict[str, tuple[float, list[Address]]]()
        self._objects = dict[str, Address]()

    def of(self, address: Address) -> list[Address] | None:
        """The objects below an address; None if a new listing is needed."""
        when, found = self._found.get(str(address), (-math.inf, None))
        return found if self.steady and time.monotonic() - when < _STEADY_SECONDS else None

    def keep(self, address: Address, found: list[Address]) -> list[Address]:
        if self.steady:
            self._found[str(address)] = time.monotonic(), found
            self._objects.update((str(one), one) for one in found)
        return found

    def object(self, address: str) -> Address:
        """The address, with metadata from a listing if there is one; reading raises an error if the object is gone."""
        return self._objects.get(address) or Address(address)

    def forget(self) -> None:
        self._found.clear()
        self._objects.clear()


_listings = _Listings()


@contextmanager
def steady() -> Iterator[None]:
    """Inside the context, reuse listings for a few seconds; this is for commands that only read."""
    _listings.steady = True
    try:
        yield
    finally:
        _listings.steady = False
        _listings.forget()


def list_anew() -> None:
    """Forget all listings, for example after an object was found to be gone."""
    _listings.forget()


class _Object(io.RawIOBase):
    """An object that is open for reading; each read is one request."""

    def __init__(self, address: Address) -> None:
        self._address, self._at, self.size = address, 0, int(address._info()["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer)
        count = max(min(len(into), self.size - self._at), 0)
        if count:
            into[:count] = self._address.get_range(self._at, count)
        self._at += count
        return count


@lru_cache(maxsize=16)
def _store_of(address: str, seconds: int, environment: int) -> ObjectStore:
    """The store for a bucket's address, set up by environment variables; an endpoint in them may use plain HTTP."""
    from obstore.store import from_url

    return from_url(
        address,
        client_options={"timeout": timedelta(seconds=_REQUEST_SECONDS), "allow_http": True},
        retry_config={"retry_timeout": timedelta(seconds=seconds), "max_retries": seconds},
    )


@contextmanager
def _as_errors_of_files(address: Address) -> Iterator[None]:
    """Turn obstore's exceptions into the exceptions raised for files."""
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        NotFoundError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )

    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise FileNotFoundError(errno.ENOENT, _said(error), str(address)) from None
    except (AlreadyExistsError, PreconditionError, FileExistsError) as error:
        raise FileExistsError(errno.EEXIST, _said(error), str(address)) from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise PermissionError(errno.EACCES, _said(error), str(address)) from None
    except BaseError as error:
        raise OSError(errno.EIO, _said(error), str(address)) from None


def _said(error: Exception) -> str:
    """A store's message, shortened and without the query part of addresses, which may contain a signature."""
    text = str(error).partition("\n\nDebug source")[0]
    status = re.search(r"status code: (\d{3}[\w ]*)", text)
    told = re.search(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL)
    if told:
        return one_line(f"{told[1]}: {told[2]}", _LONGEST)
    if status:
        return one_line(status[1].strip(), _LONGEST)
    asked = re.search(r"performing (\w+ [^\s?]+)\S* in .*? - (.*)", text, re.DOTALL)
    return one_line(f"{asked[1]}: {asked[2]}" if asked else re.sub(r"\?\S*", "", text), _LONGEST)


@lru_cache(maxsize=1)
def file_system() -> Any:
    """Addresses as an fsspec file system, through which DuckDB and Arrow read parts of objects."""
    from fsspec import AbstractFileSystem

    class Objects(AbstractFileSystem):  # type: ignore[misc]
        protocol = SCHEMES
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(path)

        def _open(self, path: str, *args: Any, **keys: Any) -> Any:
            return _listings.object(path).open("rb")

        def info(self, path: str, **keys: Any) -> dict[str, Any]:
            return _entry(_listings.object(path))

        def modified(self, path: str) -> dt.datetime:
            return dt.datetime.fromtimestamp(_listings.object(path).stat().st_mtime, dt.UTC)

        def ls(self, path: str, detail: bool = True, **keys: Any) -> list[Any]:
            found = [_entry(one) for one in Address(path).iterdir()]
            return found if detail else [one["name"] for one in found]

    return Objects()


def _entry(address: Address) -> dict[str, Any]:
    found = address.stat()
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
    return {"name": str(address), "size": found.st_size, "type": kind}

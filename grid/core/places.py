"""Where results lie: a folder of a file system, or what an address names: `s3://bucket/results`, `gs://`, `az://`.

Readers and writers have a path in their hands, whatever it is. An `Address` answers what is asked of a path by requests
to an object store: there are no folders, an object is written whole, and one that is read is not copied, but for what
is asked of it. What must be a file of this machine (drafts, the lock's own part, the ledger of money) lies in `beside`.

The library is obstore: it has the three stores in one, their credentials as their own tools take them from the
environment, tries again what failed, and writes on a condition, which a lock is made of. Arrow's own file systems
cannot do the last.
"""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import io
import math
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
_ALLOWED = f"a folder of a file system, or {', '.join(f'{one}://' for one in SCHEMES)} with a bucket and a folder there"
_INSTALL = "a folder of a file system; addresses of object stores need obstore: pip install 'agent-grid[objects]'"
_PATIENCE_SECONDS, _FIRST_SECONDS = 180, 15  # in which a request is tried again; those that tell whether it works
_REQUEST_SECONDS = 120
_STEADY_SECONDS = 5.0
_NEVER = ('"0"', "1")  # tag and version of no object
_READ = ("AWS_", "GOOGLE_", "AZURE_")  # how what the library takes from the environment begins
_LONGEST = 200  # characters of what a store says


def folder_at(given: str | Path) -> Path:
    """The path of a folder, or of an address; nothing is asked of it yet."""
    if isinstance(given, str) and _ADDRESS.match(given):
        return Address(given)
    return Path(given) if isinstance(given, str) else given


def beside(root: Path) -> Path:
    """Where of results lies what must be files of this machine: the folder itself, or one of the cache."""
    if not isinstance(root, Address):
        return root
    digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("agent-grid") / "objects" / f"{root.name}-{digest}"


def hand_over(draft: Path, target: Path) -> None:
    """Give a file of this machine, in `beside` or on the file system of `target`, its name; raises OSError."""
    if isinstance(target, Address):
        target.put(draft)
    else:
        os.replace(draft, target)


def write_whole(path: Path, content: str, draft: Path) -> None:
    """Replace a file by a text, whole or not at all; `draft` is another name on its file system.

    Raises:
        OSError: it cannot be written.
    """
    if isinstance(path, Address):
        path.write_text(content)
        return
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.write_text(content, encoding="utf-8")
    os.replace(draft, path)


def readable(path: Path) -> Any:
    """What Arrow reads a file by: its path, or an open object."""
    return path.open("rb") if isinstance(path, Address) else path


def expect_folder(key: str, path: Path) -> None:
    """Raise ConfigError, for the key that it is the value of, where a path is an address."""
    if isinstance(path, Address):
        raise ConfigError(key, str(path), "a folder of a file system")


class Address(PosixPath):
    """The path of an object or of what begins with its name; errors are those of files (OSError).

    ConfigError is raised by whatever is asked where nothing can be: of another scheme, or without obstore.
    """

    _told: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def expect_usable(self, key: str, given: str) -> None:
        """Raise ConfigError, for the key and its value that it was made of, if nothing can be read or written there.

        Nothing is written: it is asked for on a condition that does not hold, which tells who may, and whether
        conditions count.
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
        raise ConfigError(key, given, "a store that writes on a condition, which keeps two writers apart")

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
        except (ValueError, BaseError) as error:  # an account that is not told, a key that is none
            raise ConfigError(key, given or str(self), f"{_ALLOWED} ({_said(error)})") from None

    def _info(self) -> Mapping[str, Any]:
        """Size, time and tag of the object, as a listing told them, if it did; raises FileNotFoundError."""
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
        """Write the object whole: bytes, or a file's; a `mode` of obstore's has it written on a condition.

        Raises:
            FileExistsError: the condition does not hold.
            OSError: it cannot be written.
        """
        import obstore

        with _as_errors_of_files(self):
            return obstore.put(self._store(), self._key, content, **mode)

    def get(self) -> tuple[bytes, Mapping[str, Any]]:
        """The object, and its time and tag of the same moment; raises OSError."""
        import obstore

        with _as_errors_of_files(self):
            found = obstore.get(self._store(), self._key)
            return found.bytes().to_bytes(), found.meta

    def get_range(self, start: int, length: int) -> memoryview:
        """Some bytes of the object; raises OSError."""
        import obstore

        with _as_errors_of_files(self):
            return memoryview(obstore.get_range(self._store(), self._key, start=start, length=length))

    # What is asked of paths.

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size, times, and its tag as its number; what others begin with is a folder."""
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
        """As `stat`, and asked for now, whatever a listing told."""
        return Address(self).stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such an object, or one below it."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such an object."""
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object below it."""
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def resolve(self, strict: bool = False) -> Address:
        """Itself."""
        return self

    def absolute(self) -> Address:
        """Itself."""
        return self

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: an object needs no folder. Raises ConfigError where there can be none."""
        self._store()

    def rmdir(self) -> None:
        """Nothing."""

    def iterdir(self) -> Iterator[Address]:  # type: ignore[override]
        """The objects of which it is the parent."""
        return (one for one in self._below() if len(one.parts) == len(self.parts) + 1)

    def glob(self, pattern: str, **keys: Any) -> Iterator[Address]:  # type: ignore[override]
        """Those of them that are named so."""
        return (one for one in self.iterdir() if fnmatchcase(one.name, pattern))

    def rglob(self, pattern: str, **keys: Any) -> Iterator[Address]:  # type: ignore[override]
        """The objects below it that are named so."""
        return (one for one in self._below() if fnmatchcase(one.name, pattern))

    def open(self, mode: str = "r", *args: Any, **keys: Any) -> Any:
        """To be read in bytes, a request for each part that is."""
        if mode != "rb":
            raise OSError(errno.EROFS, "objects are written whole", str(self))
        return _Object(self)

    def read_bytes(self) -> bytes:
        """All of it."""
        return self.get()[0]

    def read_text(self, encoding: str | None = None, errors: str | None = None, *args: Any) -> str:
        """All of it, as UTF-8."""
        return self.read_bytes().decode()

    def write_bytes(self, data: Any) -> int:
        """Replace it."""
        self.put(bytes(data))
        return len(data)

    def write_text(self, data: str, *args: Any, **keys: Any) -> int:
        """Replace it, as UTF-8."""
        return self.write_bytes(data.encode())

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove it, be it there or not."""
        import obstore

        with _as_errors_of_files(self):
            obstore.delete(self._store(), self._key)

    def replace(self, target: str | os.PathLike[str]) -> Address:
        """Have another name in the same bucket for it: there is a moment in which it has both."""
        import obstore

        found = Address(target)
        with _as_errors_of_files(self):
            obstore.rename(self._store(), self._key, found._key)
        return found


class _Listings:
    """What was listed a moment ago, for commands that only read and ask for the same again and again (`steady`)."""

    def __init__(self) -> None:
        self.steady = False
        self._found = dict[str, tuple[float, list[Address]]]()
        self._objects = dict[str, Address]()

    def of(self, address: Address) -> list[Address] | None:
        """What lies below; None where it is to be listed now."""
        when, found = self._found.get(str(address), (-math.inf, None))
        return found if self.steady and time.monotonic() - when < _STEADY_SECONDS else None

    def keep(self, address: Address, found: list[Address]) -> list[Address]:
        if self.steady:
            self._found[str(address)] = time.monotonic(), found
            self._objects.update((str(one), one) for one in found)
        return found

    def object(self, address: str) -> Address:
        """One with what its listing told of it, if that is known: it is read, and what is gone then is told of."""
        return self._objects.get(address) or Address(address)

    def forget(self) -> None:
        self._found.clear()
        self._objects.clear()


_listings = _Listings()


@contextmanager
def steady() -> Iterator[None]:
    """Inside, what was listed counts for some seconds: for commands that only read."""
    _listings.steady = True
    try:
        yield
    finally:
        _listings.steady = False
        _listings.forget()


def list_anew() -> None:
    """Have all be listed again, as after an object was gone."""
    _listings.forget()


class _Object(io.RawIOBase):
    """An object that is read; what is read in one go is asked for in one."""

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
    """A bucket by its address, as the environment is now; an endpoint that is named there may speak plain HTTP."""
    from obstore.store import from_url

    return from_url(
        address,
        client_options={"timeout": timedelta(seconds=_REQUEST_SECONDS), "allow_http": True},
        retry_config={"retry_timeout": timedelta(seconds=seconds), "max_retries": seconds},
    )


@contextmanager
def _as_errors_of_files(address: Address) -> Iterator[None]:
    """What obstore raises, as a file would."""
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
    """What a store said, without what an address asks (it may hold a signature), in a few words."""
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
    """Addresses as fsspec has file systems: DuckDB and Arrow read parts of objects by it."""
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

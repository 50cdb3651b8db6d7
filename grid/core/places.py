"""Where results lie: a folder of a file system, or what an address such as `s3://bucket/results` names."""

from __future__ import annotations

import re
from pathlib import Path, PosixPath
from typing import Any, NoReturn

from grid.core.errors import ConfigError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ALLOWED = "a folder of a file system; addresses of object stores are not supported, nor any other"


def folder_at(given: str | Path) -> Path:
    """The path of a folder, or of an address; the latter is refused as soon as anything is asked of it."""
    if isinstance(given, str) and _ADDRESS.match(given):
        return Address(given)
    return Path(given) if isinstance(given, str) else given


class Address(PosixPath):
    """The path of an address: it has names and parents as any other, and both slashes behind its scheme."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def expect_supported(self, key: str) -> None:
        """Raise ConfigError, for the key that it is the value of, where nothing can be read or written there."""
        raise ConfigError(key, str(self), _ALLOWED)

    def _refuse(self, *args: Any, **keys: Any) -> NoReturn:
        self.expect_supported("results")
        raise NotImplementedError

    stat = lstat = open = mkdir = resolve = iterdir = exists = read_bytes = read_text = write_text = _refuse
    unlink = rename = glob = rglob = is_dir = is_file = _refuse

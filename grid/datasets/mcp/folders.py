"""The folder that a server's process gets a copy of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from grid.core.errors import ConfigError

_FILES, _BYTES = 5_000, 64 * 2**20


def contents(folder: str | None) -> list[list[str]]:
    """(path, digest) of each file in a folder, in order; nothing without one.

    Raises:
        ConfigError: no folder that can be read, too large a one, or one with a link that leads out of it.
    """
    if folder is None:
        return []
    found, total, root = list[list[str]](), 0, Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise ConfigError("dataset.folder", folder, "a folder")
        for path in sorted(root.rglob("*")):
            if path.is_symlink():
                raise ConfigError("dataset.folder", folder, f"a folder without links, and {path.name} is one")
            if path.is_dir():
                continue
            if not path.is_file():
                raise ConfigError("dataset.folder", folder, f"a folder of plain files, which {path.name} is not")
            total += path.stat().st_size
            if total > _BYTES or len(found) >= _FILES:
                allowed = f"a folder of at most {_FILES:,} files and {_BYTES // 2**20} MiB"
                raise ConfigError("dataset.folder", folder, allowed)
            found.append([str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()])
    except OSError as error:
        raise ConfigError("dataset.folder", folder, f"a folder that can be read ({error.strerror})") from None
    return found

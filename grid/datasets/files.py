"""Reading dataset files that nobody vouches for: with limits, and with file and line in every error."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from grid.core.errors import ConfigError, DataError
from grid.core.untrusted import loads_storable
from grid.text.plain_yaml import LOADER

MAX_LINE_BYTES = 4_000_000
MAX_FILE_BYTES = 1_000_000_000


def folder(key: str, path: str | None, *needed: str) -> Path:
    """The dataset's folder; raises ConfigError, naming the key, where it or one of its files is missing or empty."""
    names = ", ".join(needed)
    holding = f"; it must hold {names}" if needed else ""
    if path is None:
        raise ConfigError(key, None, f"give the folder that holds {names}" if needed else "give a folder")
    root = Path(path).expanduser()
    try:
        found = root.is_dir()
    except OSError as error:  # a name that is too long, say
        raise ConfigError(key, f"{path:.80}", f"a folder that can be read ({error.strerror})") from None
    if not found:
        raise ConfigError(key, path, f"no such folder{holding}")
    for name in needed:
        if not (root / name).is_file():
            raise ConfigError(key, path, f"the folder lacks {name}{holding}")
        if (root / name).stat().st_size == 0:
            raise ConfigError(key, path, f"{name} is empty")
    return root


def read_jsonl(path: Path, own: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of every line that is not blank; raises DataError for anything else.

    `own`: the user wrote it, so that a key which stands twice is a mistake; released files are read as their authors'
    code reads them, where the last one counts.
    """
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                raise DataError(path, number, f"a line of more than {MAX_LINE_BYTES:,} bytes")
            if not line.strip():
                continue
            try:
                record = loads_storable(line, once=own)
            except (ValueError, RecursionError) as error:
                raise DataError(path, number, f"broken JSON: {error}") from None
            if not isinstance(record, dict):
                raise DataError(path, number, f"a JSON object is expected, not {type(record).__name__}")
            yield number, record


def read_json(path: Path, most: int = MAX_FILE_BYTES, own: bool = False) -> Any:
    """A whole file of `most` bytes at most as one JSON value; raises DataError where it is larger or cannot be read.

    `own` as for `read_jsonl`.
    """
    try:
        if path.stat().st_size > most:
            raise DataError(path, None, f"a file of more than {most:,} bytes")
        return loads_storable(path.read_bytes(), once=own)
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"broken JSON: {error}") from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None


def read_stock(path: Path) -> Any:
    """A YAML file that the project ships, read as plain values."""
    return yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - it loads plain values only


def fingerprint(*paths: Path) -> str:
    """Twelve hexadecimal digits of the files' contents, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]

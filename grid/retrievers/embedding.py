"""Sentence embeddings: a library's are made once and kept on disk by content, a query's when it is asked."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from filelock import FileLock

from grid.retrievers.scored import LONGEST
from grid.retrievers.sources import check_modules, fingerprint
from grid.text.untrusted import loads

_BATCH = 64  # texts
_HEADER = 1_000  # bytes at most
_TYPE = np.dtype("<f4")


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

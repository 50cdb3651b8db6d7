"""Generated datasets: made once, under a lock, in the user's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs
from filelock import FileLock


def made_once(dataset: str, key: str, files: Sequence[str], generate: Callable[[Path], None]) -> Path:
    """The folder of `key` in the dataset's cache, with its `files`.

    `generate` fills an empty folder the first time, and where what is there is incomplete.
    """
    cache = platformdirs.user_cache_path("agent-grid") / dataset
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / key
    with FileLock(cache / f"{key}.lock"):
        if not all((target / name).is_file() for name in files):
            shutil.rmtree(target, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(dir=cache, prefix=".draft-"))
            try:
                generate(draft)
                os.replace(draft, target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return target

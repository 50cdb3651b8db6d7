"""Which code a figure was measured with."""

from __future__ import annotations

import subprocess
from pathlib import Path

# They hold figures: writing one would make the code of the next one look changed.
_NO_CODE = (":!README.md", ":!BENCHMARKS.md")


def commit_of(folder: Path) -> str | None:
    """A checkout's short commit, `-dirty` behind it where files without figures differ; None outside a checkout."""
    try:
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        return f"{commit}-dirty" if _git(folder, "status", "--porcelain", "--", ".", *_NO_CODE) else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return found.stdout.strip()

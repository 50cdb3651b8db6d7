"""Which code a figure was measured with."""

from __future__ import annotations

import subprocess
from pathlib import Path

_NO_CODE = ":!README.md"  # it holds the figures, so that writing one would make the next one's code look changed


def commit_of(folder: Path) -> str | None:
    """The short commit of a checkout, `-dirty` behind it where files other than README.md differ; None outside one."""
    try:
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        return f"{commit}-dirty" if _git(folder, "status", "--porcelain", "--", ".", _NO_CODE) else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return found.stdout.strip()

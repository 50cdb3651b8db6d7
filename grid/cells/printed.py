"""What a planner prints or logs while it runs in a worker: a file a setting, `printed/` in the results folder.

Where results are objects, it is the cache of the worker's machine (`places.beside`).
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO, cast

from grid.core.places import beside
from grid.settings.setting import Setting

FOLDER = "printed"
_MOST_BYTES = 64 * 2**20
"""Of a file; what comes then is not kept."""


class _Lines(io.TextIOBase):
    """Appends to a file, which is there once there is anything; what a disk does not take is not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                if file.tell() < _MOST_BYTES:
                    file.write(text)
        return len(text)


@contextmanager
def printed(root: Path, setting: Setting) -> Iterator[None]:
    """Inside, what is printed or logged goes to the setting's file."""
    name = re.sub(r"[^\w.-]+", "_", setting.labels["planner"])[:60]
    lines = cast(TextIO, _Lines(beside(root) / FOLDER / f"{name}-{setting.id[:6]}.log"))
    with redirect_stdout(lines), redirect_stderr(lines), logged(lines):
        yield


@contextmanager
def logged(to: TextIO) -> Iterator[None]:
    """Inside, what is logged is written to a stream: warnings, as Python has it, and what loggers of one's own let by.

    What packages tell their own authors (`DEBUG`) is left out.
    """
    handler, root = logging.StreamHandler(to), logging.getLogger()
    level = root.level  # Hydra's is higher
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def sizes(root: Path) -> dict[Path, int]:
    """The files of a results folder, with their bytes."""
    return {path: path.stat().st_size for path in sorted((beside(root) / FOLDER).glob("*.log"))}


def told(root: Path, before: dict[Path, int]) -> str:
    """A line of the files that have grown since; empty where none has."""
    grown = [path for path, size in sizes(root).items() if size > before.get(path, 0)]
    more = f" and {len(grown) - 1:,} more" if len(grown) > 1 else ""
    return f"printed or logged by planners: {grown[0]}{more}" if grown else ""

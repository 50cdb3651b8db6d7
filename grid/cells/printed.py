"""The output and logs of planners in workers: one file per setting, in the folder `printed/` of the results.

If the results are in an object store, the folder is in the cache of the worker's machine (`places.beside`).
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
"""The size of a file, in bytes, from which on output is not kept."""


class _Lines(io.TextIOBase):
    """Appends to a file, which is created when the first text arrives; text that cannot be written is lost."""

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
    """Inside the context, send printed and logged text to the setting's file."""
    name = re.sub(r"[^\w.-]+", "_", setting.labels["planner"])[:60]
    lines = cast(TextIO, _Lines(beside(root) / FOLDER / f"{name}-{setting.id[:6]}.log"))
    with redirect_stdout(lines), redirect_stderr(lines), logged(lines):
        yield


@contextmanager
def logged(to: TextIO) -> Iterator[None]:
    """Inside the context, write log messages to a stream: by default warnings, as in Python.

    Less severe messages are written too if their logger's level allows them, except messages at level `DEBUG`, which
    are meant for a package's authors.
    """
    handler, root = logging.StreamHandler(to), logging.getLogger()
    level = root.level  # Hydra sets a higher level
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
    """The files with planners' output in a results folder, each with its size in bytes."""
    return {path: path.stat().st_size for path in sorted((beside(root) / FOLDER).glob("*.log"))}


def told(root: Path, before: dict[Path, int]) -> str:
    """A line about the files that have grown since `before`; empty if no file has grown."""
    grown = [path for path, size in sizes(root).items() if size > before.get(path, 0)]
    more = f" and {len(grown) - 1:,} more" if len(grown) > 1 else ""
    return f"texts that planners printed or logged: {grown[0]}{more}" if grown else ""

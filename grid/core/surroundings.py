"""The environment of our commands: the output may not support all characters, and the cache may not be writable.

This module stands apart from `util` because commands use it before they start, while the classes of cells use `util`.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import platformdirs

_CACHE = "XDG_CACHE_HOME"
_LONGEST = 17  # characters of the folder for temporary files: a socket's path has at most 107, of which Ray needs 70
_PLAIN = {"●": "o", "├": "|", "┤": "|", "│": "|", "─": "-", "━": "-", "—": "-", "–": "-", "−": "-", "…": "~", "×": "x"}
_PLAIN |= {"≥": ">", "≤": "<", "±": "~", "·": ".", "•": "*", "†": "+", "‡": "#", "→": ">", "’": "'", "‘": "'", "²": "2"}
"""Replacements of the same width for characters that an output cannot show; such a character becomes a question mark if
it has no replacement."""


@contextmanager
def usable() -> Iterator[None]:
    """Inside the context, printing works in any output encoding, and the cache is in a writable place.

    If the cache is not writable, this process and its child processes use a different folder, which only this user can
    enter, and a line on the standard error says so. At the end of the context, the output and the environment are
    restored.
    """
    outputs = [one for one in (sys.stdout, sys.stderr) if isinstance(one, TextIOWrapper) and not _any_letter(one)]
    before = [one.errors for one in outputs]
    codecs.register_error(__name__, _plain)
    for one in outputs:
        one.reconfigure(errors=__name__)
    cache, named = platformdirs.user_cache_path("agent-grid"), os.environ.get(_CACHE)
    if not _writable(cache):
        other = own_folder() / "cache"
        print(f"{cache} cannot be written to, so {other} is used instead", file=sys.stderr)
        os.environ[_CACHE] = str(other)
    try:
        yield
    finally:
        for one, errors in zip(outputs, before, strict=True):
            one.reconfigure(errors=errors)
        os.environ.pop(_CACHE, None)
        if named is not None:
            os.environ[_CACHE] = named


def own_folder() -> Path:
    """The folder for temporary files, which only this user can enter; it is created if it does not exist.

    Its path is short, and the same at every call unless somebody else has taken the folder's name.
    """
    above = Path(tempfile.gettempdir())
    if len(str(above)) > _LONGEST:
        above = Path("/tmp")  # noqa: S108 - what follows is the user's own
    folder = above / f"agent-grid-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(dir=above, prefix="agent-grid-"))  # someone else has taken the name
    folder.chmod(0o700)
    return folder


def _any_letter(output: TextIOWrapper) -> bool:
    return codecs.lookup(output.encoding).name.startswith("utf-")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _writable(cache: Path) -> bool:
    """Whether a folder exists or can be created, and files can be written in it and in its subfolders."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return all(os.access(one, os.W_OK | os.X_OK) for one in (cache, *cache.iterdir()) if one.is_dir())
    except OSError:
        return False

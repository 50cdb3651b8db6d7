"""Whose failure an exception is, and where it came from."""

from __future__ import annotations

import traceback

from grid.core.errors import ContextError, ErrorKind, GridError, ModelError, ToolError
from grid.episode.episode import Episode
from grid.settings.build import Built

UNRESOLVED = {ErrorKind.MODEL, ErrorKind.CONTEXT, ErrorKind.TIMEOUT}
"""Failures of the agent: the case counts as not resolved. After the others nothing is known."""
_KINDS: tuple[tuple[type[Exception], ErrorKind], ...] = (
    (ModelError, ErrorKind.MODEL),
    (ContextError, ErrorKind.CONTEXT),
    (ToolError, ErrorKind.TOOL),
)


def error_kind(error: Exception) -> ErrorKind:
    """Whose failure an exception is; one that nobody foresaw is the code's.

    The operating system's and the cluster's are the infrastructure's.
    """
    foreseen = isinstance(error, GridError | OSError | MemoryError) or type(error).__module__.startswith("ray.")
    otherwise = ErrorKind.INFRASTRUCTURE if foreseen else ErrorKind.CODE
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), otherwise)


def place_of(error: Exception, built: Built) -> str:
    """File and line where an exception left the code of the grid or of a class of the setting."""
    classes = (Episode, *map(type, (built.planner, built.dataset, *built.engines.values(), *built.robustness)))
    packages = {cls.__module__.partition(".")[0] for cls in classes}
    walked = [(frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [place for place in walked if place[0].partition(".")[0] in packages][-1]
    return f"{module.replace('.', '/')}.py:{line}"

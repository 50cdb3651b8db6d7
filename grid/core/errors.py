"""Errors for people to read: each names the place, the value and the allowed values."""

from __future__ import annotations

import difflib
import reprlib
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from grid.core.untrusted import shown as escaped

_LINE = 2_000  # characters
_VALUE = 120


class _Cut(reprlib.Repr):
    """`repr` for people: long texts, lists and numbers are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _VALUE

    def repr_int(self, x: int, level: int) -> str:
        """`repr` of an integer; an integer too long for Python to write is described by its number of bits."""
        return repr(x) if x.bit_length() <= 4 * _VALUE else f"an integer of {x.bit_length():,} bits"


_CUT = _Cut()


def one_line(text: object, limit: int = _LINE) -> str:
    """A text on one line of at most `limit` characters; characters that would not show are written as escapes."""
    flat = " ".join(str(text).split())
    shown = escaped(flat[: limit + 1])  # escapes only lengthen a text
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def nearest(name: str, names: Sequence[str]) -> str:
    """A phrase that suggests the name probably meant; empty if none of `names` is like `name` or starts with it."""
    close = difflib.get_close_matches(name, names, n=1) or [one for one in names if name and one.startswith(name)]
    return f" (did you mean {close[0]}?)" if close else ""


def shown_value(value: object) -> str:
    """`repr` on one line, cut if it is long."""
    return one_line(_CUT.repr(value))


def said(error: Exception) -> int:
    """Write to standard error, on one line, why a command cannot run; return the command's exit status, 2."""
    text = (
        f"{error.name} is not installed; install the extra `dev`" if isinstance(error, ImportError) else one_line(error)
    )
    print(f"error: {text}", file=sys.stderr)
    return 2


class GridError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(GridError):
    """A configuration that cannot run: the dotted key, its value, and the allowed values."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        super().__init__(f"{one_line(key, _VALUE)}={shown_value(value)}: {one_line(allowed)}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        """Support pickling, so that the error can be passed between processes."""
        return type(self), (self.key, self.value, self.allowed)


class DataError(GridError):
    """A dataset file that cannot be read: the file, the line (1-based, None for the whole file) and the problem."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        self.path, self.line = path, line
        self.message = message
        super().__init__(f"{path}:{line}: {message}" if line else f"{path}: {message}")

    def __reduce__(self) -> tuple[type[DataError], tuple[Path, int | None, str]]:
        """Support pickling, so that the error can be passed between processes."""
        return type(self), (self.path, self.line, self.message)


class StoreError(GridError):
    """A folder of results that cannot be used, for example because it cannot be read, written to or understood."""


class UnfinishedError(GridError):
    """A run that cannot continue; the rows already written are kept, and a run with the same name resumes it."""


class ModelError(GridError):
    """The model's answer cannot be used at all. This failure is a result; only `retry_failed=all` repeats its cell."""


class VerdictError(ModelError):
    """No answer of a judge can be read. The judgement is unknown, which does not mean that the judged object failed."""


class ContextError(GridError):
    """The prompt does not fit the model's context. This failure is a result; only `retry_failed=all` repeats its cell.

    `room`: the number of tokens left in the context after the prompt, which is less than the number requested; None if
    the number is not known.
    """

    def __init__(self, message: str, room: int | None = None) -> None:
        self.message, self.room = message, room
        super().__init__(message)

    def __reduce__(self) -> tuple[type[ContextError], tuple[str, int | None]]:
        """Support pickling, so that the error can be passed between processes."""
        return type(self), (self.message, self.room)


class ToolError(GridError):
    """A tool or its world broke. This failure is a result; only `retry_failed=all` repeats its cell."""


class BudgetError(GridError):
    """An episode has used up the budget limit that `key` names. The best trajectory so far is the result."""

    def __init__(self, key: str, most: float) -> None:
        self.key, self.most = key, most
        super().__init__(f"budget.{key}={most:g} is used up")

    def __reduce__(self) -> tuple[type[BudgetError], tuple[str, float]]:
        return BudgetError, (self.key, self.most)


class EngineDiedError(GridError):
    """An engine no longer answers, so its process must be replaced. This is a failure of the infrastructure."""


class EngineError(GridError):
    """A server or replica did not answer, after all retries. This is a failure of the infrastructure."""


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    FAILED = "failed"


class ErrorKind(StrEnum):
    """The kind of a failure. `retry_failed=true` repeats only `infrastructure`. `code`: an unforeseen exception."""

    MODEL = "model"
    TOOL = "tool"
    CONTEXT = "context"
    INFRASTRUCTURE = "infrastructure"
    TIMEOUT = "timeout"
    CODE = "code"

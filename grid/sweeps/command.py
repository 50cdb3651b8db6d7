"""The command line of a sweep as others may read it: without secrets, and without where folders lie."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextvars import ContextVar

GIVEN: ContextVar[str] = ContextVar("given", default="")
"""What the user typed, as `line` or `call` has it; whoever takes a command line sets it."""
_HIDDEN = "***"
_SECRET = re.compile(
    r"""([\w.@-]*(?:key|token(?!s)|secret|passw)[\w.@-]*\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,}\]]+)""", re.IGNORECASE
)
_USER = re.compile(r"(\w://)[^/@\s]+@")
_FOLDER = re.compile(r"(?<![\w:/.*])(?:file://)?(?:~|/)[^,:=\[\]{}'\"]*/(?=[^,:=\[\]{}'\"/])")


def line(program: str, arguments: Sequence[str]) -> str:
    """A program and its arguments as a shell takes them."""
    return f"{program} {shlex.join(map(masked, arguments))}".rstrip()


def call(overrides: Sequence[str]) -> str:
    """A call of the Python API."""
    return f"grid.sweep({', '.join(repr(masked(one)) for one in overrides)})"


def masked(argument: str) -> str:
    """An argument without values of keys that name a secret, users of addresses, and folders that paths begin with."""
    without = _USER.sub(rf"\1{_HIDDEN}@", _SECRET.sub(rf"\1{_HIDDEN}", argument))
    return _FOLDER.sub(".../", without)

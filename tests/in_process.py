"""A command's `main` in the test's own process, for what needs no process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


Run = Callable[..., Said]


def called(main: Callable[[], int], patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *added: str) -> Run:
    """Runs it with arguments, and `added` behind them."""

    def ran(*arguments: object) -> Said:
        patch.setattr("sys.argv", [main.__module__, *map(str, arguments), *added])
        status = main()
        return Said(status, *capsys.readouterr())

    return ran

"""A command's `main` in the test's own process, for what needs no process of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.commands import LAUNCH, Ended


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


def launch(script: str, folder: Path, *arguments: str) -> Ended:
    """As `commands.launch`, but in this process, which need not import anything again.

    Under `grid.cluster.connection.held` all sweeps are drivers of one job, whose workers stay warm between them.
    """
    out, err = StringIO(), StringIO()
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        loggers_kept(),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sys.argv", [str(LAUNCH / f"{script}.py"), *arguments])
        try:
            status: int = import_module(f"launch.{script}").main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return Ended(folder, status, out.getvalue(), err.getvalue())


@contextmanager
def loggers_kept() -> Iterator[None]:
    """Hydra silences every logger of its process for good: what comes after it is to be heard."""
    root = logging.getLogger()
    named = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    level, handlers, silent = root.level, root.handlers[:], {one for one in named if one.disabled}
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        for one in named:
            one.disabled = one in silent

"""The project's scripts as from a shell, without the seconds that their imports take.

Each command is a process of its own, forked from one that has imported what they need (but not Ray, which reads its
environment when it is imported).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grid import store

LAUNCH = Path(__file__).parents[2] / "launch"
HANGS_SECONDS = 600
_PRELOADED = [
    "grid.sweeps.session",
    "grid.synthesis.slate",
    "hydra.main",
    "hydra.core.hydra_config",
    "hydra.core.plugins",
]


@dataclass(frozen=True)
class Ended:
    """A command that has ended, in its working folder."""

    folder: Path
    status: int
    out: str
    err: str

    def rows(self, name: str, table: store.Table = "episodes") -> list[dict[str, Any]]:
        """Of a sweep by its name."""
        found: list[dict[str, Any]] = store.read(self.folder / "results" / name, table, wide=True).to_pylist()
        return found


def files(folder: Path) -> dict[str, bytes]:
    """What lies in a results folder, by name, but for the lock."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if name != ".owner"}


def forks() -> ForkServerContext:
    """What starts processes that have imported what commands need."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_PRELOADED)
    return found


def launch(
    script: str,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Ended:
    """Run `launch/<script>.py` in a folder, with the environment of now and what is added to it.

    `prepare`, a function of a module, is called in the command's process before it begins.
    """
    with started(script, folder, *arguments, environment=environment, prepare=prepare) as (command, said):
        command.join(HANGS_SECONDS)
        command.kill()  # nothing to one that has ended
        command.join()
        assert command.exitcode is not None
        return Ended(folder, command.exitcode, said("out"), said("err"))


@contextmanager
def started(
    script: str,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
) -> Iterator[tuple[BaseProcess, Callable[[str], str]]]:
    """As `launch`: the process while it runs, which ends with the block, and what it has written to "out" or "err"."""
    with TemporaryDirectory() as told:
        command = forks().Process(
            target=_run, args=(script, folder, arguments, os.environ | (environment or {}), Path(told), prepare)
        )
        command.start()

        def said(name: str) -> str:
            file = Path(told) / name
            return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

        try:
            yield command, said
        finally:
            command.kill()
            command.join()


def _run(
    script: str,
    folder: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    said: Path,
    prepare: Callable[[], None] | None,
) -> None:
    for name, descriptor in (("out", 1), ("err", 2)):
        with (said / name).open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    path = str(LAUNCH / f"{script}.py")
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(LAUNCH))
    try:
        if prepare:
            prepare()
        runpy.run_path(path, run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # a forked process ends without them

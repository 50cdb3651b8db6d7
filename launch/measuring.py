"""What a command of README.md or BENCHMARKS.md prints, as these show it."""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from grid.core.errors import GridError

if TYPE_CHECKING:
    from analysis.page.table import Table

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 130
"""Columns of a block of text, at most."""
FOLDERS = {
    "dataset.path=": "ultratool",
    "--ultratool ": "ultratool",
    "--traject ": "traject",
    "--stable ": "stable",
    "--against ": "against",
    "--lats ": "lats",
    "--toolbench ": "toolbench",
}
"""What stands before `...` in a command where a folder of the reader's belongs, and the flag that says which."""
RAN = "ran "
"""How the line begins that a sweep says how long it took in."""
_SWEEP = "launch/sweep.py"
_SCRIPTS = (_SWEEP, "launch/report.py", "launch/bench.py")
_COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CLICOLOR_FORCE")
_TAIL = 2_000  # characters of what a command that fails says


@dataclass(frozen=True)
class Measured:
    """Figures as Markdown, what is said of a sweep's times, when the command began and seconds that it took."""

    figures: str
    times: str
    began: dt.datetime
    seconds: float


def measured(command: str, shown: Sequence[str], folders: Mapping[str, Path | None]) -> Measured:
    """Run a command. A sweep gives those of its tables that are shown, and its times; anything else what it prints.

    Raises:
        GridError: it is none of this project's, a folder is not given, it fails, or it prints too wide a line.
    """
    arguments = command_line(command, folders)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "results")
        sweep = arguments[1] == _SWEEP
        began = dt.datetime.now(dt.UTC)
        said = _said([*arguments, f"store.root={root}"] if sweep else arguments, Path(scratch))
        seconds = (dt.datetime.now(dt.UTC) - began).total_seconds()
        for folder in filter(None, (*folders.values(), ROOT)):
            said = said.replace(str(folder.resolve()), "...")
        if not sweep:
            return Measured(_fenced(said), "", began, seconds)
        if not root.is_dir():
            raise GridError("the sweep has left no results")
        (results,) = root.iterdir()
        return Measured(tables(results, shown), _times(said, results, began, seconds), began, seconds)


def tables(results: Path, shown: Sequence[str]) -> str:
    """A sweep's tables whose names begin as said, as Markdown; `label=value` leaves the rows that have this value.

    Raises:
        GridError: the folder cannot be read, or there is no such table.
    """
    from analysis.page.render import markdown
    from analysis.report import print_report
    from grid import store

    store.check_there(results)
    if not shown:
        return ""
    tables = print_report(results, Console(file=io.StringIO()), papers=True)
    kept = dict(one.split("=", 1) for one in shown if "=" in one)
    found = []
    for begins in (one for one in shown if "=" not in one):
        named = [table for table in tables if table.name.startswith(begins)]
        if not named:
            raise GridError(f"no table's name begins with {begins}; there are {', '.join(one.name for one in tables)}")
        found += [markdown(_only(table, kept)).strip() for table in named]
    return "\n\n".join(found)


def _only(table: Table, kept: Mapping[str, str]) -> Table:
    """Its rows with these values of labels."""
    places = {place: kept[label] for place, label in enumerate(table.labels) if label in kept}
    pairs = zip(table.read, table.rows, strict=True)
    lines = [line for line, row in pairs if all(row[place] == value for place, value in places.items())]
    return table if len(lines) == len(table.rows) else replace(table, lines=lines, breaks=frozenset())


def command_line(command: str, folders: Mapping[str, Path | None]) -> list[str]:
    """The command as a process takes it, its folders filled in.

    Raises:
        GridError: it runs something else than this project, or a folder is not given.
    """
    line = command.replace("\\\n", " ")
    for before, flag in FOLDERS.items():
        if f"{before}..." in line:
            folder = folders.get(flag)
            if folder is None:
                raise GridError(f"{before}... is a folder of yours: say which by --{flag} FOLDER")
            line = line.replace(f"{before}...", before + shlex.quote(str(folder.resolve())))
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise GridError(f"{command}: {error}") from None
    if len(parts) < 2 or parts[0] != "python" or parts[1] not in _SCRIPTS:
        raise GridError(f"{command}: must begin with python and one of {', '.join(_SCRIPTS)}")
    return [sys.executable, *parts[1:]]


def _said(arguments: Sequence[str], scratch: Path) -> str:
    """What a command prints, as on any machine: no colours, one width. It may leave processes that hold the files."""
    environment = {key: value for key, value in os.environ.items() if key not in _COLOURS}
    environment |= {"COLUMNS": str(WIDTH), "PYTHONUTF8": "1"}
    out, err = scratch / "out", scratch / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        ended = subprocess.run(
            arguments, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=False
        )
    said, wrong = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    if ended.returncode:
        raise GridError(f"exit status {ended.returncode}\n{(wrong.strip() or said.strip())[-_TAIL:]}")
    return said


def _fenced(said: str) -> str:
    lines = [line.rstrip() for line in said.strip("\n").split("\n")]
    widest = max(lines, key=len)
    if len(widest) > WIDTH:
        raise GridError(f"a line of {len(widest)} columns, more than {WIDTH}: {widest}")
    return "\n".join(["```text", *lines, "```"])


def _times(said: str, results: Path, began: dt.datetime, seconds: float) -> str:
    """How long a sweep took, and until its first cell was done."""
    from grid import store

    ran = " ".join(re.findall(rf"^{RAN}.*", said, re.M))
    made: dt.datetime = min(store.read(results, "episodes", ["created_at"])["created_at"].to_pylist())
    first = (made - began).total_seconds()
    return f"{ran}; the first was done {first:.1f} s after the command began, which took {seconds:.1f} s"

"""Print the tables of a sweep: `python launch/report.py results/<name>`; `--follow` shows one that runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from analysis.report import print_report
from grid import store
from grid.errors import StoreError
from launch.progress import ENDED, FILE, STOPPING, line

_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 30.0  # without a new state: the sweep's driver has died, or its machine


def main() -> int:
    """Exit status 0, or 2 where the folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    parser.add_argument("--follow", action="store_true", help="show its progress until it ends, then its tables")
    arguments = parser.parse_args()
    folder: Path = arguments.results
    try:
        if arguments.follow:
            follow(folder, Console())
        if not (folder / "episodes").is_dir():
            raise StoreError(f"{folder}: no results here (no folder episodes)")
        store.check(folder)
        print_report(folder, Console())
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def follow(folder: Path, console: Console) -> None:
    """Show the progress that a sweep writes to its folder, from wherever that can be seen, until it has ended.

    Raises:
        StoreError: no sweep has written any.
    """
    if not (folder / FILE).is_file():
        raise StoreError(f"{folder}: no {FILE} here: no sweep of this name has begun to run cells")
    if not console.is_terminal:
        for text in _states(folder):
            console.print(text, markup=False, soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False) as live:
        for text in _states(folder):
            live.update(Text(text), refresh=True)


def _states(folder: Path) -> Iterator[str]:
    """Each new state as a line; and a line for each second in which there should have been one.

    How long there was none is measured here: the sweep's machine may have another time.
    """
    last: dict[str, Any] = {}
    changed = time.monotonic()
    while last.get("state") != ENDED:
        if last:
            time.sleep(_LOOK_SECONDS)
        told = json.loads((folder / FILE).read_text())
        silent = time.monotonic() - changed
        if told != last:
            changed = time.monotonic()
            stopping = "  stopping: what is in flight is finished" if told["state"] == STOPPING else ""
            yield line(told) + stopping
        elif silent > _SILENT_SECONDS:
            yield f"{line(told)}  no sign of life for {silent:,.0f} s"
        last = told


if __name__ == "__main__":
    sys.exit(main())

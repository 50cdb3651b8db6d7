"""Print a sweep's tables and write its page: `python launch/report.py results/<name>`; `--follow` shows it running."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from analysis import drawings, html, spec, study
from analysis.render import FORMATS, Sheet
from analysis.report import print_report
from grid import store
from grid.errors import GridError, StoreError
from launch.progress import ENDED, FILE, STOPPING, line

PAGE = "report.html"
_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 30.0  # without a new state: the sweep's driver has died, or its machine


def main() -> int:
    """Exit status 0, or 2 where the folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    parser.add_argument("--follow", action="store_true", help="show its progress until it ends, then its tables")
    parser.add_argument(
        "--analysis", help="a regression to fit: a file of conf/analysis by its name, or a path that ends in .yaml"
    )
    parser.add_argument("--tables", type=Path, help="a folder for every table as Markdown, CSV and LaTeX")
    arguments = parser.parse_args()
    folder: Path = arguments.results
    try:
        if arguments.follow:
            follow(folder, Console())
        store.check_there(folder)
        store.check(folder)
        analysis = spec.load(_analysis(arguments.analysis)) if arguments.analysis else None
        sheets = print_report(folder, Console(), analysis)
        if arguments.tables:
            write_tables(arguments.tables, sheets)
        page = write_page(folder, sheets)
        print(f"page: {page}")
    except GridError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


def write_page(folder: Path, sheets: Sequence[Sheet]) -> Path:
    """Write `report.html` into a results folder, whole or not at all; returns its path.

    Raises:
        StoreError: the folder cannot be read or written to.
    """
    path = folder / PAGE
    draft = folder / f".{PAGE}"
    try:
        draft.write_text(html.page(folder, sheets, drawings.of(folder)), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error})") from None
    return path


def write_tables(folder: Path, sheets: Sequence[Sheet]) -> None:
    """Write every table as Markdown, CSV and LaTeX, by its name and place.

    Raises:
        StoreError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place, sheet in enumerate(sheets, 1):
            name = re.sub(r"[^a-z0-9]+", "_", sheet.name.lower()).strip("_")[:80]
            for ending, rendered in FORMATS.items():
                (folder / f"{place:02}_{name}.{ending}").write_text(rendered(sheet), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder}: tables cannot be written ({error})") from None


def _analysis(name: str) -> Path:
    return Path(name) if name.endswith(".yaml") else study.PLANNING_HORIZON.parent / f"{name}.yaml"


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

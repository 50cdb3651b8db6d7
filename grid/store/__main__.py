"""Maintain a results folder and read it: `python -m grid.store compact results/<name>`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from grid.core.errors import GridError
from grid.core.places import folder_at
from grid.core.untrusted import shown_lines
from grid.store import check_there, compact, locked
from grid.store.transcripts import lines, transcript


def main() -> int:
    """Run the command; the exit status is 2 after an error, otherwise 0.

    Errors are: the folder has no results or cannot be read; for `compact`, it cannot be written to or a sweep is
    writing to it; for `transcript`, there is no such cell, or its requests were not kept.
    """
    given = _parser().parse_args()
    try:
        check_there(given.results)
        if given.command == "compact":
            _compact(given.results)
        else:
            for line in lines(transcript(given.results, given.cell)):
                print(shown_lines(line))
    except GridError as error:
        print(f"error: {shown_lines(str(error))}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m grid.store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compacting = commands.add_parser("compact", help="merge small files into large files")
    asking = commands.add_parser("transcript", help="print the requests and answers of one cell")
    for command in (compacting, asking):
        command.add_argument("results", type=folder_at, help="the folder of a sweep, results/<name>")
    asking.add_argument("cell", help="the cell's cell_id in the table episodes")
    return parser


def _compact(root: Path) -> None:
    with locked(root):
        counts = compact(root, say=partial(print, "warning:", file=sys.stderr))
    for table, (before, after) in counts.items():
        print(f"{table}: {before:,} files before, {after:,} now")


if __name__ == "__main__":
    sys.exit(main())

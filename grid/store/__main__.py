"""Keep a results folder: `python -m grid.store compact results/<name>`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from grid.errors import StoreError
from grid.store import check_there, compact, locked
from grid.text.untrusted import shown_lines


def main() -> int:
    """Exit status 0, or 2 where the folder cannot be read or written, or a sweep is writing to it."""
    parser = argparse.ArgumentParser(prog="python -m grid.store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("compact", help="make small files into large ones")
    command.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    root: Path = parser.parse_args().results
    try:
        check_there(root)
        with locked(root):
            counts = compact(root, say=partial(print, "warning:", file=sys.stderr))
    except StoreError as error:
        print(f"error: {shown_lines(str(error))}", file=sys.stderr)
        return 2
    for table, (before, after) in counts.items():
        print(f"{table}: {before:,} files before, {after:,} now")
    return 0


if __name__ == "__main__":
    sys.exit(main())

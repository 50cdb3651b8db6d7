"""Print the tables of a sweep: `python launch/report.py results/<name>`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from analysis.report import print_report
from grid import store
from grid.errors import StoreError


def main() -> int:
    """Exit status 0, or 2 where the folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    folder: Path = parser.parse_args().results
    try:
        if not (folder / "episodes").is_dir():
            raise StoreError(f"{folder}: no results here (no folder episodes)")
        store.check(folder)
        print_report(folder, Console())
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

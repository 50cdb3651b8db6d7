"""Open the page of a sweep in a browser: `agent-grid view results/<name>`. Writes it first where there is none."""

from __future__ import annotations

import argparse
import io
import sys
import webbrowser
from pathlib import Path

from grid.errors import GridError, one_line
from launch.report import PAGE


def main() -> int:
    """Exit status 0, or 2 where the folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    page = parser.parse_args().results / PAGE
    try:
        if not page.is_file():
            _write(page.parent)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    print(f"page: {one_line(page)}")
    if not webbrowser.open(page.absolute().as_uri()):
        print("no browser was found: open it yourself")
    return 0


def _write(folder: Path) -> None:
    """Write the page as `report` does; its tables are not printed."""
    from rich.console import Console

    from analysis.report import print_report
    from grid import store
    from launch.report import write_page

    store.check_there(folder)
    store.check(folder)
    write_page(folder, print_report(folder, Console(file=io.StringIO())))


if __name__ == "__main__":
    sys.exit(main())

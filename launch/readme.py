"""Put a sweep's figures into README.md, or check them: `python launch/readme.py results/default [--check]`."""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from analysis.render import Sheet, markdown
from analysis.report import print_report
from grid import store
from grid.errors import GridError, one_line

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(r"(<!-- figures of the default sweep: [^\n]* -->\n).*?(<!-- end of figures -->\n)", re.S)
_SHOWN = ("results", "differences react")  # of the sheets, by how their names begin
_UNDISTURBED = "none"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 where README.md has other figures than the sweep, 2 where it or the sweep cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of a sweep, results/<name>")
    parser.add_argument("--check", action="store_true", help="change nothing")
    given = parser.parse_args(arguments)
    try:
        store.check_there(given.results)
        sheets = print_report(given.results, Console(file=io.StringIO()))
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    said = README.read_text(encoding="utf-8")
    if not _BLOCK.search(said):
        print(f"error: {README} has no place for figures: {_BLOCK.pattern}", file=sys.stderr)
        return 2
    figures = "\n".join(markdown(_undisturbed(sheet)) for sheet in sheets if sheet.name.startswith(_SHOWN))
    now = _BLOCK.sub(lambda block: f"{block[1]}\n{figures}\n{block[2]}", said)
    if not given.check:
        README.write_text(now, encoding="utf-8")
    elif now != said:
        print(f"README.md has other figures than {given.results}; these are right:\n\n{figures}", file=sys.stderr)
        return 1
    return 0


def _undisturbed(sheet: Sheet) -> Sheet:
    """Its rows without a disturbance."""
    place = list(sheet.labels).index("robustness")
    rows = [row for row in sheet.rows if row[place] == _UNDISTURBED]
    return replace(sheet, rows=rows, breaks=frozenset())


if __name__ == "__main__":
    sys.exit(main())

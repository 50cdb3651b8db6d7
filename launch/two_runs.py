"""`agent-grid report results/A results/B`: what changed from one run to the other, as tables and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from grid.core.errors import one_line

if TYPE_CHECKING:
    from analysis.load.unknowns import Unknown
    from analysis.page.table import Table

PAGE = "comparison.html"
"""Its page, in the second folder: a run is compared with those before it."""
_WIDTHS = (100, 160, 10_000)
"""Columns: the first in which a table has room; lists stay short in each."""


def report(first: Path, second: Path, console: Console, unknown: Unknown | None = None) -> Sequence[Table]:
    """Print the comparison and write its page into the second folder; returns its tables.

    Raises:
        AnalysisError, StoreError: the two cannot be compared.
    """
    from analysis.compare.tables import compare
    from analysis.page import html
    from analysis.page.render import show, wide
    from grid.core.untrusted import shown
    from launch.report import write_whole

    found = compare(first, second, unknown)
    for line in found.lines:
        console.print(shown(line), markup=False)
    for table in found.tables:
        any(show(wide(console, width), table) for width in _WIDTHS)
    told = f"A is {first}, B is {second}; the queries run in DuckDB, in the folder from which this report was made"
    page = html.document(found.title, told, found.tables, found.drawings, found.lines)
    write_whole(second / PAGE, page)
    console.print(f"page: {one_line(second / PAGE)}", markup=False, soft_wrap=True)
    return found.tables

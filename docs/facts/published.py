"""The papers' tables whose figures reports show beside ours, from `analysis/papers/tables`."""

from __future__ import annotations

from analysis.papers import files
from docs.facts.markdown import prose, table


def render(_: str) -> str:
    """One row per table: the paper, the table, its title, its columns, and its number of rows."""
    rows = [
        (prose(one.paper), prose(one.table), prose(one.title), ", ".join(map(prose, one.metrics)), str(len(one.rows)))
        for one in files.every()
    ]
    return table(["paper", "table", "what it shows", "columns", "rows"], rows)

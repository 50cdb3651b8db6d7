"""Tables as tests make and read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import html
from analysis.table import Table, texts


def table_of(rows: Sequence[Sequence[str]], values: pd.DataFrame | None = None, **told: Any) -> Table:
    """A table of texts, `planner` and `success` unless `labels` and `figures` are told."""
    labels, figures = told.pop("labels", ["planner"]), told.pop("figures", ["success"])
    given = {"name": "a table", "title": "", "query": "", **told}
    known = pd.DataFrame() if values is None else values
    return Table(by=texts(labels), columns=texts(figures, len(labels)), lines=rows, values=known, **given)


def without_sorting(page: str) -> str:
    """A page but for the one script that it may run, which is ours word for word."""
    script = (Path(html.__file__).parent / "page.js").read_text(encoding="utf-8")
    assert page.count(f"<script>{script}</script>") == 1
    return page.replace(f"<script>{script}</script>", "")


def printed(table: Table) -> list[dict[str, str]]:
    """What a terminal shows of each row, by header."""
    columns, rows = table.brief()
    headers = [*table.labels, *(column.header for column in columns)]
    return [dict(zip(headers, row, strict=True)) for row in rows]

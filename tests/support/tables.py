"""Tables as tests make and read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.page import html
from analysis.page.table import MISSING, Table, texts


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


def by_metric(table: Table) -> list[dict[str, str]]:
    """A published table's texts, a row a metric: its labels, our setting, the metric, and a text a model."""
    names = [*table.labels, *table.figures]
    lines = [dict(zip(names, row, strict=True)) for row in table.rows]
    blocks: list[list[dict[str, str]]] = []
    for place, line in enumerate(lines):
        if not place or place in table.sections:
            blocks.append([])
        blocks[-1].append(line)
    models = dict.fromkeys(line["model"] for line in lines)
    found = []
    for block in blocks:
        ours = [line for line in block if line["model"].endswith(" (ours)")]
        told = {name: block[0][name] for name in table.labels if name not in ("model", "our setting")}
        told |= {"our setting": ours[0]["our setting"] if ours else MISSING}
        for metric in table.figures[1:]:
            texts_of = {line["model"]: line[metric] for line in block}
            if set(texts_of.values()) != {MISSING}:
                cases = ours[0]["cases"] if ours and any(line[metric] != MISSING for line in ours) else MISSING
                found.append(told | {"metric": metric, "cases": cases} | dict.fromkeys(models, MISSING) | texts_of)
    return found

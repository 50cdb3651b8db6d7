"""How trajectories went wrong: the share of cells with each failure pattern (traject_bench §4.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from analysis import load, queries
from analysis.load import SETTING
from analysis.render import Sheet
from grid.metrics.scores import PATTERNS

COLUMN = "failure_patterns"
_CAPTION = (
    "share of cells with each pattern, in %; a cell may have several; none: the calls are the reference's, in whatever "
    "order, or some of them; the rules: grid/metrics/failure_patterns.py"
)


def sheets(root: Path) -> list[Sheet]:
    """A table for each model and dataset whose cells were looked at for patterns."""
    cells = load.episodes(root, [COLUMN], pc.field(COLUMN).is_valid())
    if cells.empty:
        return []
    groups = shares(cells).groupby(SETTING[:2], sort=False, observed=True)
    return [_sheet(root, str(model), str(dataset), own) for (model, dataset), own in groups]


def shares(cells: pd.DataFrame) -> pd.DataFrame:
    """By setting the cells, and of these the share with each pattern and with none."""
    found = {name: [name in list(own) for own in cells[COLUMN]] for name in PATTERNS}
    marked = cells[SETTING].assign(**found, none=[not len(own) for own in cells[COLUMN]])
    grouped = marked.groupby(SETTING, sort=False, observed=True)
    return grouped.agg(cells=("none", "size"), **{name: (name, "mean") for name in (*PATTERNS, "none")}).reset_index()


def _sheet(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Sheet:
    names = [*PATTERNS, "none"]
    rows = [[*map(str, row[2:4]), f"{row[4]:,}", *(f"{100 * share:.1f}" for share in row[5:])] for row in _rows(own)]
    return Sheet(
        name=f"failure patterns {model} {dataset}",
        title=f"{model} on {dataset}: failure patterns",
        caption=_CAPTION,
        labels=SETTING[2:],
        figures=["cells", *(name.replace("_", " ") for name in names)],
        rows=rows,
        values=own,
        query=queries.failure_patterns(root, model, dataset, PATTERNS),
    )


def _rows(own: pd.DataFrame) -> list[list[Any]]:
    return [list(row) for row in own.itertuples(index=False)]

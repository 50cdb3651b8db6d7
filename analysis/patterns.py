"""How trajectories went wrong: the share of cells with each failure pattern (traject_bench §4.2)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis import load, queries
from analysis.load import SETTING
from analysis.table import Table, count, mean
from grid.metrics.scores import PATTERNS

COLUMN = "failure_patterns"
_CAPTION = (
    "share of cells with each pattern, in %; a cell may have several; none: the calls are the reference's, in whatever "
    "order, or some of them; the rules: grid/metrics/failure_patterns.py"
)


def sheets(root: Path) -> list[Table]:
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


def _sheet(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Table:
    return Table(
        name=f"failure patterns {model} {dataset}",
        title=f"{model} on {dataset}: failure patterns",
        by=SETTING[2:],
        columns=[count("cells"), *(mean(name, name.replace("_", " ")) for name in (*PATTERNS, "none"))],
        values=own,
        query=queries.failure_patterns(root, model, dataset, PATTERNS),
        about=_CAPTION,
    )

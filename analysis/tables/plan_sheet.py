"""What all tables of plans share: their rows, query, section, and what is told of scorers and engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.load import queries
from analysis.page.table import Table
from analysis.stats import intervals
from analysis.tables.measures import Measure, columns, known, partly
from analysis.tables.plan_cells import DERIVED, scorers

SECTION = "Plans diagnosed"
KEYS = ("task_family", "horizon_k", "stage", "n_extraneous", "unsolvable_kind")
"""The columns of `episodes` by which tables of plans tell cases apart."""
COMMON = (
    f"means over cases in %, in brackets 95% intervals ({intervals.SHARES}; of differences Student's t, of amounts "
    "that of the mean's logarithm, so that none is below 0; the terminal leaves some out)"
)


def table(
    root: Path,
    cells: pd.DataFrame,
    measures: Sequence[Measure],
    found: Table,
    *,
    counts: Sequence[str] = ("cases", "clusters"),
    bounded: Sequence[str] = (),
) -> Table:
    """A table of some cells, with the columns of its measures; its query gives each case's means.

    `found` has the rows as its values; what it says of itself stands behind what all these tables say. `bounded` are
    the columns whose intervals a terminal shows too.
    """
    shown = known(found.values, measures)
    return replace(
        found,
        columns=columns(found.values, measures, counts, bounded),
        query=query(root, cells, [measure.column for measure in shown]),
        about=f"scored by: {scorers(cells)}; {COMMON}; {found.about}",
        notes=[*partly(found.values, shown), *found.notes],
        section=SECTION,
    )


def query(root: Path, cells: pd.DataFrame, columns: Sequence[str]) -> str:
    """Each case's means of what a table counts, by setting and kind of task."""
    values = {name: DERIVED.get(name, name) for name in columns}
    values = {name: text for name, text in values.items() if text} or {"success": "success"}
    where = {name: sorted(map(str, cells[name].unique())) for name in ("model", "dataset")}
    return queries.by_case(root, values, queries.where(where), KEYS)

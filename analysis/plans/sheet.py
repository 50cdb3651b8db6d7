"""What all tables of plans share: their rows, query, section, and what is told of scorers and engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, queries
from analysis.plans.cells import DERIVED, scorers
from analysis.plans.measures import Measure, known, partly
from analysis.render import Sheet

SECTION = "Plans diagnosed"
NONE = "–"
KEYS = ("task_family", "horizon_k", "stage", "n_extraneous", "unsolvable_kind")
"""The columns of `episodes` by which tables of plans tell cases apart."""
_CELLS = "means over cases in %, in brackets 95% intervals"
COMMON = (
    f"{_CELLS} ({intervals.SHARES}; of differences Student's t, of amounts that of the mean's logarithm, so that none "
    "is below 0; the terminal leaves some out)"
)


@dataclass(frozen=True)
class Rows:
    """A table of groups and how it is written: `labels` are columns with their headers, in front of the counts.

    `bounded` are the columns whose intervals a terminal shows too; a line is drawn where one of `breaks` changes.
    """

    table: pd.DataFrame
    labels: dict[str, str]
    measures: Sequence[Measure]
    counts: Sequence[str] = ("cases", "clusters")
    bounded: Sequence[str] = ()
    breaks: Sequence[str] = ()

    @property
    def shown(self) -> list[Measure]:
        """The measures of which anything is known."""
        return known(self.table, self.measures)

    def texts(self, brief: bool) -> list[list[str]]:
        """A text for each label, count and measure of each row."""
        return [
            [
                *(label(row[name]) for name in self.labels),
                *(f"{row[name]:,.0f}" if pd.notna(row[name]) else NONE for name in self.counts),
                *(
                    measure.brief(row) if brief and measure.column not in self.bounded else measure.text(row)
                    for measure in self.shown
                ),
            ]
            for row in self.table.to_dict("records")
        ]

    def lines(self) -> frozenset[int]:
        """The rows in front of which a line is drawn."""
        if not self.breaks:
            return frozenset()
        own = self.table[list(self.breaks)].astype(str).reset_index(drop=True)
        return frozenset(int(place) for place in own.index[(own != own.shift()).any(axis=1)] if place)


def label(value: Any) -> str:
    """A label as text; whole numbers without a point."""
    if value is None or pd.isna(value):
        return NONE
    return f"{value:g}" if isinstance(value, float) else str(value)


def sheet(
    root: Path,
    cells: pd.DataFrame,
    rows: Rows,
    *,
    name: str,
    title: str,
    caption: str,
    reading: str = "",
    notes: Sequence[str] = (),
    first: str = COMMON,
) -> Sheet:
    """The table of some cells; its query gives each case's means."""
    shown = rows.shown
    told = f"scored by: {scorers(cells)}; {first}; {caption}"
    return Sheet(
        name=name,
        title=title,
        caption=told,
        labels=list(rows.labels.values()),
        figures=[*rows.counts, *(measure.header for measure in shown)],
        rows=rows.texts(brief=False),
        printed=rows.texts(brief=True),
        values=rows.table,
        query=query(root, cells, [measure.column for measure in shown]),
        notes=[*partly(rows.table, shown), *notes],
        breaks=rows.lines(),
        reading=reading,
        section=SECTION,
    )


def query(root: Path, cells: pd.DataFrame, columns: Sequence[str]) -> str:
    """Each case's means of what a table counts, by setting and kind of task."""
    values = {name: DERIVED.get(name, name) for name in columns}
    values = {name: text for name, text in values.items() if text} or {"success": "success"}
    where = {name: sorted(map(str, cells[name].unique())) for name in ("model", "dataset")}
    return queries.by_case(root, values, queries.where(where), KEYS)

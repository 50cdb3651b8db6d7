"""All that a comparison of two runs shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.compare import runs, tables
from analysis.errors import AnalysisError
from analysis.load import planted, provenance, unknowns
from analysis.page.drawing import Drawing
from analysis.page.table import Table
from grid.core.errors import one_line


@dataclass(frozen=True)
class Comparison:
    """Its title, what it shows in sentences, its tables and figures."""

    title: str
    lines: list[str]
    sheets: list[Table]
    drawings: list[Drawing]


def compare(first: Path, second: Path, unknown: unknowns.Unknown | None = None) -> Comparison:
    """Compare the run in `first` (A) with the one in `second` (B).

    `unknown` is how cells count of which nobody can tell whether they succeeded (`unknowns.counted`).

    Raises:
        AnalysisError: they are the same folder, one is empty, or they have no setting or no case in common.
        StoreError: a folder cannot be read.
    """
    if first.resolve() == second.resolve():
        raise AnalysisError(f"{one_line(first, 200)}: named twice; a run is compared with another")
    with unknowns.counted(unknown):
        return _compared(first, second)


def _compared(first: Path, second: Path) -> Comparison:
    both = (runs.read(first), runs.read(second))
    matched = runs.matched(*both)
    table = runs.compared(matched.pairs)
    kinds = provenance.kinds(pd.concat([provenance.kinds(run.cells) for run in both]))
    about = planted.simulated_notice(kinds) + provenance.notice(kinds)
    found = tables.compared_sheets(both, matched, table)
    found += [tables.flips_sheet(both, matched.pairs), tables.changes_sheet(both, matched.pairs)]
    lines = [
        *(f"{name} is {run.root}. {provenance.headline(run.root)}" for name, run in zip("AB", both, strict=True)),
        *tables.alone_lines(both, matched),
        *(f"{name}: {line}" for name, run in zip("AB", both, strict=True) for line in unknowns.warnings(run.cells)),
    ]
    return Comparison(
        title=f"{first.resolve().name} against {second.resolve().name}",
        lines=lines,
        sheets=unknowns.noted(provenance.captioned(found, kinds)),
        drawings=[replace(one, caption=about + one.caption) for one in tables.drawings(both, matched, table)],
    )

"""How far scorers of plans agree: `python launch/agreement.py results/<name> [--labels FILE]`.

Without labels the judge of `dataset.scorer=both` is held against what is computed; with a file of human labels (JSON
Lines or CSV, `analysis/stats/agreement.py`) every scorer is held against them. Tables are printed, and written to
the folder `agreement` of the results as CSV, with all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from analysis.errors import AnalysisError
from analysis.page.render import csv, show
from analysis.page.table import Table
from analysis.papers import agreement
from analysis.papers.agreement import tables
from analysis.stats.agreement import read_labels
from grid import store
from grid.core.errors import GridError, one_line

FOLDER = "agreement"
DONE, CANNOT_RUN = 0, 2


def main() -> int:
    """Exit status 0, or 2 where there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="launch/agreement.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="the results of a sweep")
    parser.add_argument("--labels", type=Path, help="human labels, .jsonl or .csv")
    given = parser.parse_args()
    console = Console(highlight=False, emoji=False)
    try:
        store.check_there(given.folder)
        found, notes = held_against(given.folder, given.labels)
        written = write(given.folder / FOLDER, found)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return CANNOT_RUN
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    for table in found:
        show(console, table, wide=True)
    console.print(f"written to {written}", markup=False, soft_wrap=True)
    return DONE


def held_against(root: Path, file: Path | None) -> tuple[list[Table], list[str]]:
    """The tables of a results folder, and what must be known of them.

    Raises:
        AnalysisError: there is nothing to compare, or labels and episodes do not go together.
        DataError: a label that is wrong.
        StoreError: the folder cannot be read.
    """
    frame = agreement.episodes(root)
    labels, notes = None, list[str]()
    if file is not None:
        labels = agreement.matched(frame, read_labels(file), file)
        notes.append(f"{len(labels.cells):,} labels have an episode here, {labels.unmatched:,} have none")
    found = tables(root, agreement.comparisons(frame, labels))
    if not found:
        raise AnalysisError(
            f"{root}: nothing to compare; it takes episodes of dataset.scorer=both, or labels of plans that were scored"
        )
    return found, notes


def write(folder: Path, found: Sequence[Table]) -> Path:
    """A CSV for each table, and all figures as JSON. Raises AnalysisError where they cannot be written."""
    every: dict[str, Any] = {}
    try:
        folder.mkdir(exist_ok=True)
        for table in found:
            name = table.name.replace(" ", "_")
            (folder / f"{name}.csv").write_text(csv(table), encoding="utf-8")
            every[name] = _plain(table.values)
        text = json.dumps(every, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "agreement.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise AnalysisError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder


def _plain(values: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows; null where a figure is not known."""
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in values.astype(object).to_dict("records")
    ]


if __name__ == "__main__":
    sys.exit(main())

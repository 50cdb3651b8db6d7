"""Why cells failed, by planner: a table and a bar chart for each model and data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals
from analysis.failures import figures, shares
from analysis.failures.cells import CLASSES, WRONG_ARGUMENT
from analysis.figures import Drawing
from analysis.load import SETTING
from analysis.render import Sheet

_CAPTION = (
    "share of all cells of the setting, in % (cells): the first fault on a failed cell's path; value, source and "
    "format are the kinds of wrong arguments; the rules: analysis/failures/rules.py"
)
_QUERY = "python -c 'from pathlib import Path; from analysis.failures.read import classes; print(classes(Path({!r})))'"


def sheets(root: Path) -> list[Sheet]:
    """A table for each model and data set of which any cell failed. Raises StoreError."""
    return [_sheet(root, place, own) for place, own in _places(root)]


def drawings(root: Path, about: str = "") -> list[Drawing]:
    """A bar chart for each; `about` begins its caption. Raises StoreError."""
    found = []
    for (model, dataset), own in _places(root):
        name = f"failures-{len(found)}"
        caption = f"{about}share of all cells of a setting, by the first fault on the path; the rest was resolved"
        found.append(Drawing(name, f"{model} on {dataset}: failures", caption, figures.bars(own, name), _query(root)))
    return found


def _places(root: Path) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    found = shares.by_setting(shares.cells(root))
    if found.empty:
        return []
    groups = found.groupby(SETTING[:2], sort=False, observed=True)
    return [((str(model), str(dataset)), own) for (model, dataset), own in groups]


def _sheet(root: Path, place: tuple[str, str], own: pd.DataFrame) -> Sheet:
    there = [name for name in CLASSES if own[name].any()]
    kinds = [name for name in shares.KINDS if own[name].any()]
    names = [part for name in there for part in ([name, *kinds] if name == WRONG_ARGUMENT else [name])]
    rows = own.to_dict("records")
    model, dataset = place
    return Sheet(
        name=f"failures {model} {dataset}",
        title=f"{model} on {dataset}: failures",
        caption=f"{_CAPTION}; [low, high]: 95% intervals, {intervals.SHARES}",
        labels=SETTING[2:],
        figures=["cells", "failed", *(name.replace("_", " ") for name in names)],
        rows=[_row(row, names, bounds=True) for row in rows],
        values=own,
        query=_query(root),
        printed=[_row(row, names, bounds=False) for row in rows],
        unprinted=frozenset(kinds),
    )


def _row(row: dict[str, Any], names: Sequence[str], bounds: bool) -> list[str]:
    figures = [_share(row, name, bounds) for name in names]
    return [*(str(row[name]) for name in SETTING[2:]), f"{row['cells']:,}", f"{row['failed']:,}", *figures]


def _share(row: dict[str, Any], name: str, bounds: bool) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    reach = f" [{100 * low:.1f}, {100 * high:.1f}]" if bounds and not math.isnan(low) else ""
    return f"{100 * row[f'{name}_share']:.1f}{reach} ({row[name]:,})"


def _query(root: Path) -> str:
    return _QUERY.format(str(root))

"""F1 of tool choice by kind of tool, over all cases: GTA's four categories, m&m's tools one by one."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING, queries
from analysis.page.table import Table, count, mean
from grid.core.untrusted import loads
from grid.metrics.scores import PATTERNS

COUNTS_COLUMN = "tool_counts"
SMALL = 1e-5
"""What GTA's evaluator adds to denominators that may be 0; nothing that is shown depends on it."""
_SHOWN = 8  # kinds at most that have a column of their own
_COUNTS = ["hits", "predicted", "gold"]
_CAPTION = (
    "F1 in %, of hits, calls made and gold calls summed over all cells; macro: mean over kinds with gold calls, the "
    "others are none; GTA counts a gold call as hit whose tool was called at all, so that its F1 can exceed 100"
)


def kind_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose tools are counted by kind."""
    cells = load.episodes(root, [COUNTS_COLUMN], pc.field(COUNTS_COLUMN).is_valid())
    if cells.empty:
        return []
    groups = by_kind(cells).groupby(SETTING[:2], sort=False, observed=True)
    return [_sheet(root, str(model), str(dataset), own) for (model, dataset), own in groups]


def by_kind(cells: pd.DataFrame) -> pd.DataFrame:
    """By setting and kind the cells that count it, sums of hits, predicted and gold, and f1: NaN without gold calls."""
    rows = [
        [*setting, kind, *counts]
        for *setting, found in cells[[*SETTING, COUNTS_COLUMN]].astype(object).itertuples(index=False)
        for kind, counts in loads(found).items()
    ]
    frame = pd.DataFrame(rows, columns=[*SETTING, "kind", *_COUNTS])
    grouped = frame.groupby([*SETTING, "kind"], sort=False)
    summed = grouped.agg(cells=("hits", "size"), **{name: (name, "sum") for name in _COUNTS}).reset_index()
    return summed.assign(f1=f1(summed))


def f1(counts: pd.DataFrame) -> pd.Series[float]:
    """F1 as GTA's evaluator has it, of columns hits, predicted and gold; NaN without gold calls."""
    precision = counts["hits"] / (counts["predicted"] + SMALL)
    recall = counts["hits"] / counts["gold"].where(counts["gold"] > 0)
    return 2 * precision * recall / (precision + recall + SMALL)


def _sheet(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Table:
    kinds = list(dict.fromkeys(own["kind"]))
    shown = kinds if len(kinds) <= _SHOWN else []
    lines = []
    for (robustness, planner), found in own.groupby(SETTING[2:], sort=False):
        values = found.set_index("kind")["f1"]
        line = {"robustness": robustness, "planner": planner, "gold": found["gold"].sum(), "macro": values.mean()}
        lines.append(line | {f"of {kind}": values.get(kind, math.nan) for kind in shown})
    return Table(
        name=f"tool F1 by category {model} {dataset}",
        title=f"{model} on {dataset}: F1 of tool choice by kind of tool",
        by=SETTING[2:],
        columns=[count("gold", "gold calls"), mean("macro", "macro"), *(mean(f"of {kind}", kind) for kind in shown)],
        lines=lines,
        about=_CAPTION,
        values=own,
        query=queries.tool_counts(root, model, dataset, SMALL),
        notes=[] if shown else [f"each of the {len(kinds)} kinds: in the table's CSV file, and by its query"],
    )


# How trajectories went wrong: the share of cells with each failure pattern (traject_bench §4.2).


PATTERNS_COLUMN = "failure_patterns"
_PATTERNS_CAPTION = (
    "share of cells with each pattern, in %; a cell may have several; none: the calls are the reference's, in whatever "
    "order, or some of them; the rules: grid/metrics/failure_patterns.py"
)


def pattern_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose cells were looked at for patterns."""
    cells = load.episodes(root, [PATTERNS_COLUMN], pc.field(PATTERNS_COLUMN).is_valid())
    if cells.empty:
        return []
    groups = shares(cells).groupby(SETTING[:2], sort=False, observed=True)
    return [_patterns_sheet(root, str(model), str(dataset), own) for (model, dataset), own in groups]


def shares(cells: pd.DataFrame) -> pd.DataFrame:
    """By setting the cells, and of these the share with each pattern and with none."""
    found = {name: [name in list(own) for own in cells[PATTERNS_COLUMN]] for name in PATTERNS}
    marked = cells[SETTING].assign(**found, none=[not len(own) for own in cells[PATTERNS_COLUMN]])
    grouped = marked.groupby(SETTING, sort=False, observed=True)
    return grouped.agg(cells=("none", "size"), **{name: (name, "mean") for name in (*PATTERNS, "none")}).reset_index()


def _patterns_sheet(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Table:
    return Table(
        name=f"failure patterns {model} {dataset}",
        title=f"{model} on {dataset}: failure patterns",
        by=SETTING[2:],
        columns=[count("cells"), *(mean(name, name.replace("_", " ")) for name in (*PATTERNS, "none"))],
        values=own,
        query=queries.failure_patterns(root, model, dataset, PATTERNS),
        about=_PATTERNS_CAPTION,
    )

"""What forgiving tools put in the place of what they did not know, and how much of it was silently wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
from scipy.special import ndtri

from analysis import load
from analysis.load import SETTING, queries
from analysis.page.table import Column, Row, Table, bounds, number
from analysis.page.table import count as counted
from analysis.stats.intervals import CLUSTER, Interval, count, interval

REPLACED, WRONG = "replaced_arguments", "wrongly_replaced_arguments"
_COLUMNS = ["tool_calls", REPLACED, WRONG]
_CAPTION = (
    "arguments of calls on the path that forgiving tools replaced; silently wrong: no call of the reference has what "
    "was taken as such an argument, an upper bound where several ways lead to the answer; share: of all replaced, with "
    "its 95% interval over clusters (CR2 of the ratio; at 0 and 100% Wilson's over the clusters with any)"
)


def replacement_tables(root: Path) -> list[Table]:
    """A table for each model and dataset whose tools forgive."""
    cells = load.episodes(root, _COLUMNS, pc.field(REPLACED).is_valid())
    if cells.empty:
        return []
    groups = replacements(cells).groupby(SETTING[:2], sort=False, observed=True)
    return [_sheet(root, str(model), str(dataset), own) for (model, dataset), own in groups]


def replacements(cells: pd.DataFrame) -> pd.DataFrame:
    """By setting the cells, calls, replaced arguments, the wrong ones, and their share of all replaced (NaN of none).

    `wrong_share`, `wrong_low` and `wrong_high` are from 0 to 1.
    """
    rows = []
    for labels, own in cells.groupby(SETTING, sort=False, observed=True):
        share = wrong_share(own)
        sums = {name: int(own[name].sum()) for name in _COLUMNS}
        found = dict(zip(("wrong_share", "wrong_low", "wrong_high"), share, strict=True))
        rows.append(dict(zip(SETTING, map(str, labels), strict=True)) | {"cells": len(own)} | sums | found)
    return pd.DataFrame(rows)


def wrong_share(cells: pd.DataFrame) -> Interval:
    """Wrong over all replaced arguments, the sums of the means of cases over trials, with its interval."""
    cases = cells.groupby([CLUSTER, "case_id"], observed=True)[[REPLACED, WRONG]].mean()
    replaced, wrong = cases[REPLACED], cases[WRONG]
    if not replaced.sum():
        return Interval(math.nan, math.nan, math.nan)
    share = float(wrong.sum() / replaced.sum())
    if share in (0.0, 1.0):
        clusters = count(cases[replaced > 0])
        square = float(ndtri(0.975)) ** 2
        unseen = square / (clusters + square)  # Wilson's interval where all are alike
        return Interval(share, share * (1 - unseen), share + (1 - share) * unseen)
    found = interval(share + (wrong - share * replaced) / replaced.mean())  # the ratio's linear part
    return Interval(share, max(found.low, 0.0), min(found.high, 1.0))


def _sheet(root: Path, model: str, dataset: str, own: pd.DataFrame) -> Table:
    return Table(
        name=f"replacements {model} {dataset}",
        title=f"{model} on {dataset}: what forgiving tools replaced",
        by=SETTING[2:],
        columns=[
            counted("cells"),
            counted("tool_calls", "calls"),
            counted(REPLACED, "replaced"),
            counted(WRONG, "silently wrong"),
            Column("share wrong", _share),
        ],
        values=own,
        query=queries.replacements(root, model, dataset),
        about=_CAPTION,
    )


def _share(row: Row) -> str:
    """In percent; nothing where nothing was replaced, no bounds where the cases are of one cluster."""
    if math.isnan(row["wrong_share"]):
        return ""
    reach = bounds(row["wrong_low"], row["wrong_high"], missing="")
    return f"{number(row['wrong_share'], scale=100)}% {reach}".rstrip()

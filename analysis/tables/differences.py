"""The tables of differences: each planner less a reference, each model less another, paired over cases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.load import queries
from analysis.page.table import POINTS, Column, Row, Table, bounds, count, marks, mean, number, probability
from analysis.stats import intervals
from analysis.stats.power import MOST
from analysis.tables import rates as tables
from analysis.tables.rates import LABELS, place_of

_CHECKS = "checks: how often per case the planner/{} asked whether the case was resolved"
_DIGITS = 2
"""Of a number of cases that is only estimated."""


def differences_sheet(root: Path, differences: pd.DataFrame, reference: str) -> Table:
    """Each planner of one model and dataset less the reference: what `tables.corrected` gives."""
    place = place_of(differences)
    tests = int(differences["success_holm"].notna().sum())
    asked = bool((differences[[tables.CHECKS, f"{tables.CHECKS}_reference"]] > 0).any(axis=None))
    return Table(
        name=f"differences {reference} {place.model} {place.dataset}",
        title=f"{place.title}: difference to {reference}, paired over cases",
        by=LABELS,
        columns=[
            *_columns(),
            Column("checks", _asked, printed=asked, said=_CHECKS.format(reference)),
        ],
        values=differences,
        query=queries.differences(root, *place),
        about=_caption(tests),
        briefly=_short(tests),
        notes=_open(differences),
        breaks=["robustness"],
    )


def models_sheet(root: Path, differences: pd.DataFrame) -> Table:
    """Each model of one data set less the first by name: what `tables.corrected` gives of `tables.paired_models`."""
    dataset, reference = (str(differences[name].iloc[0]) for name in ("dataset", "reference"))
    tests = int(differences["success_holm"].notna().sum())
    return Table(
        name=f"models {dataset}",
        title=f"{dataset}: models, difference to {reference} with the same planner, paired over cases",
        by=[*LABELS, "model"],
        columns=_columns(),
        values=differences,
        query=queries.by_case(root, ["success", "tool_match_rate"], queries.where({"dataset": [dataset]})),
        about=_caption(tests),
        briefly=_short(tests),
        breaks=LABELS,
    )


def _columns() -> list[Column]:
    """What both tables show of a paired difference."""
    return [
        count("cases"),
        count("clusters", printed=False),
        Column("success", lambda row: marked(row, "success")[0]),
        Column("95% interval", lambda row: marked(row, "success")[1]),
        Column("p Holm", lambda row: probability(row["success_holm"])),
        mean("success_h", "h", "+.2f", 1.0),
        Column("tool match", lambda row: marked(row, "tool_match_rate")[0], printed=False),
        Column("95% interval (tools)", lambda row: marked(row, "tool_match_rate")[1], printed=False),
    ]


def _asked(row: Row) -> str:
    return "/".join(number(row[name], ".1f") for name in (tables.CHECKS, f"{tables.CHECKS}_reference"))


def _caption(tests: int) -> str:
    return (
        f"percentage points on the cases that both have; 95% interval: {intervals.TOLD}; *: it excludes 0, †: also by "
        f"Holm's correction; p Holm: p of the success difference, so corrected over the {tests} of this table; "
        f"{intervals.SIZE}; {intervals.ALIKE}"
    )


def _short(tests: int) -> str:
    return (
        f"percentage points on the cases that both have; *: the 95% interval ({intervals.BRIEFLY}) excludes 0, †: also "
        f"by Holm's correction over the {tests} differences of this table; h: Cohen's h (0.2 small, 0.5 medium, 0.8 "
        "large)"
    )


def _open(differences: pd.DataFrame) -> list[str]:
    """How many cases would settle the largest difference in success that is not told from 0; none where all are."""
    known = differences[differences["success_needed"].notna()]
    if known.empty:
        return []
    row = max(known.to_dict("records"), key=lambda one: abs(float(one["success"])))
    return [
        f"largest open difference: {row['planner']} less {row['reference']} ({row['robustness']}), "
        f"{100 * row['success']:+.1f} points; {rounded(row['success_needed'])} cases would settle it (now "
        f"{row['cases']:,}), if it is as large as estimated ({100 * intervals.POWER:.0f}% power at the "
        f"{100 * intervals.LEVEL:.0f}% level, uncorrected, clusters as here)"
    ]


def rounded(cases: float) -> str:
    """Up to two digits: it rests on an estimate."""
    if math.isinf(cases):
        return f"more than {MOST:,}"
    step: int = 10 ** max(math.floor(math.log10(cases)) + 1 - _DIGITS, 0)
    return f"about {math.ceil(cases / step) * step:,}"


def marked(row: Mapping[Any, Any], rate: str) -> tuple[str, str]:
    """A difference with its marks, and its interval, of a row of `tables.corrected`."""
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    if pd.isna(row[rate]):
        return "none", "none"
    told = marks(low, high, row[f"{rate}_holm"], level=intervals.LEVEL)
    return f"{number(row[rate], POINTS, 100)}{told:2}", bounds(low, high, POINTS)

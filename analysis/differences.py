"""The table of differences: each planner less a reference, paired over cases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals, queries, tables
from analysis.power.plans import MOST
from analysis.render import Sheet
from analysis.sheets import LABELS, breaks_of, figure, place_of

_FIGURES = ["success", "95% interval", "p Holm", "h", "tool match", "95% interval (tools)"]
_UNPRINTED = {"clusters", "tool match", "95% interval (tools)"}
_CHECKS = "checks: how often per case the planner/{} asked whether the case was resolved"
_DIGITS = 2
"""Of a number of cases that is only estimated."""


def sheet(root: Path, differences: pd.DataFrame, reference: str) -> Sheet:
    """Each planner of one model and dataset less the reference: what `tables.corrected` gives."""
    place = place_of(differences)
    rows = [
        [
            *(row[name] for name in LABELS),
            *(f"{row[count]:,}" for count in ("cases", "clusters")),
            *bounded(row, "success"),
            _p(row["success_holm"]),
            figure(row["success_h"], "+.2f"),
            *bounded(row, "tool_match_rate"),
            "/".join(figure(row[name], ".1f") for name in (tables.CHECKS, f"{tables.CHECKS}_reference")),
        ]
        for row in differences.to_dict("records")
    ]
    tests = int(differences["success_holm"].notna().sum())
    asked = (differences[[tables.CHECKS, f"{tables.CHECKS}_reference"]] > 0).any(axis=None)
    return Sheet(
        name=f"differences {reference} {place.model} {place.dataset}",
        title=f"{place.title}: difference to {reference}, paired over cases",
        caption=_caption(tests, reference),
        short=_short(tests, reference, bool(asked)),
        labels=LABELS,
        figures=["cases", "clusters", *_FIGURES, "checks"],
        rows=rows,
        unprinted=frozenset(_UNPRINTED if asked else {*_UNPRINTED, "checks"}),
        values=differences,
        query=queries.differences(root, *place),
        notes=_open(differences),
        breaks=breaks_of(differences),
    )


def _caption(tests: int, reference: str) -> str:
    return (
        f"percentage points on the cases that both have; 95% interval: {intervals.TOLD}; *: it excludes 0, †: also by "
        f"Holm's correction; p Holm: p of the success difference, so corrected over the {tests} of this table; "
        f"{intervals.SIZE}; {intervals.ALIKE}; {_CHECKS.format(reference)}"
    )


def _short(tests: int, reference: str, asked: bool) -> str:
    told = (
        f"percentage points on the cases that both have; *: the 95% interval ({intervals.BRIEFLY}) excludes 0, †: also "
        f"by Holm's correction over the {tests} differences of this table; h: Cohen's h (0.2 small, 0.5 medium, 0.8 "
        "large)"
    )
    return told + f"; {_CHECKS.format(reference)}" * asked


def _open(differences: pd.DataFrame) -> list[str]:
    """How many cases would settle the largest difference in success that is not told from 0; none where all are."""
    known = differences[differences["success_needed"].notna()]
    if known.empty:
        return []
    row = max(known.to_dict("records"), key=lambda one: abs(float(one["success"])))
    return [
        f"largest open difference: {row['planner']} less {row['reference']} ({row['robustness']}), "
        f"{100 * row['success']:+.1f} points; {_rounded(row['success_needed'])} cases would settle it (now "
        f"{row['cases']:,}), if it is as large as estimated ({100 * intervals.POWER:.0f}% power at the "
        f"{100 * intervals.LEVEL:.0f}% level, uncorrected, clusters as here)"
    ]


def _rounded(cases: float) -> str:
    """Up to two digits: it rests on an estimate."""
    if math.isinf(cases):
        return f"more than {MOST:,}"
    step: int = 10 ** max(math.floor(math.log10(cases)) + 1 - _DIGITS, 0)
    return f"about {math.ceil(cases / step) * step:,}"


def bounded(row: Mapping[Any, Any], rate: str) -> tuple[str, str]:
    """A difference with its marks, and its interval, of a row of `tables.corrected`."""
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    if pd.isna(row[rate]):
        return "none", "none"
    star = "*" if low > 0 or high < 0 else " "
    dagger = "†" if row[f"{rate}_holm"] < intervals.LEVEL else " "
    shown = f"[{100 * low:+.1f}, {100 * high:+.1f}]" if pd.notna(low) else "none"
    return f"{100 * row[rate]:+.1f}{star}{dagger}", shown


def _p(value: float) -> str:
    return "none" if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"

"""The tables of a results folder, and all of them in one list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from analysis import load, queries, study, tables
from analysis.render import Sheet, terminal
from analysis.spec import Spec
from grid.text.untrusted import shown

_WIDTH = 160
"""Columns that most tables need; narrower terminals get this many all the same, wider tables as many as they need."""
_RESULTS = [
    "cases", "cells", "failed", "success", "tool match", "action acc.", "tokens in", "tokens out", "calls", "passes",
    "seconds",
]  # fmt: skip
_CAPTION = (
    "rates in %, mean ± standard deviation over trials; tokens, model calls, forward passes and seconds are means per "
    "case; failed counts cells"
)
_SCORED = "; unassigned: % of the model's probability that went to no option of an exact choice, mean per case"
_LONG = "coefficients"
"""The table that a terminal is spared: every coefficient; the page and the files have it."""


def print_report(root: Path, console: Console, analysis: Spec | None = None) -> list[Sheet]:
    """Print every table that applies, and where data lie; returns the tables.

    Raises:
        AnalysisError: `analysis` names a column that is not there.
        StoreError: the folder cannot be read.
    """
    console = wide(console)
    episodes = load.episodes(root)
    if episodes.empty:
        console.print(shown(f"{root} holds no episodes yet"), markup=False)
        return []
    sheets = _sheets(root, episodes)
    del episodes  # the study's tables read their own columns
    sheets += study.sheets(root, analysis)
    for sheet in sheets:
        if sheet.name != _LONG:
            table = terminal(sheet)
            wide(console, Console(width=10_000).measure(table).maximum).print(table)
    console.print(
        shown(f"results: {root}/episodes/*.parquet (one row a cell), {root}/steps/*.parquet (one row a decision)"),
        soft_wrap=True,
        markup=False,
    )
    return sheets


def wide(console: Console, width: int = _WIDTH) -> Console:
    """A console for the same place that is wide enough for a table of so many columns."""
    return Console(file=console.file, width=max(console.width, width), highlight=False, emoji=False)


def _sheets(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """The results of each model and dataset, the paired differences to ReAct, the entropy against error table."""
    grouped = tables.results(episodes).groupby(["model", "dataset"], sort=False)
    prefixes = load.answer_prefixes(root)
    sheets = [results_table(root, group, prefixes.get(str(model), "")) for (model, _), group in grouped]
    differences = tables.paired_differences(episodes)
    if not differences.empty:
        sheets.append(differences_table(root, differences))
    entropies = load.first_pass_entropies(root, episodes)
    if not entropies.empty:
        sheets.append(entropy_table(root, tables.entropy_errors(entropies), entropies))
    return sheets


def results_table(root: Path, results: pd.DataFrame, answer_prefix: str = "") -> Sheet:
    """Planner x robustness for one model and dataset; `answer_prefix` is what its answers were made to begin with."""
    model, dataset = (str(results[name].iloc[0]) for name in ("model", "dataset"))
    scored = bool(results[tables.UNASSIGNED].notna().any())
    caption = _CAPTION + _SCORED * scored
    if answer_prefix:
        caption += f"; every answer was made to begin with {json.dumps(answer_prefix)} (model.answer_prefix)"
    rows, breaks, last = [], set(), None
    for place, row in enumerate(results.to_dict("records")):
        if last not in (None, row["robustness"]):
            breaks.add(place)
        last = row["robustness"]
        counts = [f"{row[count]:,}" for count in ("cases", "cells", "failed")]
        rates = [_rate(row[f"{rate}_mean"], row[f"{rate}_std"]) for rate in tables.RATES]
        costs = [f"{row[cost]:,.0f}" for cost in ("input_tokens", "output_tokens")]
        costs += [f"{row[cost]:,.1f}" for cost in ("llm_calls", "forward_passes")] + [f"{row['wall_seconds']:.3f}"]
        if scored:
            share = row[tables.UNASSIGNED]
            costs.append("none" if pd.isna(share) else f"{100 * share:.1f}")
        rows.append([row["robustness"], row["planner"], *counts, *rates, *costs])
    return Sheet(
        name=f"results {model} {dataset}",
        title=f"{model} on {dataset}",
        caption=caption,
        labels=["robustness", "planner"],
        figures=[*_RESULTS, *["unassigned"] * scored],
        rows=rows,
        values=results,
        query=queries.results(root, model, dataset),
        breaks=frozenset(breaks),
    )


def differences_table(root: Path, differences: pd.DataFrame) -> Sheet:
    """Each planner less ReAct, paired over cases."""
    figures = ["cases"]
    for rate in tables.PAIRED:
        figures += [rate.replace("_rate", "").replace("_", " "), "95% interval"]
    return Sheet(
        name="differences",
        title="difference to react, paired over cases",
        caption="percentage points; 95% interval: Student's t over cases, each case its mean over trials; "
        "* the interval excludes 0; no interval where no case differs",
        labels=load.SETTING,
        figures=figures,
        rows=[
            [
                *(row[name] for name in load.SETTING),
                f"{row['cases']:,}",
                *(cell for rate in tables.PAIRED for cell in _interval(row, rate)),
            ]
            for row in differences.to_dict("records")
        ],
        values=differences,
        query=queries.differences(root),
    )


def entropy_table(root: Path, errors: pd.DataFrame, steps: pd.DataFrame) -> Sheet:
    """Error rate by entropy of the first pass, a column a bin."""
    means = steps.groupby([*load.SETTING, "error"])["entropy"].mean()
    rows = []
    for key, group in errors.groupby(load.SETTING, sort=False):
        names = [str(part) for part in key]
        shares = [
            f"{row['errors']}/{row['steps']} = {100 * row['error_rate']:.0f}%" if row["steps"] else "none"
            for row in group.to_dict("records")
        ]
        centres = [f"{means[(*names, e)]:.3f}" if (*names, e) in means else "none" for e in (False, True)]
        rows.append([*names, f"{group['high'].max():.3f}", *shares, *centres])
    return Sheet(
        name="entropy",
        title="entropy against error: first-pass decisions that need a tool (egb_slate, table 6)",
        caption="bins of equal width from 0 to the largest entropy (max, nats); each cell: errors/steps = error rate; "
        "right, wrong: mean entropy of right and of wrong choices",
        labels=load.SETTING,
        figures=["max", *(f"bin {index}" for index in range(1, tables.ENTROPY_BINS + 1)), "right", "wrong"],
        rows=rows,
        values=errors,
        query=queries.entropies(root),
    )


def _rate(mean: float, deviation: float) -> str:
    if pd.isna(mean):
        return "none"
    return f"{100 * mean:.1f} ± {100 * deviation:.1f}" if pd.notna(deviation) else f"{100 * mean:.1f}"


def _interval(row: Mapping[Any, Any], rate: str) -> tuple[str, str]:
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    if pd.isna(row[rate]):
        return "none", "none"
    mark = "*" if low > 0 or high < 0 else " "
    shown = f"[{100 * low:+.1f}, {100 * high:+.1f}]" if pd.notna(low) else "none"
    return f"{100 * row[rate]:+.1f}{mark}", shown

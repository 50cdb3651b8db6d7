"""The tables of a results folder, as terminal text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis import load, tables

_WIDTH = 160
"""Columns that the widest table needs; narrower terminals get this many all the same."""


def print_report(root: Path, console: Console) -> None:
    """Print the results, the paired differences to ReAct, the entropy against error table, and where data lie."""
    console = wide(console)
    episodes = load.episodes(root)
    if episodes.empty:
        console.print(f"{root} holds no episodes yet", markup=False)
        return
    for place, group in tables.results(episodes).groupby(["model", "dataset"], sort=False):
        console.print(results_table(" on ".join(map(str, place)), group))
    differences = tables.paired_differences(episodes)
    if not differences.empty:
        console.print(differences_table(differences))
    entropies = load.first_pass_entropies(root, episodes)
    if not entropies.empty:
        console.print(entropy_table(tables.entropy_errors(entropies), entropies))
    console.print(
        f"results: {root}/episodes/*.parquet (one row a cell), {root}/steps/*.parquet (one row a decision)",
        soft_wrap=True,
        markup=False,
    )


def wide(console: Console) -> Console:
    """A console for the same place that is wide enough for every table."""
    return Console(file=console.file, width=max(console.width, _WIDTH), highlight=False, emoji=False)


def results_table(title: str, results: pd.DataFrame) -> Table:
    """Planner x robustness for one model and dataset."""
    caption = (
        "rates in %, mean ± standard deviation over trials; tokens, model calls, forward passes and seconds are means "
        "per case; failed counts cells"
    )
    figures = "cases|cells|failed|success|tool match|action acc.|tokens in|tokens out|calls|passes|seconds"
    table = _table(title, caption, "robustness|planner", figures)
    last = None
    for row in results.to_dict("records"):
        if last not in (None, row["robustness"]):
            table.add_section()
        last = row["robustness"]
        counts = [f"{row[count]:,}" for count in ("cases", "cells", "failed")]
        rates = [_rate(row[f"{rate}_mean"], row[f"{rate}_std"]) for rate in tables.RATES]
        costs = [f"{row[cost]:,.0f}" for cost in ("input_tokens", "output_tokens")]
        costs += [f"{row[cost]:,.1f}" for cost in ("llm_calls", "forward_passes")] + [f"{row['wall_seconds']:.3f}"]
        table.add_row(escape(row["robustness"]), escape(row["planner"]), *counts, *rates, *costs)
    return table


def differences_table(differences: pd.DataFrame) -> Table:
    """Each planner less ReAct, paired over cases."""
    caption = (
        "percentage points; 95% interval: Student's t over cases, each case its mean over trials; "
        "* the interval excludes 0; no interval where no case differs"
    )
    names = "model|dataset|robustness|planner"
    figures = "|".join(f"{rate.replace('_rate', '').replace('_', ' ')}|95% interval" for rate in tables.PAIRED)
    table = _table("difference to react, paired over cases", caption, names, f"cases|{figures}")
    for row in differences.to_dict("records"):
        cells = [cell for rate in tables.PAIRED for cell in _interval(row, rate)]
        table.add_row(*(escape(row[name]) for name in load.SETTING), f"{row['cases']:,}", *cells)
    return table


def entropy_table(errors: pd.DataFrame, steps: pd.DataFrame) -> Table:
    """Error rate by entropy of the first pass, a column a bin."""
    caption = (
        "bins of equal width from 0 to the largest entropy (max, nats); each cell: errors/steps = error rate; "
        "right, wrong: mean entropy of right and of wrong choices"
    )
    bins = "|".join(f"bin {index}" for index in range(1, tables.ENTROPY_BINS + 1))
    title = "entropy against error: first-pass decisions that need a tool (egb_slate, table 6)"
    table = _table(title, caption, "model|dataset|robustness|planner", f"max|{bins}|right|wrong")
    means = steps.groupby([*load.SETTING, "error"])["entropy"].mean()
    for key, group in errors.groupby(load.SETTING, sort=False):
        names = [str(part) for part in key]
        shares = [
            f"{row['errors']}/{row['steps']} = {100 * row['error_rate']:.0f}%" if row["steps"] else "none"
            for row in group.to_dict("records")
        ]
        centres = [f"{means[(*names, e)]:.3f}" if (*names, e) in means else "none" for e in (False, True)]
        table.add_row(*(escape(name) for name in names), f"{group['high'].max():.3f}", *shares, *centres)
    return table


def _table(title: str, caption: str, names: str, figures: str) -> Table:
    table = Table(
        title=escape(title), caption=caption, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left"
    )
    for name in names.split("|"):
        table.add_column(name, no_wrap=True)
    for figure in figures.split("|"):
        table.add_column(figure, justify="right", no_wrap=True)
    return table


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
    return f"{100 * row[rate]:+.1f}{mark}", escape(shown)

"""The tables of one model on one dataset as they are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.load import SETTING, queries
from analysis.page.table import MISSING, Column, Table, bounded, mean, number, texts
from analysis.tables import rates as tables

LABELS = ["robustness", "planner"]
_COSTS = {
    "input_tokens": ("tokens in", ",.0f"),
    "cached_input_tokens": ("cached", ",.0f"),
    "output_tokens": ("out", ",.0f"),
    "llm_calls": ("calls", ",.1f"),
    "forward_passes": ("passes", ",.1f"),
    "cancelled_llm_calls": ("cancelled", ",.1f"),
    "judge_input_tokens": ("judge in", ",.0f"),
    "judge_output_tokens": ("judge out", ",.0f"),
    "judge_calls": ("judge calls", ",.1f"),
    "judge_passes": ("judge passes", ",.1f"),
    "wall_seconds": ("seconds", ".3f"),
    tables.CHECKS: ("checks", ".1f"),
    "branched_steps": ("branched", ".1f"),
    "unassigned": ("unassigned", ".1%"),
}
"""Costs with their headers and forms."""
_TOKENS = "means per case; tokens in, out: of prompts and answers; calls: completions"
_PASSES = "passes: scoring passes of exact choices"
_ASKED = "checks: how often a planner asked whether the case was resolved"
_BRANCHED = "branched: different steps that were branched on"
_UNASSIGNED = "unassigned: the model's probability that went to no option of an exact choice"
_CANCELLED = "cancelled: of the calls, those of branches that were cancelled as one before them resolved the case"
_CACHED = "cached: of the tokens in, those that the engine had computed before, and took from its prefix cache"
_TIMES = f"x {tables.REFERENCE}: how many times the tokens of {tables.REFERENCE}, all roles', with its 95% interval"
_JUDGE = "judge in, out, calls, passes: the judge's, which the other columns do not count"
_SAID = {"forward_passes": _PASSES, tables.CHECKS: _ASKED}
"""What a caption says of costs that every sweep has."""
_SOMETIMES = {
    **dict.fromkeys(("judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes"), _JUDGE),
    "cached_input_tokens": _CACHED,
    "cancelled_llm_calls": _CANCELLED,
    "branched_steps": _BRANCHED,
    "unassigned": _UNASSIGNED,
}
"""Costs that only some sweeps have, and what captions say of them."""
_UNPRINTED = ("cached_input_tokens", "forward_passes", "judge_calls", "judge_passes", "branched_steps", "unassigned")
"""Costs that a terminal leaves out."""
_CENTRES = {"mean": ".3f", "median": ".3f", "n": ",.0f"}
"""What is told of the entropy of right and of wrong choices, with its form."""
_CENTRE_HEADERS = [name if part == "mean" else f"{name} {part}" for name in tables.CHOICES for part in _CENTRES]
_ENTROPY_PUBLISHED = (
    "published (egb_slate B.2: EGB-Logits with Qwen on SLATE): right n 233, mean 0.052, median 0.000; wrong n 349, "
    "mean 0.119, median 0.081; its own bins (table 8) give a mean of at least 0.41, so these are in another unit"
)


class Place(NamedTuple):
    """What the rows of a table share."""

    model: str
    dataset: str

    @property
    def title(self) -> str:
        """The beginning of a table's title."""
        return f"{self.model} on {self.dataset}"


def costs_sheet(root: Path, results: pd.DataFrame, answer_prefix: str = "") -> Table:
    """Costs of planner x robustness; `answer_prefix` is what the model's answers were made to begin with.

    With the columns of `tables.token_ratios` there is a column of these.
    """
    place = place_of(results)
    shown = [name for name in _COSTS if name not in _SOMETIMES or (results[name].fillna(0) > 0).any()]
    columns = [_cost(name, printed=name not in _UNPRINTED and bool(results[name].any())) for name in shown]
    if tables.TIMES in results and results[tables.TIMES].notna().any():
        columns.append(Column(f"x {tables.REFERENCE}", _times, printed=False, said=_TIMES))
        shown += [tables.TIMES, f"{tables.TIMES}_low", f"{tables.TIMES}_high"]
    prefix = f"every answer was made to begin with {json.dumps(answer_prefix)} (model.answer_prefix)"
    return Table(
        name=f"costs {place.model} {place.dataset}",
        title=f"{place.title}: costs",
        by=LABELS,
        columns=columns,
        values=results[[*SETTING, *shown]],
        query=queries.results(root, *place),
        about="; ".join([_TOKENS, *[prefix] * bool(answer_prefix)]),
        breaks=["robustness"],
    )


def _cost(name: str, printed: bool) -> Column:
    header, form = _COSTS[name]
    return mean(name, header, form, scale=1.0, said=(_SAID | _SOMETIMES).get(name, ""), printed=printed)


def _times(row: Mapping[Any, Any]) -> str:
    return bounded(row, tables.TIMES, ".1f", 1.0, missing=MISSING)


def entropy_sheet(root: Path, errors: pd.DataFrame, steps: pd.DataFrame) -> Table:
    """Error rate by entropy of the first pass, a column a bin; number, mean and median of right and wrong choices."""
    place, centres = place_of(errors), tables.entropy_centres(steps)
    of_setting = {tuple(str(row[name]) for name in SETTING): row for row in centres.to_dict("records")}
    rows = []
    for key, group in errors.groupby(SETTING, sort=False, observed=True):
        names = [str(part) for part in key]
        shares = [
            f"{row['errors']}/{row['steps']} {100 * row['error_rate']:.0f}%" if row["steps"] else "none"
            for row in group.to_dict("records")
        ]
        own = of_setting[tuple(names)]
        told = [number(own[f"{name}_{part}"], form) for name in tables.CHOICES for part, form in _CENTRES.items()]
        rows.append([*names[2:], f"{group['high'].max():.3f}", *shares, *told])
    unprinted = frozenset(_CENTRE_HEADERS) - frozenset(tables.CHOICES)
    bins = [f"bin {index}" for index in range(1, tables.ENTROPY_BINS + 1)]
    columns = texts([*LABELS, "max", *bins, *_CENTRE_HEADERS])[len(LABELS) :]
    return Table(
        name=f"entropy {place.model} {place.dataset}",
        title=f"{place.title}: entropy against error, first-pass decisions that need a tool (egb_slate, table 6)",
        about="bins of equal width from 0 to the largest entropy (max, nats); each cell: errors/steps and error "
        "rate; right, wrong: mean entropy of right and of wrong choices; median: of the same; n: how many they are",
        by=texts(LABELS),
        columns=[replace(one, printed=one.header not in unprinted) for one in columns],
        lines=rows,
        values=errors.merge(centres, on=SETTING, how="left"),
        query=queries.entropies(root, *place),
        notes=[_ENTROPY_PUBLISHED],
    )


def place_of(frame: pd.DataFrame) -> Place:
    """The model and dataset of a table's rows, which have one of each."""
    return Place(str(frame["model"].iloc[0]), str(frame["dataset"].iloc[0]))

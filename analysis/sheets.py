"""The tables of one model on one dataset as they are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis import intervals, queries, tables
from analysis.baselines import BY_FUNCTION, CHANCE, CONSTANT, FIRST, NOTHING, OF_CASES, SOLVABLE, TRANSFER
from analysis.load import SETTING
from analysis.render import Sheet

_LABELS = ["robustness", "planner"]
_NOT_DEFINED = "–"
_RATES = "rates in %, mean ± standard deviation over trials; failed counts cells"
_BASELINES = (
    f"{FIRST} always calls the first tool that it is offered, {CHANCE} takes any option with the same probability: no "
    "planner, no model, and no arguments that could succeed"
)
_OF_SOLVABLE = (
    "solvable: success on the cases all of whose arguments follow from what a planner sees; their share is the row "
    f"{SOLVABLE}"
)
_CONSTANTS = (
    f"{CONSTANT} gives every question the commonest answer of the training questions; {BY_FUNCTION}, which is told in "
    "which function the question's program ends, the commonest of those that end in it: neither reads the question"
)
_ENDS = (
    f"{NOTHING} ends the work without a call, {TRANSFER} hands the user over to a person and does nothing else: rates "
    "of cases, no model is asked"
)
_UNKNOWN = "unknown: cells of which nobody can tell whether they succeeded; success leaves them out"
_MONEY = "USD: US dollars a case, of all roles, by their models' prices; engines that run in the task cost nothing"
_COSTS = {
    "input_tokens": ("tokens in", ",.0f"),
    "output_tokens": ("out", ",.0f"),
    "llm_calls": ("calls", ",.1f"),
    "forward_passes": ("passes", ",.1f"),
    "judge_input_tokens": ("judge in", ",.0f"),
    "judge_output_tokens": ("out", ",.0f"),
    "judge_calls": ("calls", ",.1f"),
    "judge_passes": ("passes", ",.1f"),
    "wall_seconds": ("seconds", ".3f"),
    tables.CHECKS: ("checks", ".1f"),
    "branched_steps": ("branched", ".1f"),
    "unassigned": ("unassigned", ".1%"),
}
"""Costs with their headers and forms."""
_JUDGE = "judge in, and out, calls and passes behind it: the judge's, which the columns in front do not count"
_SOMETIMES = {
    **dict.fromkeys(("judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes"), _JUDGE),
    "branched_steps": "branched: different steps that were branched on",
    "unassigned": "unassigned: the model's probability that went to no option of an exact choice",
}
"""Costs that only some sweeps have, and what captions say of them."""


class _Place(NamedTuple):
    """What the rows of a table share."""

    model: str
    dataset: str

    @property
    def title(self) -> str:
        """The beginning of a table's title."""
        return f"{self.model} on {self.dataset}"


def results_sheet(root: Path, results: pd.DataFrame, baselines: pd.DataFrame) -> Sheet:
    """Rates of planner x robustness for one model and dataset, under each robustness setting the baselines."""
    place = _place(results)
    solvable = bool(results["success_solvable"].notna().any())
    counts = ["cells", "failed", *["unknown"] * bool(results["unknown"].any())]
    priced = bool((results["money"].fillna(0) > 0).any())
    rows: list[list[str]] = []
    breaks: set[int] = set()
    for robustness, group in results.groupby("robustness", sort=False, observed=True):
        breaks.add(len(rows))
        rows += [
            _rates(row, counts, solvable) + [_figure(row["money"], ",.6f")] * priced for row in group.to_dict("records")
        ]
        own = baselines[baselines["robustness"] == robustness]
        rows += [_baseline(row, counts, solvable) + [_NOT_DEFINED] * priced for row in own.to_dict("records")]
    retrieved = _has(baselines, FIRST)
    shown = [name for name in OF_CASES if (baselines["planner"] == name).any()]
    caption = _RATES + f"; {_OF_SOLVABLE}" * solvable + f"; {_BASELINES}" * retrieved
    caption += f"; {_CONSTANTS}" * (CONSTANT in shown) + f"; {_ENDS}" * bool({NOTHING, TRANSFER} & set(shown))
    caption += f"; {_UNKNOWN}" * ("unknown" in counts) + f"; {_MONEY}" * priced
    return Sheet(
        name=f"results {place.model} {place.dataset}",
        title=place.title,
        caption=caption,
        labels=_LABELS,
        figures=["cases", *counts, "success", *["solvable"] * solvable, "tool match", "action acc.", *["USD"] * priced],
        rows=rows,
        values=_joined(results, baselines),
        query=queries.results(root, *place, *["retrieval"] * retrieved, *shown),
        notes=_notes(results),
        breaks=frozenset(breaks - {0}),
    )


def costs_sheet(root: Path, results: pd.DataFrame, answer_prefix: str = "") -> Sheet:
    """Costs of planner x robustness; `answer_prefix` is what the model's answers were made to begin with."""
    place = _place(results)
    shown = [name for name in _COSTS if name not in _SOMETIMES or (results[name].fillna(0) > 0).any()]
    told = ["means per case; out: tokens out; checks: how often a planner asked whether the case was resolved"]
    told += dict.fromkeys(text for name, text in _SOMETIMES.items() if name in shown)
    if answer_prefix:
        told.append(f"every answer was made to begin with {json.dumps(answer_prefix)} (model.answer_prefix)")
    rows = [
        [row["robustness"], row["planner"], *(_figure(row[name], _COSTS[name][1]) for name in shown)]
        for row in results.to_dict("records")
    ]
    return Sheet(
        name=f"costs {place.model} {place.dataset}",
        title=f"{place.title}: costs",
        caption="; ".join(told),
        labels=_LABELS,
        figures=[_COSTS[name][0] for name in shown],
        rows=rows,
        values=results[[*SETTING, *shown]],
        query=queries.results(root, *place),
        breaks=_breaks(results),
    )


def differences_sheet(root: Path, differences: pd.DataFrame, reference: str) -> Sheet:
    """Each planner of one model and dataset less the reference, paired over cases."""
    place = _place(differences)
    figures = ["cases", "clusters"]
    for rate in tables.PAIRED:
        figures += [rate.replace("_rate", "").replace("_", " "), "95% interval"]
    rows = [
        [
            *(row[name] for name in _LABELS),
            *(f"{row[count]:,}" for count in ("cases", "clusters")),
            *(cell for rate in tables.PAIRED for cell in _interval(row, rate)),
            "/".join(_figure(row[name], ".1f") for name in (tables.CHECKS, f"{tables.CHECKS}_reference")),
        ]
        for row in differences.to_dict("records")
    ]
    return Sheet(
        name=f"differences {reference} {place.model} {place.dataset}",
        title=f"{place.title}: difference to {reference}, paired over cases",
        caption=f"percentage points; 95% interval: {intervals.TOLD}; * it excludes 0; {intervals.ALIKE}; "
        f"none where all are of one cluster; checks: how often a case the planner/{reference} asked whether it was "
        "resolved",
        labels=_LABELS,
        figures=[*figures, "checks"],
        rows=rows,
        values=differences,
        query=queries.differences(root, *place),
        notes=_one_cluster(differences),
        breaks=_breaks(differences),
    )


def entropy_sheet(root: Path, errors: pd.DataFrame, steps: pd.DataFrame) -> Sheet:
    """Error rate by entropy of the first pass, a column a bin."""
    place = _place(errors)
    means = steps.groupby([*SETTING, "error"], observed=True)["entropy"].mean()
    rows = []
    for key, group in errors.groupby(SETTING, sort=False, observed=True):
        names = [str(part) for part in key]
        shares = [
            f"{row['errors']}/{row['steps']} {100 * row['error_rate']:.0f}%" if row["steps"] else "none"
            for row in group.to_dict("records")
        ]
        centres = [f"{means[(*names, e)]:.3f}" if (*names, e) in means else "none" for e in (False, True)]
        rows.append([*names[2:], f"{group['high'].max():.3f}", *shares, *centres])
    return Sheet(
        name=f"entropy {place.model} {place.dataset}",
        title=f"{place.title}: entropy against error, first-pass decisions that need a tool (egb_slate, table 6)",
        caption="bins of equal width from 0 to the largest entropy (max, nats); each cell: errors/steps and error "
        "rate; right, wrong: mean entropy of right and of wrong choices",
        labels=_LABELS,
        figures=["max", *(f"bin {index}" for index in range(1, tables.ENTROPY_BINS + 1)), "right", "wrong"],
        rows=rows,
        values=errors,
        query=queries.entropies(root, *place),
    )


def _place(frame: pd.DataFrame) -> _Place:
    return _Place(str(frame["model"].iloc[0]), str(frame["dataset"].iloc[0]))


def _breaks(frame: pd.DataFrame) -> frozenset[int]:
    """The rows at which another robustness setting begins."""
    names = frame["robustness"].astype(str).to_list()
    return frozenset(place for place in range(1, len(names)) if names[place] != names[place - 1])


def _has(baselines: pd.DataFrame, name: str) -> bool:
    return any(str(label).startswith(name) for label in baselines["planner"])


def _rates(row: Mapping[Any, Any], counts: Sequence[str], solvable: bool) -> list[str]:
    success, *others = (_rate(row[f"{rate}_mean"], row[f"{rate}_std"]) for rate in tables.RATES)
    counted = [f"{row[count]:,}" for count in ("cases", *counts)]
    fair = [_figure(row["success_solvable"])] * solvable
    return [*(row[name] for name in _LABELS), *counted, success, *fair, *others]


def _baseline(row: Mapping[Any, Any], counts: Sequence[str], solvable: bool) -> list[str]:
    success, *others = (_figure(row[f"{rate}_mean"], missing=_NOT_DEFINED) for rate in tables.RATES)
    counted = [f"{row['cases']:,}", *[_NOT_DEFINED] * len(counts)]
    return [*(str(row[name]) for name in _LABELS), *counted, success, *[_NOT_DEFINED] * solvable, *others]


def _joined(results: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """All rows of a table's values; counts stay whole numbers."""
    counts = ["cases", "clusters", "cells", "failed", "unknown"]
    texts = dict.fromkeys(SETTING, str)
    joined = pd.concat([results.astype(texts), baselines.astype(texts)], ignore_index=True)
    return joined.astype(dict.fromkeys(counts, "Int64")).drop(columns="repeated")


def _notes(results: pd.DataFrame) -> list[str]:
    """What is not shown, and why: deviations over trials that are all equal."""
    repeated = results[results["repeated"]]
    if len(repeated) == len(results):
        return ["no ±: in every setting all trials are equal, case by case"]
    labels = [f"{planner} ({robustness})" for robustness, planner in repeated[_LABELS].itertuples(index=False)]
    return [f"no ± where all trials are equal, case by case: {', '.join(labels)}"] if labels else []


def _one_cluster(differences: pd.DataFrame) -> list[str]:
    alone = differences[differences["clusters"] == 1]
    return ["no interval where all cases are of one cluster: it would need several"] if len(alone) else []


def _figure(value: float, form: str = "", missing: str = "none") -> str:
    """A number; without a form a share in %."""
    return missing if pd.isna(value) else f"{value:{form}}" if form else f"{100 * value:.1f}"


def _rate(mean: float, deviation: float) -> str:
    return _figure(mean) + (f" ± {100 * deviation:.1f}" if pd.notna(deviation) else "")


def _interval(row: Mapping[Any, Any], rate: str) -> tuple[str, str]:
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    if pd.isna(row[rate]):
        return "none", "none"
    mark = "*" if low > 0 or high < 0 else " "
    shown = f"[{100 * low:+.1f}, {100 * high:+.1f}]" if pd.notna(low) else "none"
    return f"{100 * row[rate]:+.1f}{mark}", shown

"""How far scorers of plans agree, with the paper's figures beside (agent_planning_benchmark tables 7, 8 and 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import intervals
from analysis.agreement.measures import against, bias, per_error
from analysis.agreement.plans import PEOPLE, Comparison
from analysis.intervals import Interval, count
from analysis.published import files
from analysis.search.comparing import name_of
from analysis.table import MISSING, Table, bounds, number, texts

PAPER = "agent_planning_benchmark"
YES, NO = "always correct", "never correct"
"""Judges that look at nothing."""
_PERCENT = ("agreement", "precision", "recall", "error_types", "true_rate", "judged_rate", "rate_bias",
            "passed_wrong", "failed_right")  # fmt: skip
_HEADERS = {
    "agreement": "agreement", "kappa": "kappa", "precision": "precision", "recall": "recall", "f1": "F1",
    "mae": "grade MAE", "error_types": "error types", "true_rate": "true rate", "judged_rate": "judged rate",
    "rate_bias": "bias", "passed_wrong": "wrong passed", "failed_right": "right failed",
    "true_grade": "true grade", "judged_grade": "judged grade", "grade_bias": "grade bias",
}  # fmt: skip
_HOW = (
    f"95% intervals in brackets; of rates and means: {intervals.SHARES.replace('trials', 'its plans')}; of kappa and "
    "F1: percentiles over 2,000 resamples of clusters; rates in %"
)
_VERDICTS = (
    "precision and recall: of plans called correct; error types: of the six errors the share on which both say the "
    "same; unreadable: plans without a verdict after all retries, in no other figure; contradicted: verdicts that call "
    "a plan with an error correct, or one without any wrong: an error counts, and so does a no"
)


def sheets(root: Path, found: Sequence[Comparison]) -> list[Table]:
    """All tables that some comparison has figures for."""
    shown = [overall(root, found), errors(root, found), _different(root, found), _biases(root, found)]
    return [sheet for sheet in shown if sheet]


def overall(root: Path, found: Sequence[Comparison]) -> Table | None:
    """All measures of each scorer, and below it those of judges that look at nothing; None without comparisons."""
    names = ("agreement", "kappa", "precision", "recall", "f1", "mae", "error_types")
    rows, values, breaks = list[list[str]](), list[dict[str, Any]](), set[int]()
    for one in found:
        breaks.add(len(rows))
        told = {"scorer": one.scorer, "truth": one.truth, "plans": one.asked, "clusters": count(one.plans),
                "unreadable": one.unreadable, "contradicted": one.contradicted}  # fmt: skip
        rows.append([one.scorer, one.truth, *_counted(one), *_figures(against(one.plans), names)])
        values.append(told | _flat(against(one.plans), names))
        for label, verdict in ((YES, 1.0), (NO, 0.0)):
            blank = one.plans.assign(said_correct=verdict, said_grade=verdict)
            measured = against(blank.dropna(subset=["true_correct"])) | {"error_types": intervals.UNKNOWN}
            rows.append(
                [label, one.truth, f"{one.asked:,}", f"{count(one.plans):,}", "", "", *_figures(measured, names)]
            )
            values.append({"scorer": label, "truth": one.truth} | _flat(measured, names))
    if not rows:
        return None
    return _sheet(
        root, "agreement", "Scorers of plans against what counts as true", _VERDICTS, ["scorer", "truth"],
        ["plans", "clusters", "unreadable", "contradicted", *(_HEADERS[name] for name in names)], rows, values,
        "7", breaks,
    )  # fmt: skip


def _counted(one: Comparison) -> list[str]:
    contradicted = f"{one.contradicted:,} ({one.contradicted / one.verdicts:.1%})" if one.verdicts else MISSING
    unreadable = f"{one.unreadable:,} ({one.unreadable / one.asked:.1%})"
    return [f"{one.asked:,}", f"{count(one.plans):,}", unreadable, contradicted]


def errors(root: Path, found: Sequence[Comparison]) -> Table | None:
    """Each error by itself; None where none is named."""
    names = ("agreement", "kappa", "precision", "recall", "f1")
    rows, values, breaks = list[list[str]](), list[dict[str, Any]](), set[int]()
    for one in found:
        breaks.add(len(rows))
        for error, measured in per_error(one.plans).items():
            counts = [int(one.plans[f"{who}_{error}"].sum()) for who in ("true", "said")]
            rows.append([one.scorer, one.truth, error, *(f"{n:,}" for n in counts), *_figures(measured, names)])
            told = {"scorer": one.scorer, "truth": one.truth, "error": error, "true": counts[0], "named": counts[1]}
            values.append(told | _flat(measured, names))
    if not rows:
        return None
    figures = ["true", "named", *(_HEADERS[name] for name in names)]
    caption = "true and named: plans that have the error, by what counts as true and by the scorer; an error that " \
        "neither ever names is left out"  # fmt: skip
    return _sheet(root, "agreement by error", "Errors that scorers name", caption, ["scorer", "truth", "error"],
                  figures, rows, values, None, breaks)  # fmt: skip


def _different(root: Path, found: Sequence[Comparison]) -> Table | None:
    names = ("agreement", "mae")
    rows, values = list[list[str]](), list[dict[str, Any]]()
    for one in found:
        right = one.plans[(one.plans["true_correct"] == 1) & one.plans["same"].notna()]
        for label, own in (("correct but different", right[right["same"] == 0]),
                           ("standard correct", right[right["same"] == 1])):  # fmt: skip
            if len(own):
                measured = against(own)
                rows.append([one.scorer, one.truth, label, f"{len(own):,}", f"{count(own):,}",
                             *_figures(measured, names)])  # fmt: skip
                told = {"scorer": one.scorer, "truth": one.truth, "right plans": label, "plans": len(own)}
                values.append(told | _flat(measured, names))
    if not rows:
        return None
    caption = "right plans that call the known solution's tools in its order (standard), or other ones"
    figures = ["plans", "clusters", *(_HEADERS[name] for name in names)]
    return _sheet(root, "agreement on other solutions", "Right plans like the known solution and unlike it", caption,
                  ["scorer", "truth", "right plans"], figures, rows, values, "8")  # fmt: skip


def _biases(root: Path, found: Sequence[Comparison]) -> Table | None:
    names = ("true_rate", "judged_rate", "rate_bias", "passed_wrong", "failed_right", "true_grade", "judged_grade",
             "grade_bias")  # fmt: skip
    rows, values, breaks = list[list[str]](), list[dict[str, Any]](), set[int]()
    for one in found:
        breaks.add(len(rows))
        for model, own in one.plans.groupby("model", sort=True):
            itself = name_of(str(model)) == name_of(one.scorer.removesuffix(" (blind)"))
            measured = bias(own)
            rows.append([one.scorer, one.truth, str(model), "itself" if itself else "", f"{len(own):,}",
                         *_figures(measured, names)])  # fmt: skip
            told = {"scorer": one.scorer, "truth": one.truth, "model": str(model), "itself": itself, "plans": len(own)}
            values.append(told | _flat(measured, names))
    if not rows:
        return None
    caption = (
        "the rate of right plans and the mean grade by what counts as true and by the scorer, and how much higher the "
        "scorer's are; wrong passed: of wrong plans those called right, right failed: of right ones called wrong; "
        "itself: the scorer's own plans. A judge that errs at random is biased for models that are mostly wrong and "
        "against the others: whether it favours its own, these two shares tell"
    )
    figures = ["plans", *(_HEADERS[name] for name in names)]
    return _sheet(root, "judge by model", "Which models' plans a scorer favours", caption,
                  ["scorer", "truth", "model", "own plans"], figures, rows, values, "9", breaks)  # fmt: skip


def _sheet(
    root: Path,
    name: str,
    title: str,
    caption: str,
    labels: Sequence[str],
    figures: Sequence[str],
    rows: Sequence[Sequence[str]],
    values: Sequence[Mapping[str, Any]],
    table: str | None,
    breaks: set[int] = frozenset(),  # type: ignore[assignment]
) -> Table:
    return Table(
        name=name,
        title=title,
        by=texts(labels),
        columns=texts(figures, len(labels)),
        lines=rows,
        about=f"{caption}; {_HOW}",
        values=pd.DataFrame(values),
        query=f"python launch/agreement.py {root}",
        notes=_published(table) if table else [],
        breaks=frozenset(breaks),
    )


def _published(number: str) -> list[str]:
    """The paper's rows, a line each."""
    table = files.load(files.FOLDER / f"{PAPER}_table{number}.yaml")
    lines = [f"The paper's table {number} ({table.title}; its plans, models and prompts): {', '.join(table.metrics)}"]
    for row in table.rows:
        for who, values in row.figures.items():
            by = "" if who == PEOPLE else " by itself" if who in row.labels else f" by {who}"
            figures = ", ".join(f"{value:g}" for value in values if value is not None)
            lines.append(f"{', '.join(row.labels)}{by}: {figures}")
    return [*lines, *table.notes]


def _figures(measured: Mapping[str, Interval], names: Sequence[str]) -> list[str]:
    return [_shown(measured[name], name in _PERCENT, name.endswith("_bias")) for name in names]


def _shown(of: Interval, percent: bool, signed: bool) -> str:
    scale, form = (100, ".1f") if percent else (1, ".3f")
    form = f"+{form}" if signed else form
    return f"{number(of.mean, form, scale, MISSING)} {bounds(of.low, of.high, form, scale, missing='')}".rstrip()


def _flat(measured: Mapping[str, Interval], names: Sequence[str]) -> dict[str, float]:
    return {f"{name}{end}": value for name in names
            for end, value in zip(("", "_low", "_high"), measured[name], strict=True)}  # fmt: skip

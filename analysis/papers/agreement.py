"""The plans of a results folder with each scorer's verdicts, and the agreement between scorers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import name_of
from analysis.page.table import MISSING, Column, Table, bounded, count
from analysis.papers import files
from analysis.stats import intervals
from analysis.stats.agreement import APART, Label, against, bias, per_error
from analysis.stats.intervals import CLUSTER, Interval, n_clusters
from grid.core.types import ERRORS

PEOPLE, COMPUTED = "people", "computed"
"""The sources of verdicts that count as true: people's labels in a file, or the computed verdicts."""
_PLAN = ("correct", "grade", "errors")
_COLUMNS = [
    "config", "evaluator", "trial", "exact_match", "judge_contradicted", "task_family",
    *(f"{who}_{what}" for who in ("plan", "judged") for what in _PLAN),
]  # fmt: skip


class Matched(NamedTuple):
    """Labels matched with episodes: the label of each labelled cell, and the number of labels without an episode."""

    cells: dict[str, Label]
    unmatched: int


class Comparison(NamedTuple):
    """One scorer compared with the verdicts that count as true.

    `plans` has the columns that `agreement.against` reads, and the column `same`.

    `scorer` is COMPUTED or a judge's name, followed by (blind) if the judge saw no known solution; `truth` is PEOPLE or
    COMPUTED. `asked` is the number of plans to be judged, and `unreadable` is the number of these plans without a
    verdict. `verdicts` is the number of plans with a verdict and errors, and `contradicted` is the number of these
    plans whose verdict and errors disagree.
    """

    scorer: str
    truth: str
    plans: pd.DataFrame
    asked: int
    unreadable: int
    contradicted: int
    verdicts: int


def episodes(root: Path) -> pd.DataFrame:
    """The episodes whose plans have a scorer, with `scorer` (the key dataset.scorer) and `judge` (a name or None).

    Raises:
        StoreError: the folder cannot be read.
    """
    frame = load.episodes(root, _COLUMNS, pc.field("task_family").is_valid())
    configs = {text: json.loads(text).get("dataset", {}) for text in frame["config"].astype(str).unique()}
    own = [configs[text] for text in frame["config"].astype(str)]
    scorers = [str(one.get("scorer", "")) for one in own]
    names = [
        None if scorer not in ("judge", "both") else f"{judge}{'' if one.get('judge_reference', True) else ' (blind)'}"
        for scorer, one, judge in zip(scorers, own, frame["evaluator"].astype(object), strict=True)
    ]
    return frame.assign(scorer=scorers, judge=pd.Series(names, index=frame.index, dtype=object))


def matched(frame: pd.DataFrame, labels: Sequence[Label], path: Path) -> Matched:
    """The episode of each label, found by all keys that the label gives.

    Raises:
        AnalysisError: a label fits several episodes, or two labels fit one episode; the error names the line.
    """
    texts = frame[["case_id", *APART]].astype(str)
    by_case = {str(case): own for case, own in texts.groupby("case_id", sort=False, observed=True)}
    cells: dict[str, Label] = {}
    unmatched = 0
    for label in labels:
        fitting = by_case.get(label.case_id)
        if fitting is not None:
            for key, value in label.named.items():
                own = fitting[key]
                fitting = fitting[(own == value) | (own.map(name_of) == value)]
        if fitting is None or fitting.empty:
            unmatched += 1
            continue
        if len(fitting) > 1:
            apart = [key for key in APART[1:] if fitting[key].nunique() > 1] or ["cell_id"]
            why = (
                f"{len(fitting):,} episodes of {label.case_id} fit this label; add {', '.join(apart)} to tell them "
                "apart"
            )
            raise AnalysisError(f"{path}:{label.line}: {why}")
        cell = str(fitting["cell_id"].iloc[0])
        if cell in cells:
            raise AnalysisError(f"{path}:{label.line}: line {cells[cell].line} already labels this episode")
        cells[cell] = label
    return Matched(cells, unmatched)


def comparisons(frame: pd.DataFrame, labels: Matched | None) -> list[Comparison]:
    """Compare each judge with the truth and, if people labelled the plans, the computed verdicts with the labels."""
    found = []
    truth = COMPUTED if labels is None else PEOPLE
    if labels is not None:
        frame = frame[frame["cell_id"].astype(str).isin(labels.cells)]
    for judge, own in frame[frame["judge"].notna()].groupby("judge", sort=True):
        if truth == COMPUTED:
            own = own[own["scorer"] == "both"]
        if len(own):
            found.append(_comparison(str(judge), truth, own, labels))
    computed = frame[frame["scorer"].isin(["symbolic", "both"])]
    if labels is not None and len(computed):
        found.append(_comparison(COMPUTED, truth, computed, labels))
    return found


def _comparison(scorer: str, truth: str, own: pd.DataFrame, labels: Matched | None) -> Comparison:
    alone = own["scorer"] == "judge"
    said = {what: own[f"plan_{what}"].where(alone, own[f"judged_{what}"]) for what in _PLAN}
    true = {what: own[f"plan_{what}"] for what in _PLAN}
    if scorer == COMPUTED:
        said = true
    same = own["exact_match"].astype("float64")
    if labels is not None:
        told = [labels.cells[cell] for cell in own["cell_id"].astype(str)]
        true = {what: pd.Series([getattr(one, what) for one in told], index=own.index, dtype=object) for what in _PLAN}
        given = pd.Series([one.same for one in told], index=own.index, dtype="float64")
        same = given.where(given.notna(), same)
    plans = pd.DataFrame({**dict(_parts("said", said)), **dict(_parts("true", true)), "same": same})
    plans = plans.assign(model=own["model"].astype(str)).set_index(own[CLUSTER].astype(str).rename(CLUSTER))
    flags = own["judge_contradicted"].dropna() if scorer != COMPUTED else own["judge_contradicted"].iloc[:0]
    unreadable = int(plans["said_correct"].isna().sum()) if scorer != COMPUTED else 0
    return Comparison(scorer, truth, plans, len(own), unreadable, int(flags.astype(bool).sum()), len(flags))


def _parts(who: str, of: dict[str, pd.Series[Any]]) -> Iterator[tuple[str, pd.Series[float]]]:
    """`correct`, `grade` and each error as numbers; NaN if the scorer or the truth does not give them."""
    yield f"{who}_correct", of["correct"].astype("float64")
    yield f"{who}_grade", of["grade"].astype("float64")
    told = [None if errors is None else frozenset(errors) for errors in of["errors"]]
    for name in ERRORS:
        flags = [None if errors is None else float(name in errors) for errors in told]
        yield f"{who}_{name}", pd.Series(flags, index=of["errors"].index, dtype="float64")


# The agreement between scorers of plans, next to the paper's figures (agent_planning_benchmark tables 7, 8 and 9).


PAPER = "agent_planning_benchmark"
YES, NO = "always correct", "never correct"
"""Imaginary judges that do not look at the plans."""
_PERCENT = ("agreement", "precision", "recall", "error_types", "true_rate", "judged_rate", "rate_bias",
            "passed_wrong", "failed_right")  # fmt: skip
_HEADERS = {
    "agreement": "agreement", "kappa": "kappa", "precision": "precision", "recall": "recall", "f1": "F1",
    "mae": "grade MAE", "error_types": "error types", "true_rate": "true rate", "judged_rate": "judged rate",
    "rate_bias": "bias", "passed_wrong": "wrong passed", "failed_right": "right failed",
    "true_grade": "true grade", "judged_grade": "judged grade", "grade_bias": "grade bias",
}  # fmt: skip
_HOW = (
    "in brackets: 95% intervals; intervals of rates and means: "
    f"{intervals.SHARES.replace('trials', 'plans')}; intervals of kappa and F1: percentiles over 2,000 resamples of "
    "clusters; rates in %"
)
_VERDICTS = (
    "precision and recall: for the verdict that a plan is correct; error types: the share of the six errors on which "
    "scorer and truth agree; unreadable: plans without a verdict after all retries, left out of all other columns; "
    "contradicted: verdicts that contradict their own list of errors ('correct' with an error, or 'wrong' without "
    "one); a plan with such a verdict counts as wrong"
)


_UNTOLD = ("comparison", "verdicts")
"""These keys of lines are left out of the table's values."""


def tables(root: Path, found: Sequence[Comparison]) -> list[Table]:
    """All tables for which any comparison has figures."""
    shown = [overall(root, found), errors(root, found), _different(root, found), _biases(root, found)]
    return [table for table in shown if table]


def overall(root: Path, found: Sequence[Comparison]) -> Table | None:
    """Each scorer's agreement with the truth, then that of imaginary judges that do not look at the plans.

    None if there are no comparisons.
    """
    names = ("agreement", "kappa", "precision", "recall", "f1", "mae", "error_types")
    lines = list[dict[str, Any]]()
    for place, one in enumerate(found):
        told = _told(place, one) | {"plans": one.asked, "clusters": n_clusters(one.plans)}
        counted = {"unreadable": one.unreadable, "contradicted": one.contradicted, "verdicts": one.verdicts}
        lines.append(told | counted | _flat(against(one.plans), names))
        for label, verdict in ((YES, 1.0), (NO, 0.0)):
            blank = one.plans.assign(said_correct=verdict, said_grade=verdict)
            measured = against(blank.dropna(subset=["true_correct"])) | {"error_types": intervals.UNKNOWN}
            lines.append(told | {"scorer": label} | _flat(measured, names))
    parts = (("unreadable", "plans"), ("contradicted", "verdicts"))
    counts = [*_counts("plans", "clusters"), *(Column(name, partial(_part, name, of)) for name, of in parts)]
    return _table(root, "agreement", "Scorers of plans compared with the truth", _VERDICTS, [], counts, names,
                  lines, "7")  # fmt: skip


def errors(root: Path, found: Sequence[Comparison]) -> Table | None:
    """The agreement on each error separately; None if no error is named."""
    names = ("agreement", "kappa", "precision", "recall", "f1")
    lines = [
        _told(place, one)
        | {"error": error, **{name: int(one.plans[f"{who}_{error}"].sum()) for name, who in _WHOSE.items()}}
        | _flat(measured, names)
        for place, one in enumerate(found)
        for error, measured in per_error(one.plans).items()
    ]
    caption = (
        "true: the number of plans that have the error according to the truth; named: the number of plans that have it "
        "according to the scorer; an error that no plan has according to either is left out"
    )
    return _table(root, "agreement by error", "Errors that scorers name", caption, ["error"], _counts(*_WHOSE), names,
                  lines, None)  # fmt: skip


def _different(root: Path, found: Sequence[Comparison]) -> Table | None:
    names = ("agreement", "mae")
    lines = list[dict[str, Any]]()
    for one in found:
        right = one.plans[one.plans["true_correct"] == 1]
        for label, same in (("correct but different", 0), ("standard correct", 1)):
            own = right[right["same"] == same]
            if len(own):
                told = _told(0, one) | {"right plans": label, "plans": len(own), "clusters": n_clusters(own)}
                lines.append(told | _flat(against(own), names))
    caption = (
        "standard correct: right plans that call the tools of the known solution in its order; correct but "
        "different: all other right plans"
    )
    return _table(root, "agreement on other solutions", "Right plans, like and unlike the known solution", caption,
                  ["right plans"], _counts("plans", "clusters"), names, lines, "8")  # fmt: skip


def _biases(root: Path, found: Sequence[Comparison]) -> Table | None:
    names = ("true_rate", "judged_rate", "rate_bias", "passed_wrong", "failed_right", "true_grade", "judged_grade",
             "grade_bias")  # fmt: skip
    lines = list[dict[str, Any]]()
    for place, one in enumerate(found):
        for model, own in one.plans.groupby("model", sort=True):
            itself = name_of(str(model)) == name_of(one.scorer.removesuffix(" (blind)"))
            told = _told(place, one) | {"model": str(model), "itself": itself, "plans": len(own)}
            lines.append(told | _flat(bias(own), names))
    caption = (
        "true rate and true grade: the share of right plans and the mean grade according to the truth; judged rate "
        "and judged grade: the same according to the scorer; bias and grade bias: the scorer's value minus the true "
        "value; wrong passed: the share of wrong plans that the scorer calls right; right failed: the share of right "
        "plans that it calls wrong; itself: the scorer's own plans. A judge that errs at random is biased in favor of "
        "models that are mostly wrong and against models that are mostly right, so compare the columns `wrong passed` "
        "and `right failed` to see whether a judge favors its own plans"
    )
    owned = Column("own plans", lambda row: "itself" if row["itself"] else "")
    return _table(root, "judge by model", "Bias of a scorer for or against models' plans", caption, ["model", owned],
                  _counts("plans"), names, lines, "9")  # fmt: skip


_WHOSE = {"true": "true", "named": "said"}
"""Map each column that counts errors to the prefix of the flags that the column counts."""


def _told(place: int, one: Comparison) -> dict[str, Any]:
    return {"comparison": place, "scorer": one.scorer, "truth": one.truth}


def _counts(*names: str) -> list[Column]:
    return [count(name) for name in names]


def _part(name: str, of: str, line: Mapping[str, Any]) -> str:
    """A count with its share; an empty text for imaginary judges, which have no counts."""
    if name not in line:
        return ""
    return f"{line[name]:,} ({line[name] / line[of]:.1%})" if line[of] else MISSING


def _table(
    root: Path,
    name: str,
    title: str,
    caption: str,
    labels: Sequence[str | Column],
    counts: Sequence[Column],
    names: Sequence[str],
    lines: Sequence[Mapping[str, Any]],
    number: str | None,
) -> Table | None:
    """The table, or None if there are no lines; `number` is the number of the paper's table."""
    values = pd.DataFrame([{key: value for key, value in line.items() if key not in _UNTOLD} for line in lines])
    return Table(
        name=name,
        title=title,
        by=["scorer", "truth", *labels],
        columns=[*counts, *(Column(_HEADERS[name], partial(_figure, name)) for name in names)],
        lines=lines,
        about=f"{caption}; {_HOW}",
        values=values,
        query=f"python launch/agreement.py {root}",
        notes=_published(number) if number else [],
        breaks=["comparison"],
    ) if lines else None  # fmt: skip


def _published(number: str) -> list[str]:
    """A heading, a line for each row of the paper's table and each source of its figures, and the table's notes."""
    published = files.load(files.FOLDER / f"{PAPER}_table{number}.yaml")
    lines = [
        f"The paper's table {number} ({published.title}; with its own plans, models and prompts): "
        f"{', '.join(published.metrics)}"
    ]
    for row in published.rows:
        for who, values in row.figures.items():
            by = "" if who == PEOPLE else " by itself" if who in row.labels else f" by {who}"
            figures = ", ".join(f"{value:g}" for value in values if value is not None)
            lines.append(f"{', '.join(row.labels)}{by}: {figures}")
    return [*lines, *published.notes]


def _figure(name: str, line: Mapping[str, Any]) -> str:
    scale, form = (100, ".1f") if name in _PERCENT else (1, ".3f")
    form = f"+{form}" if name.endswith("_bias") else form
    return bounded(line, name, form, scale, missing=MISSING)


def _flat(measured: Mapping[str, Interval], names: Sequence[str]) -> dict[str, float]:
    return {key: value for name in names for key, value in measured[name].named(name).items()}

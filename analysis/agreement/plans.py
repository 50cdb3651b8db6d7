"""The plans of a results folder with what each scorer said of them, side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.agreement.labels import APART, Label
from analysis.errors import AnalysisError
from analysis.intervals import CLUSTER
from analysis.search.comparing import name_of
from grid.core.chains import ERRORS

PEOPLE, COMPUTED = "people", "computed"
"""Whose word is the truth: a file of labels, or what is computed."""
_PLAN = ("correct", "grade", "errors")
_COLUMNS = [
    "config", "evaluator", "trial", "exact_match", "judge_contradicted", "task_family",
    *(f"{who}_{what}" for who in ("plan", "judged") for what in _PLAN),
]  # fmt: skip


class Matched(NamedTuple):
    """Labels with their episodes: the cell of each label, and how many labels have none."""

    cells: dict[str, Label]
    unmatched: int


class Comparison(NamedTuple):
    """One scorer against what counts as true; `plans` as `measures.against` takes them, and a column `same`.

    `scorer` is a judge's name, with (blind) where it saw no known solution, or COMPUTED; `truth` is PEOPLE or COMPUTED.
    `asked` counts the plans that were to be judged, `unreadable` those of them without a verdict, `contradicted` those
    whose verdict and errors disagree, of `verdicts` that have both.
    """

    scorer: str
    truth: str
    plans: pd.DataFrame
    asked: int
    unreadable: int
    contradicted: int
    verdicts: int


def episodes(root: Path) -> pd.DataFrame:
    """The episodes that have a scorer of plans, with `scorer` (the key dataset.scorer) and `judge`, its name or None.

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
    """Each label's episode, by all that it names.

    Raises:
        AnalysisError: a label fits several episodes, or an episode two labels; the line is named.
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
            why = f"{len(fitting):,} episodes of {label.case_id} fit it; {', '.join(apart)} would tell them apart"
            raise AnalysisError(f"{path}:{label.line}: {why}")
        cell = str(fitting["cell_id"].iloc[0])
        if cell in cells:
            raise AnalysisError(f"{path}:{label.line}: line {cells[cell].line} labels the same episode")
        cells[cell] = label
    return Matched(cells, unmatched)


def comparisons(frame: pd.DataFrame, labels: Matched | None) -> list[Comparison]:
    """Every judge against the truth, and what is computed against people where they labelled it."""
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
    """correct, grade and each error as numbers; NaN where nobody said."""
    yield f"{who}_correct", of["correct"].astype("float64")
    yield f"{who}_grade", of["grade"].astype("float64")
    told = [None if errors is None else frozenset(errors) for errors in of["errors"]]
    for name in ERRORS:
        flags = [None if errors is None else float(name in errors) for errors in told]
        yield f"{who}_{name}", pd.Series(flags, index=of["errors"].index, dtype="float64")

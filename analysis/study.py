"""The tables of a study that compares planners by regression: planning_horizon's tables 2 to 5 and C.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis import examples, grading, horizon, intervals, load, provenance, queries, reading, regression
from analysis.published import coefficients
from analysis.render import Sheet
from analysis.spec import Spec
from analysis.spec import load as read_spec
from grid import CONF

PLANNING_HORIZON = CONF / "analysis" / "planning_horizon.yaml"
COLUMNS = ["depth", "breadth", "breadth_edges", "last_step", *horizon.REPEATS, *grading.SOURCES]
SUCCESS = {"success": grading.COLUMN}
"""What queries have as success."""
PLANNERS = {"planner": [horizon.FH, horizon.SH]}
Family: TypeAlias = Callable[[str], str]
"""The family of a data set by its label (`Spec.family`)."""
SECTION = "Planning horizon"
OF_PAPER = "published planning_horizon "
"""How the names of its published tables begin."""
TOKENS = ("input_tokens", "output_tokens")
PAIRED = f"95% intervals: {intervals.TOLD}; {intervals.ALIKE}"
_REPEATED = (
    "in %: the same tool with identical arguments at least twice; any two: of all calls, with arguments as they were "
    "run (the paper's text); in a row: a call that follows itself, with arguments as they were written (its official "
    f"code, which made its table); 95% intervals of shares: {intervals.SHARES}; of differences: {intervals.TOLD}; "
    f"{intervals.ALIKE}"
)
_HOLD_OUT = "demonstrations_hold_out"
_HELD_OUT = {
    "template": "of other templates than the case's own; the paper takes those of its own too",
    "question": "those of the case's own template too, as in the paper; the question itself is left out",
}


def rows(root: Path, further: Sequence[str] = ()) -> pd.DataFrame:
    """The episodes of the planners `fh` and `sh`, with what the study needs and `further` columns.

    Success is an evaluator's verdict where there is one (`grading`). Not those whose plans are diagnosed instead of
    run: tables of plans have them.

    Raises:
        StoreError: the folder cannot be read.
    """
    planner = pc.match_substring_regex(pc.field("planner"), r"^(fh|sh)(\[|$)")
    run = planner & pc.field("task_family").is_null()
    return horizon.folded(grading.taken(load.episodes(root, [*COLUMNS, *further], run)))


def regressed(root: Path, spec: Spec) -> pd.DataFrame:
    """The episodes that a regression takes, with success as `rows` has it.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = horizon.folded(grading.taken(load.episodes(root, [*spec.columns(), *grading.SOURCES])))
    for name, values in spec.rows.items():
        found = found[found[name].astype(str).isin(values)]
    return found


def sheets(root: Path, analysis: Spec | None = None, published: Sequence[Sheet] = ()) -> list[Sheet]:
    """Tables 2 to 6 and C.1 where the study's planners ran; the regression is the one given, else the study's own.

    Behind each table stand those of `published` that are the paper's own of it, and published coefficients where the
    regression has the study's, whatever its errors.

    Raises:
        AnalysisError: the regression's file is wrong.
        StoreError: the folder cannot be read.
    """
    episodes = rows(root, provenance.COLUMNS)
    found: list[Sheet] = []
    regressions: list[Sheet] = []
    own = read_spec(PLANNING_HORIZON)
    spec = analysis or own
    same = spec.estimates_as(own)
    if both(episodes):
        tables = (accuracy_sheets, robustness_sheets, repeated_sheets)
        found = [sheet for table in tables for sheet in table(root, episodes, spec.family)]
        found += examples.sheets(root, episodes)
    if analysis or found:
        taken = regressed(root, spec)
        fits, graded = regression.fits(taken, spec), grading.notes(taken)
        title = "table 3: regression coefficients (planning_horizon §4.3)" if same else "regression coefficients"
        regressions = regression.sheets(root, title, spec, fits)
        regressions = [replace(one, notes=[*one.notes, *graded]) for one in regressions]
        for brief in regressions[:1]:
            regressions[0] = replace(brief, reading=reading.coefficients(brief.values, spec.per))
            notes = list(provenance.made_up(episodes).values())
            published = [*published, *(coefficients.sheets(fits, brief.query, notes) if same else [])]
    place = sum(sheet.title.startswith("table 2") for sheet in found)
    return _with(published, [*found[:place], *regressions[:1], *found[place:], *regressions[1:]])


def _with(published: Sequence[Sheet], own: Sequence[Sheet]) -> list[Sheet]:
    """Our tables, each followed by the paper's of its number (2, 2 ratios); those of other numbers at the end."""
    last = {_number_of(sheet.title): place for place, sheet in enumerate(own)}
    behind: dict[int, list[Sheet]] = {}
    for sheet in published:
        number = sheet.name.removeprefix(OF_PAPER).split()[0]
        behind.setdefault(last.get(number, len(own) - 1), []).append(sheet)
    found = [one for place, sheet in enumerate(own) for one in (sheet, *behind.get(place, []))]
    return [replace(sheet, section=SECTION) for sheet in found or published]


def _number_of(title: str) -> str:
    """2 of `table 2: ...`; C.1 of the title of all coefficients."""
    return "C.1" if title == regression.EVERY else title.removeprefix("table ").partition(":")[0]


def both(episodes: pd.DataFrame) -> bool:
    """Whether both planners ran."""
    return set(episodes["planner"].astype(str)) >= {horizon.FH, horizon.SH}


def accuracy_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Sheet]:
    """Table 2, one for each robustness setting."""
    found = []
    for robustness, part in horizon.accuracy_and_tokens(episodes).groupby("robustness", sort=False):
        group, labels, breaks = _by_family(part, family)
        cells = [
            [
                *(row[name] for name in labels),
                *_of_cases(row),
                *(_figure(row[f"success_{planner}"], ".3f") for planner in (horizon.FH, horizon.SH)),
                _bounded(row, "success_difference", "+.3f"),
                *_tokens(row, "input_tokens"),
                *_tokens(row, "output_tokens"),
            ]
            for row in group.to_dict("records")
        ]
        figures = "cases|clusters|FH|SH|SH − FH|in FH|in SH|SH / FH|out FH|out SH|SH / FH"
        found.append(
            Sheet(
                name=f"accuracy {robustness}",
                title=f"table 2: accuracy and tokens per case, {robustness} (planning_horizon §4.2)",
                caption=f"in, out: mean tokens; {PAIRED}; of a ratio of means by the delta method on its "
                "logarithm, none where no case differs in it",
                labels=labels,
                figures=figures.split("|"),
                rows=cells,
                breaks=breaks,
                values=group,
                query=queries.by_case(root, SUCCESS | {name: name for name in TOKENS}, _where(str(robustness))),
                notes=[
                    *_unpaired(group),
                    *grading.notes(episodes[episodes["robustness"] == robustness]),
                    *held_out(episodes[episodes["robustness"] == robustness]),
                ],
                reading=reading.accuracy(group),
            )
        )
    return found


def robustness_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Sheet]:
    """Table 4; none where the two settings were not both run."""
    changes = horizon.robustness_change(episodes)
    if changes.empty:
        return []
    changes, labels, breaks = _by_family(changes, family)
    names = ["change_fh", "change_sh", "change_difference"]
    return [
        Sheet(
            name="robustness",
            title=f"table 4: change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)",
            caption=PAIRED,
            labels=labels,
            figures=["cases", "clusters", "FH", "SH", "SH − FH"],
            rows=[
                [*(row[name] for name in labels), *_of_cases(row), *(_bounded(row, name, "+.3f") for name in names)]
                for row in changes.to_dict("records")
            ],
            breaks=breaks,
            values=changes,
            query=queries.by_case(root, SUCCESS, _where(horizon.HIGH, horizon.LOW)),
            notes=grading.notes(episodes),
            reading=reading.robustness(changes),
        )
    ]


def repeated_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Sheet]:
    """Table 5, one for each robustness setting."""
    found = []
    for robustness, part in horizon.repeated_calls(episodes).groupby("robustness", sort=False):
        group, labels, breaks = _by_family(part, family)
        parts = ((horizon.FH, ".1f"), (horizon.SH, ".1f"), ("difference", "+.1f"))
        cells = [
            [
                *(row[name] for name in labels),
                *_of_cases(row),
                *(_bounded(row, f"{column}_{end}", form, 100) for column in horizon.REPEATS for end, form in parts),
            ]
            for row in group.to_dict("records")
        ]
        names = [f"{name}: {end}" for name in horizon.REPEATS.values() for end in ("FH", "SH", "SH − FH")]
        found.append(
            Sheet(
                name=f"repeated {robustness}",
                title=f"table 5: episodes with a repeated call, {robustness} (planning_horizon §4.5)",
                caption=_REPEATED,
                labels=labels,
                figures=["cases", "clusters", *names],
                rows=cells,
                breaks=breaks,
                values=group,
                query=queries.by_case(root, list(horizon.REPEATS), _where(str(robustness))),
                notes=_unpaired(group),
                reading=reading.repeats(group),
            )
        )
    return found


def _by_family(rows: pd.DataFrame, family: Family) -> tuple[pd.DataFrame, list[str], frozenset[int]]:
    """The rows family by family, their labels, and where another family begins; it is told where it has a name."""
    ordered = rows.assign(family=rows["dataset"].map(family)).sort_values(["family", "dataset", "model"], kind="stable")
    named = bool((ordered["family"] != ordered["dataset"]).any())
    families = ordered["family"].to_list()
    breaks = frozenset(place for place in range(1, len(families)) if families[place] != families[place - 1])
    return ordered, [*["family"] * named, "dataset", "model"], breaks if named else frozenset()


def _where(*robustness: str) -> str:
    return queries.where({**PLANNERS, "robustness": list(robustness)})


def _of_cases(row: Mapping[Any, Any]) -> list[str]:
    return [f"{row[count]:,}" for count in ("cases", "clusters")]


def _unpaired(group: pd.DataFrame) -> list[str]:
    return [
        f"{row['dataset']}, {row['model']}: {row['unpaired']:,} cases that not both planners finished are left out"
        for row in group.to_dict("records")
        if row["unpaired"]
    ]


def _tokens(row: Mapping[Any, Any], name: str) -> list[str]:
    means = [_figure(row[f"{name}_{planner}"], ",.0f") for planner in (horizon.FH, horizon.SH)]
    return [*means, _bounded(row, f"{name}_ratio", ".1f")]


def _bounded(row: Mapping[Any, Any], name: str, form: str, scale: float = 1) -> str:
    """A value with its interval, where it has one."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = _figure(scale * row[name], form)
    return shown if pd.isna(low) else f"{shown} [{scale * low:{form}}, {scale * high:{form}}]"


def _figure(value: float, form: str) -> str:
    return "none" if pd.isna(value) else f"{value:{form}}" if np.isfinite(value) else f"{value:+}"


def held_out(episodes: pd.DataFrame) -> list[str]:
    """A line for each data set and what its demonstrations left out: near copies of a question make it easier.

    None where there are none, or nothing tells. `episodes` have `dataset` and `config`.
    """
    found: dict[str, None] = {}
    for dataset, text in episodes[["dataset", "config"]].dropna().drop_duplicates().itertuples(index=False, name=None):
        config: Mapping[str, Mapping[str, object]] = json.loads(text)
        left_out = config.get("dataset", {}).get(_HOLD_OUT)
        if left_out in _HELD_OUT and config.get("planner", {}).get("demonstrations"):
            told = f"{_HELD_OUT[str(left_out)]} (dataset.{_HOLD_OUT}={left_out})"
            found[f"{dataset}: demonstrations are the nearest solved questions, {told}"] = None
    return [*found]

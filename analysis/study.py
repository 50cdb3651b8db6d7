"""The tables of a study that compares planners by regression: planning_horizon's tables 2 to 5 and C.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from analysis import examples, gee, horizon, intervals, load, queries, reading, regression
from analysis.render import Sheet
from analysis.spec import Spec
from analysis.spec import load as read_spec

PLANNING_HORIZON = Path(__file__).parents[1] / "conf" / "analysis" / "planning_horizon.yaml"
COLUMNS = ["depth", "breadth", "breadth_edges", "last_step", *horizon.REPEATS]
PLANNERS = {"planner": [horizon.FH, horizon.SH]}
PAIRED = f"95% intervals: {intervals.TOLD}; {intervals.ALIKE}"
_REPEATED = (
    "in %: the same tool with identical arguments at least twice; any two: of all calls, with arguments as they were "
    "run (the paper's text); in a row: a call that follows itself, with arguments as they were written (its official "
    f"code, which made its table); 95% intervals of shares: {intervals.SHARES}; of differences: {intervals.TOLD}; "
    f"{intervals.ALIKE}"
)


def rows(root: Path, further: Sequence[str] = ()) -> pd.DataFrame:
    """The episodes of the planners `fh` and `sh`, with what the study needs and `further` columns.

    Raises:
        StoreError: the folder cannot be read.
    """
    planner = pc.match_substring_regex(pc.field("planner"), r"^(fh|sh)(\[|$)")
    return horizon.folded(load.episodes(root, [*COLUMNS, *further], planner))


def sheets(root: Path, analysis: Spec | None = None) -> list[Sheet]:
    """Tables 2 and 4 to 6 where the study's planners ran, and a regression: the one given, else the study's own.

    Raises:
        AnalysisError: the regression's file is wrong.
        StoreError: the folder cannot be read.
    """
    found, regressions = [], []
    title = "regression coefficients" if analysis else "table 3: regression coefficients (planning_horizon §4.3)"
    episodes = rows(root)
    if both(episodes):
        found = [*accuracy_sheets(root, episodes), *robustness_sheets(root, episodes), *repeated_sheets(root, episodes)]
        found += examples.sheets(root, episodes)
        analysis = analysis or read_spec(PLANNING_HORIZON)
    del episodes
    if analysis:
        wanted = horizon.folded(load.episodes(root, analysis.columns()))
        regressions = regression.sheets(root, title, analysis, gee.fits(wanted, analysis))
        for brief in regressions[:1]:
            regressions[0] = replace(brief, reading=reading.coefficients(brief.values, analysis.per))
    place = sum(sheet.title.startswith("table 2") for sheet in found)
    return [*found[:place], *regressions[:1], *found[place:], *regressions[1:]]


def both(episodes: pd.DataFrame) -> bool:
    """Whether both planners ran."""
    return set(episodes["planner"].astype(str)) >= {horizon.FH, horizon.SH}


def accuracy_sheets(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """Table 2, one for each robustness setting."""
    found = []
    for robustness, group in horizon.accuracy_and_tokens(episodes).groupby("robustness", sort=False):
        cells = [
            [
                row["dataset"],
                row["model"],
                *_of_cases(row),
                *(_number(row[f"success_{planner}"], ".3f") for planner in (horizon.FH, horizon.SH)),
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
                title=f"table 2: accuracy and tokens a case, {robustness} (planning_horizon §4.2)",
                caption=f"in, out: mean tokens; {PAIRED}; of a ratio of means by the delta method on its "
                "logarithm, none where no case differs in it",
                labels=["dataset", "model"],
                figures=figures.split("|"),
                rows=cells,
                values=group,
                query=queries.by_case(root, ["success", "input_tokens", "output_tokens"], _where(str(robustness))),
                notes=_unpaired(group),
                reading=reading.accuracy(group),
            )
        )
    return found


def robustness_sheets(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """Table 4; none where the two settings were not both run."""
    changes = horizon.robustness_change(episodes)
    if changes.empty:
        return []
    names = ["change_fh", "change_sh", "change_difference"]
    return [
        Sheet(
            name="robustness",
            title=f"table 4: change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)",
            caption=PAIRED,
            labels=["dataset", "model"],
            figures=["cases", "clusters", "FH", "SH", "SH − FH"],
            rows=[
                [
                    row["dataset"],
                    row["model"],
                    *_of_cases(row),
                    *(_bounded(row, name, "+.3f") for name in names),
                ]
                for row in changes.to_dict("records")
            ],
            values=changes,
            query=queries.by_case(root, ["success"], _where(horizon.HIGH, horizon.LOW)),
            reading=reading.robustness(changes),
        )
    ]


def repeated_sheets(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """Table 5, one for each robustness setting."""
    return [
        Sheet(
            name=f"repeated {robustness}",
            title=f"table 5: episodes with a repeated call, {robustness} (planning_horizon §4.5)",
            caption=_REPEATED,
            labels=["dataset", "model"],
            figures=[
                "cases",
                "clusters",
                *(f"{name}: {part}" for name in horizon.REPEATS.values() for part in ("FH", "SH", "SH − FH")),
            ],
            rows=[
                [
                    row["dataset"],
                    row["model"],
                    *_of_cases(row),
                    *(
                        _bounded(row, f"{column}_{part}", form, 100)
                        for column in horizon.REPEATS
                        for part, form in ((horizon.FH, ".1f"), (horizon.SH, ".1f"), ("difference", "+.1f"))
                    ),
                ]
                for row in group.to_dict("records")
            ],
            values=group,
            query=queries.by_case(root, list(horizon.REPEATS), _where(str(robustness))),
            notes=_unpaired(group),
            reading=reading.repeats(group),
        )
        for robustness, group in horizon.repeated_calls(episodes).groupby("robustness", sort=False)
    ]


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
    means = [_number(row[f"{name}_{planner}"], ",.0f") for planner in (horizon.FH, horizon.SH)]
    return [*means, _bounded(row, f"{name}_ratio", ".1f")]


def _bounded(row: Mapping[Any, Any], name: str, form: str, scale: float = 1) -> str:
    """A value with its interval, where it has one."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    shown = _number(scale * row[name], form)
    return shown if pd.isna(low) else f"{shown} [{scale * low:{form}}, {scale * high:{form}}]"


def _number(value: float, form: str) -> str:
    return "none" if pd.isna(value) else f"{value:{form}}" if np.isfinite(value) else f"{value:+}"

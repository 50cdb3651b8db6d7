"""The tables of a study that compares planners by regression: planning_horizon's tables 2 to 5 and C.1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.load import grading, provenance, queries
from analysis.page.table import FIRST_SECTION, Column, Table, bounded, count, mean
from analysis.papers import coefficients, examples, horizon
from analysis.papers import horizon as reading
from analysis.stats import intervals
from analysis.stats.spec import Spec
from analysis.stats.spec import load as read_spec
from analysis.tables import regression
from grid import CONF
from grid.core.errors import StoreError

PLANNING_HORIZON = CONF / "analysis" / "planning_horizon.yaml"
COLUMNS = ["depth", "breadth", "breadth_edges", "last_step", *horizon.REPEATS, *grading.SOURCES]
SUCCESS = {"success": grading.COLUMN}
"""What queries have as success."""
PLANNERS = {"planner": [horizon.FH, horizon.SH]}
Family: TypeAlias = Callable[[str], str]
"""The family of a data set by its label (`Spec.family`)."""
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


def sheets(
    root: Path, analysis: Spec | None = None, published: Sequence[Table] = (), papers: bool = True
) -> list[Table]:
    """Tables 2 to 6 and C.1 where the study's planners ran; the regression is the one given, else the study's own.

    Behind each table stand those of `published` that are the paper's own of it, and published coefficients (`papers`)
    where the regression has the study's, whatever its errors.

    Raises:
        AnalysisError: the regression's file is wrong.
        StoreError: the folder cannot be read.
    """
    episodes = rows(root, provenance.COLUMNS)
    found: list[Table] = []
    regressions: list[Table] = []
    own = read_spec(PLANNING_HORIZON)
    spec = analysis or own
    same = spec.estimates_as(own)
    if both(episodes):
        tables = (accuracy_sheets, robustness_sheets, repeated_sheets)
        found = [sheet for table in tables for sheet in table(root, episodes, spec.family)]
        found += examples.example_sheets(root, episodes)
    if analysis or found:
        taken = regressed(root, spec)
        fits, graded = regression.fits(taken, spec), grading.notes(taken)
        title = "table 3: regression coefficients (planning_horizon §4.3)" if same else "regression coefficients"
        regressions = regression.sheets(root, title, spec, fits)
        regressions = [replace(one, notes=[*one.notes, *graded]) for one in regressions]
        for brief in regressions[:1]:
            regressions[0] = replace(brief, reading=reading.coefficients(brief.values, spec.per))
            notes = list(provenance.made_up(episodes).values())
            published = [
                *published,
                *(coefficients.coefficient_sheets(fits, brief.query, notes) if same and papers else []),
            ]
    place = sum(sheet.title.startswith("table 2") for sheet in found)
    return _with(published, [*found[:place], *regressions[:1], *found[place:], *regressions[1:]])


def _with(published: Sequence[Table], own: Sequence[Table]) -> list[Table]:
    """Our tables, each followed by the paper's of its number (2, 2 ratios); those of other numbers at the end."""
    last = {_number_of(sheet.title): place for place, sheet in enumerate(own)}
    behind: dict[int, list[Table]] = {}
    for sheet in published:
        number = sheet.name.removeprefix(OF_PAPER).split()[0]
        behind.setdefault(last.get(number, len(own) - 1), []).append(sheet)
    found = [one for place, sheet in enumerate(own) for one in (sheet, *behind.get(place, []))]
    return [replace(sheet, section=FIRST_SECTION) for sheet in found or published]


def _number_of(title: str) -> str:
    """2 of `table 2: ...`; C.1 of the title of all coefficients."""
    return "C.1" if title == regression.EVERY else title.removeprefix("table ").partition(":")[0]


def both(episodes: pd.DataFrame) -> bool:
    """Whether both planners ran."""
    return set(episodes["planner"].astype(str)) >= {horizon.FH, horizon.SH}


def accuracy_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Table]:
    """Table 2, one for each robustness setting."""
    found = []
    for robustness, part in horizon.accuracy_and_tokens(episodes).groupby("robustness", sort=False):
        group, labels = _by_family(part, family)
        own = episodes[episodes["robustness"] == robustness]
        found.append(
            Table(
                name=f"accuracy {robustness}",
                title=f"table 2: accuracy and tokens per case, {robustness} (planning_horizon §4.2)",
                by=labels,
                columns=[
                    *_OF_CASES,
                    *(mean(f"success_{planner}", planner.upper(), ".3f", 1.0) for planner in PLANNERS["planner"]),
                    _column("success_difference", "SH − FH", "+.3f"),
                    *_tokens("input_tokens", "in"),
                    *_tokens("output_tokens", "out"),
                ],
                values=group,
                query=queries.by_case(root, SUCCESS | {name: name for name in TOKENS}, _where(str(robustness))),
                about=f"in, out: mean tokens; {PAIRED}; of a ratio of means by the delta method on its logarithm, none "
                "where no case differs in it",
                breaks=_breaks(group),
                notes=[*_unpaired(group), *grading.notes(own), *held_out(own)],
                reading=reading.accuracy(group),
            )
        )
    return found


def robustness_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Table]:
    """Table 4; none where the two settings were not both run."""
    changes = horizon.robustness_change(episodes)
    if changes.empty:
        return []
    changes, labels = _by_family(changes, family)
    names = {"change_fh": "FH", "change_sh": "SH", "change_difference": "SH − FH"}
    return [
        Table(
            name="robustness",
            title=f"table 4: change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)",
            by=labels,
            columns=[*_OF_CASES, *(_column(name, header, "+.3f") for name, header in names.items())],
            values=changes,
            query=queries.by_case(root, SUCCESS, _where(horizon.HIGH, horizon.LOW)),
            about=PAIRED,
            breaks=_breaks(changes),
            notes=grading.notes(episodes),
            reading=reading.robustness(changes),
        )
    ]


def repeated_sheets(root: Path, episodes: pd.DataFrame, family: Family) -> list[Table]:
    """Table 5, one for each robustness setting."""
    found = []
    parts = {horizon.FH: ("FH", ".1f"), horizon.SH: ("SH", ".1f"), "difference": ("SH − FH", "+.1f")}
    columns = [
        _column(f"{column}_{end}", f"{name}: {header}", form, 100)
        for column, name in horizon.REPEATS.items()
        for end, (header, form) in parts.items()
    ]
    for robustness, part in horizon.repeated_calls(episodes).groupby("robustness", sort=False):
        group, labels = _by_family(part, family)
        found.append(
            Table(
                name=f"repeated {robustness}",
                title=f"table 5: episodes with a repeated call, {robustness} (planning_horizon §4.5)",
                by=labels,
                columns=[*_OF_CASES, *columns],
                values=group,
                query=queries.by_case(root, list(horizon.REPEATS), _where(str(robustness))),
                about=_REPEATED,
                breaks=_breaks(group),
                notes=_unpaired(group),
                reading=reading.repeats(group),
            )
        )
    return found


def _by_family(rows: pd.DataFrame, family: Family) -> tuple[pd.DataFrame, list[str]]:
    """The rows family by family, and their labels; the family is told where it has a name of its own."""
    ordered = rows.assign(family=rows["dataset"].map(family)).sort_values(["family", "dataset", "model"], kind="stable")
    return ordered, [*["family"] * len(_breaks(ordered)), "dataset", "model"]


def _breaks(rows: pd.DataFrame) -> list[str]:
    """Lines are drawn between families that have a name."""
    return ["family"] * bool((rows["family"] != rows["dataset"]).any())


def _where(*robustness: str) -> str:
    return queries.where({**PLANNERS, "robustness": list(robustness)})


_OF_CASES = [count("cases"), count("clusters")]


def _unpaired(group: pd.DataFrame) -> list[str]:
    return [
        f"{row['dataset']}, {row['model']}: {row['unpaired']:,} cases that not both planners finished are left out"
        for row in group.to_dict("records")
        if row["unpaired"]
    ]


def _tokens(name: str, told: str) -> list[Column]:
    means = [mean(f"{name}_{planner}", f"{told} {planner.upper()}", ",.0f", 1.0) for planner in PLANNERS["planner"]]
    return [*means, _column(f"{name}_ratio", "SH / FH", ".1f")]


def _column(name: str, header: str, form: str, scale: float = 1.0) -> Column:
    """A value with its interval."""
    return Column(header, lambda row: bounded(row, name, form, scale))


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


# What a results folder lacks of the planning-horizon study that it has begun.


_HOW = "`agent-grid sweep -m +experiment=planning_horizon` runs what they need"


def missing(root: Path) -> list[str]:
    """A sentence for each part that is missing; none where nothing is, nor where neither `fh` nor `sh` was run.

    Raises:
        StoreError: the folder cannot be read.
    """
    episodes = rows(root)
    return [] if episodes.empty else sentences(episodes)


def opened(root: Path) -> tuple[pd.DataFrame, list[str]]:
    """What a notebook begins with: what `study.rows` gives, and what it shows and lacks, in sentences.

    A folder that cannot be read has no rows, and the reason is its sentence.
    """
    try:
        episodes = rows(root, provenance.COLUMNS)
        return episodes, [provenance.headline(root), *sentences(episodes)]
    except StoreError as error:
        return pd.DataFrame({"planner": [], "robustness": []}), [f"There is nothing to show: {error}"]


def sentences(episodes: pd.DataFrame) -> list[str]:
    """As `missing`, of what `study.rows` gives."""
    if not both(episodes):
        there = ", ".join(sorted(set(episodes["planner"].astype(str)))) or "neither"
        compared = f"they compare the planners fh and sh where calls are run, and of these there is {there} here"
        return [f"planning_horizon's tables 2 to 6 and figures are not here: {compared}; {_HOW}."]
    found = []
    if horizon.robustness_change(episodes).empty:
        needed = f"{horizon.HIGH} and {horizon.LOW} of one model on one data set"
        found.append(f"planning_horizon's table 4 is not here: it needs {needed}; {_HOW}.")
    if episodes["depth"].isna().all():
        found.append(
            "planning_horizon's table 3 and the figures by depth and breadth are not here: of no case the reference's "
            "plan is known."
        )
    return found

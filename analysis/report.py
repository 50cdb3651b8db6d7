"""The tables of a results folder, all of them in one list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis import (
    disturbances,
    kinds,
    lacking,
    load,
    made_up,
    pass_k,
    patterns,
    planted,
    provenance,
    replacements,
    restoration,
    rewards,
    sheets,
    study,
    tables,
    unreadable,
    win_rates,
)
from analysis.baselines import baselines
from analysis.failures import sheets as failures
from analysis.frontier import drawings as frontier
from analysis.plans import sheets as plans
from analysis.published import sheets as published
from analysis.render import Sheet, terminal
from analysis.search import sheets as search
from analysis.spec import Spec
from analysis.trajectory import metrics, scaling
from grid.text.untrusted import shown

_WIDTH = 160
"""Columns that most tables need; narrower terminals get this many all the same, wider tables as many as they need."""
_READABLE = 120
"""Columns that the tables of a sweep are made for."""
_PLACE = ["model", "dataset"]
_LONG = ("coefficients", "trajectories", f"{study.OF_PAPER}C.1", plans.OF_PAPER, frontier.NAME)
"""How the names of tables begin that a terminal is spared: the page and the files have them."""


def print_report(root: Path, console: Console, analysis: Spec | None = None) -> list[Sheet]:
    """Print every table that applies, and where data lie; returns the tables.

    Raises:
        AnalysisError: `analysis` names a column that is not there.
        StoreError: the folder cannot be read.
    """
    console = wide(console, _READABLE)
    episodes = load.episodes(root, [*planted.COLUMNS, *provenance.COLUMNS])
    if episodes.empty:
        console.print(shown(f"{provenance.EMPTY}: {root}"), markup=False)
        return []
    console.print(shown(provenance.first_line(episodes)), markup=False)
    for line in unreadable.warnings(root):
        console.print(shown(line), markup=False, soft_wrap=True)
    found = [*_sheets(root, episodes), *pass_k.sheets(root, episodes), *rewards.sheets(root)]
    found += planted.sheet(root, episodes)
    told = planted.told(episodes) + made_up.told(episodes) + restoration.told(root)
    del episodes  # the study's tables read their own columns
    beside = published.sheets(root)
    of_study = [sheet for sheet in beside if sheet.name.startswith(study.OF_PAPER)]
    of_plans = [replace(sheet, section=plans.SECTION) for sheet in beside if sheet.name.startswith(plans.OF_PAPER)]
    found += [sheet for sheet in beside if not sheet.name.startswith((study.OF_PAPER, plans.OF_PAPER))]
    found += [*plans.sheets(root), *of_plans]
    found += failures.sheets(root)
    found += [*_trajectories(root), *kinds.sheets(root), *patterns.sheets(root), *replacements.sheets(root)]
    found += disturbances.sheets(root)
    found += study.sheets(root, analysis, of_study)
    found += [*search.sheets(root), *restoration.sheets(root), *win_rates.sheets(root), *frontier.sheets(root)]
    found = [replace(sheet, caption=told + sheet.caption) for sheet in found]
    for sheet in found:
        if not sheet.name.startswith(_LONG):
            table = terminal(sheet)
            wide(console, Console(width=10_000).measure(table).maximum).print(table)
    for line in lacking.of(root):
        console.print(shown(line), markup=False)
    console.print(
        shown(f"results: {root}/episodes/*.parquet (one row a cell), {root}/steps/*.parquet (one row a decision)"),
        soft_wrap=True,
        markup=False,
    )
    return found


def _trajectories(root: Path) -> list[Sheet]:
    """What was called against the reference's calls, where anything is known of that."""
    cells = metrics.read(root)
    return [*metrics.sheets(root, cells), *scaling.sheets(root, cells)] if len(cells) else []


def wide(console: Console, width: int = _WIDTH) -> Console:
    """A console for the same place that is wide enough for a table of so many columns."""
    return Console(file=console.file, width=max(console.width, width), highlight=False, emoji=False)


def _sheets(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """For each model and dataset its rates with the baselines, its costs, differences, and entropy against error."""
    results, needing_no_model = tables.results(episodes), baselines(root, episodes)
    entropies = load.first_pass_entropies(root, episodes)
    prefixes = load.answer_prefixes(root)
    found = []
    for (model, dataset), own in results.groupby(_PLACE, sort=False, observed=True):
        place = (str(model), str(dataset))
        found.append(sheets.results_sheet(root, own, _of(needing_no_model, place)))
        found.append(sheets.costs_sheet(root, own, prefixes.get(place[0], "")))
        found += _differences(root, _of(episodes, place))
        met = _of(entropies, place)
        if not met.empty:
            found.append(sheets.entropy_sheet(root, tables.entropy_errors(met), met))
    return found


def _differences(root: Path, episodes: pd.DataFrame) -> list[Sheet]:
    """To ReAct; and to its control for those who asked whether a case was resolved, where both ran."""
    found = []
    for reference in ("react", "retry"):
        differences = tables.paired_differences(episodes, reference)
        if reference == "retry" and not differences.empty:
            differences = differences[differences[tables.CHECKS] > 0]
        if not differences.empty:
            found.append(sheets.differences_sheet(root, differences, reference))
    return found


def _of(frame: pd.DataFrame, place: tuple[str, str]) -> pd.DataFrame:
    """The rows of one model and dataset."""
    return frame[(frame["model"] == place[0]) & (frame["dataset"] == place[1])]
